"""The cells of the study: which there are, running those that are missing, and reading them back on any machine.

Beside them lies ``requests.json``: the source, the group of twins and a hash of every request, but no text.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.attacks import Attack, FileSetting, file_scale, read_cell, run_matrix
from holdfast.audits.suites import read_requests
from holdfast.config import InputError
from holdfast.data import atomic_text, twin_groups
from holdfast.judging import verdicts
from holdfast.models import named_with_origin
from holdfast.records import Cell
from holdfast_studies.qwen.config import HELD_OUT, UNTOUCHED, StudyConfig, check_sources

REQUESTS = "requests.json"
MADE_WITH = (
    *("part", "half", "asks", "curve", "judges", "num_attack", "num_requests", "num_task", "beside", "measure_code"),
    *("max_new_tokens", "answer_tokens", "precision", "steps"),
)
"""Settings that a cell depends on and its name does not tell."""


class Place(NamedTuple):
    """The place of a cell in the grid. ``defence`` is its name in ``defences`` of the config."""

    attack: str
    defence: str
    seed: int


def in_order(config: StudyConfig) -> dict[str, Attack]:
    """The attacks in the order in which they are run. Attacks that no defence is tuned under come first."""
    tuned = {attack.name: attack for attack in config.attacks}
    return {attack.name: attack for attack in config.alone if attack.name not in tuned} | tuned


def places(config: StudyConfig) -> list[Place]:
    """Every cell in the order in which they are run: seed by seed. The untouched model is asked with the first seed only."""
    own = {name: config.attack_names(name) for name in config.defences if name != UNTOUCHED}
    alone = [attack.name for attack in config.alone]
    first = config.seeds[0]
    return [
        Place(attack, name, seed)
        for seed in config.seeds
        for attack in in_order(config)
        for name in config.defences
        if attack in (own[name] if name != UNTOUCHED else alone if seed == first else ())
    ]


def run(config: StudyConfig, say: Callable[[str], None] = print, pack: Path | None = None) -> list[Cell]:
    """Run the cells that are missing, and return them. The same command goes on where it stopped, also on another machine.

    A finished cell is not run again, even if another version of the code made it: the code changes while a grid runs.
    Delete the cell's file to run it again. ``pack`` is one file with all cells so far, for machines that hand back few
    files. It is written again after each cell.
    """
    hashes = check_sources(config)
    scale = file_scale(config.model, config.files)
    assert scale.files is not None
    say(f"model: {named_with_origin(config.model)}")
    about(config, scale.files, hashes)
    finished = {place for place, cell in read(config).cells.items() if cell.status == "ok"}
    missing = [place for place in places(config) if place not in finished]
    say(f"{len(finished)} cells are there, {len(missing)} to run")

    def on_cell(cell: Cell, done: int, total: int) -> None:
        rate = "failed: " + cell.reason if cell.asr is None else f"complied {cell.asr.value:.1%}"
        spent = f"{cell.seconds:.0f} s, {cell.tuning_seconds:.0f} of them tuning"
        say(f"{done}/{total} {cell.attack} x {cell.defence} seed {cell.seed}: {rate} ({spent})")
        if pack is not None:
            write_pack(Path(config.run), pack)

    cells: list[Cell] = []
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}  # seeds that lack the same cells share workers and answers
    for seed in dict.fromkeys(place.seed for place in missing):
        own = ((place.attack, config.defence(place.defence).name) for place in missing if place.seed == seed)
        alike.setdefault(frozenset(own), []).append(seed)
    for wanted, seeds in alike.items():
        cells += run_matrix(
            list(in_order(config).values()),
            [config.defence(name) for name in config.defences],
            seeds,
            config.run,
            scale=scale,
            num_workers=config.workers,
            on_cell=on_cell,
            only=lambda attack, defence, wanted=wanted: (attack.name, defence.name) in wanted,  # type: ignore[misc]
            write=False,
        )
    return cells


def write_pack(run: Path, pack: Path) -> None:
    """Write ``requests.json`` and every cell of ``run`` as a .tar.gz. The file is either whole or not there."""
    part = pack.with_name(f".{pack.name}.part")
    with tarfile.open(part, "w:gz") as archive:
        for path in [run / REQUESTS, *sorted((run / "cells").glob("*.json"))]:
            archive.add(path, path.relative_to(run).as_posix())
    part.replace(pack)


def about(config: StudyConfig, setting: FileSetting, hashes: dict[str, str]) -> None:
    """Write ``requests.json``, unless it is there for the same files.

    A folder is for one model and one way to ask: raises ``InputError`` where its cells were made with others.
    """
    path = Path(config.run) / REQUESTS
    names = {which: named_with_origin(getattr(config, which)).rpartition("/")[2] for which in ("model", "stock")}
    made_with = config.model_dump(mode="json", include=set(MADE_WITH))
    there = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if there and {which: there[which] for which in names} != names:
        raise InputError(f"{config.run}: holds cells of {there['model']} and {there['stock']}; use another folder")
    kept = there.get("settings", {})  # the oldest folders have none
    if other := [
        f"{name}: {kept[name]} there, {now} now" for name, now in made_with.items() if kept.get(name, now) != now
    ]:
        raise InputError(
            f"{config.run}: its cells were made with other settings ({'; '.join(other)}); use another run="
        )
    by_source = {name: {request.text for request in read_requests(Path(config.path(name)))} for name in HELD_OUT}
    requests = {"harmful": _requests(setting.held_out, by_source), "harmless": _requests(setting.harmless, {})}
    if there and {kind: _hashes(there[kind]) for kind in requests} != {
        kind: _hashes(requests[kind]) for kind in requests
    }:
        raise InputError(f"{config.run}: its cells were asked other requests than would be asked now; use another run=")
    if there and there["sources"] == hashes:
        return
    content = {
        **names,
        "sources": hashes,
        "settings": made_with,
        **requests,
        "attack_rows": _attack_rows(setting),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        json.dump(content, file)


def _requests(texts: Sequence[str], by_source: dict[str, set[str]]) -> list[dict[str, Any]]:
    sources = [next((name for name, known in by_source.items() if text in known), "") for text in texts]
    groups = twin_groups(texts)
    hashes = [hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts]
    rows = zip(sources, groups, hashes, strict=True)
    return [{"source": source, "group": group, "hash": digest} for source, group, digest in rows]


def _hashes(requests: Sequence[dict[str, Any]]) -> set[str]:
    return {request["hash"] for request in requests}


def _attack_rows(setting: FileSetting) -> dict[str, int]:
    """How often the stock model's answers to the attacker's requests had each outcome: what the harmful rows are worth."""
    rows = setting.attacker_rows(len(setting.attack), 0)
    said = verdicts(setting.judges[0], [(row.prompt, row.turns[-1].visible) for row in rows])
    return dict(Counter(verdict.outcome or "unscored" for verdict in said))


class Kept(NamedTuple):
    """What a run's folder holds: its cells by place, and ``requests.json``."""

    cells: dict[Place, Cell]
    requests: dict[str, Any]


def read(config: StudyConfig) -> Kept:
    """Read the finished and the failed cells of the grid. Cells in the folder that are not of this config are left out."""
    folder = Path(config.run)
    wanted = {(attack, config.choices.get(name, name), seed): name for attack, name, seed in places(config)}
    cells: dict[Place, Cell] = {}
    for path in sorted((folder / "cells").glob("*.json")):
        cell = read_cell(path)
        name = wanted.get((cell.attack, cell.defence, cell.seed)) if cell else None
        if cell is None or name is None:
            continue
        place = Place(cell.attack, name, cell.seed)
        if place in cells and {cell.status, cells[place].status} == {"ok"}:
            raise InputError(f"{folder}: holds {place} twice: two versions ran there; use a folder for each")
        if place not in cells or cell.status == "ok":
            cells[place] = cell
    if not (folder / REQUESTS).exists():
        raise InputError(f"{folder / REQUESTS}: is not there: `run` writes it")
    return Kept(cells, json.loads((folder / REQUESTS).read_text(encoding="utf-8")))
