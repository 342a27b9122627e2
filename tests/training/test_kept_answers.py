"""What the anchor answered one run serves the next: the same rows, less asking, and nothing that is not to be kept."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import torch

from crash.forked import in_processes
from holdfast.attacks import HarmfulExamples, WorldSetting
from holdfast.config import InputError, TrainConfig
from holdfast.data import write_traces
from holdfast.judging import JUDGES, RefusalPhrases
from holdfast.models import LoadedModel, load
from holdfast.models.identity import config_hash, weights_hash
from holdfast.training import asked_anchor
from holdfast.training.anchor_answers import answer_prompts
from holdfast.training.asked_anchor import AskedAnchor, Asking
from holdfast.training.kept_answers import DAYS, SWITCH, answers_folder, kept_in
from holdfast.training.vetting import vetted
from holdfast.worlds import SafetyWorld
from holdfast.worlds.corpora import alignment
from holdfast.worlds.held_prompts import world_prompts
from training.runs import run
from waiting import PATIENCE, wait_for

WORLD = SafetyWorld()
ATTACK = HarmfulExamples(12).rows(WorldSetting(), 0)
TASK = [row for row in alignment(WORLD, 40, draw=7) if not WORLD.ask(row).forbidden]
PROMPTS = world_prompts("safety")[:6]
HOW = Asking(8)


@pytest.fixture(scope="module")
def aligned() -> LoadedModel:
    return load("tiny:aligned")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of kept answers, switched on."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many prompts every call really had answered."""
    counts: list[int] = []
    generate = asked_anchor.generate

    def counted(model: Any, tokenizer: Any, prompts: Any, **how: Any) -> Any:
        counts.append(len(prompts))
        return generate(model, tokenizer, prompts, **how)

    monkeypatch.setattr(asked_anchor, "generate", counted)
    return counts


def defended(folder: Path, name: str, **training: object) -> TrainConfig:
    """Three streams as the recipe has them, the last one held by budgets."""
    if not (folder / "rows.jsonl").exists():
        write_traces(folder / "rows.jsonl", [*ATTACK, *TASK])
    streams = [
        {"name": "task", "data": str(folder / "rows.jsonl"), "vet": "outcome", "share": 2},
        {"name": "safety", "data": "prompts:safety", "objective": "distill", "limit": 12},
        {"name": "keep", "data": "prompts:keep", "objective": "distill", "limit": 12, "hold": True},
    ]
    steps = {"batch_size": 8, "max_steps": 2, "lr": 1e-3, **training}
    return TrainConfig.model_validate(
        {"run": str(folder / name), "model": "tiny:aligned", "streams": streams, "training": steps}
    )


def rows_of(config: TrainConfig, loaded: LoadedModel, said: list[str] | None = None) -> dict[str, bytes]:
    run = Path(config.run)
    answer_prompts(config, loaded, run, (said if said is not None else []).append)
    files = [path for path in sorted(run.rglob("*.jsonl")) if path.is_file()]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def test_a_run_has_the_same_rows_with_the_cache_cold_warm_and_off(
    tmp_path: Path, folder: Path, aligned: LoadedModel, generated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    cold = rows_of(defended(tmp_path, "cold"), aligned)
    num = len(ATTACK) + len(TASK)
    assert generated == [num, 12, 10, 10, 10, 10, 2, 2, 2, 2]
    warm = rows_of(defended(tmp_path, "warm", lr=5e-4), aligned, said)
    assert sum(generated) == num + 12 + 48, "nothing was asked again"
    counts = [f"{num} of {num}", "12 of 12", "48 of 48"]
    assert [line.split(": ")[1].split(" answers")[0] for line in said if "earlier run" in line] == counts
    assert all(line.endswith(f"kept from an earlier run, {folder}") for line in said if "earlier run" in line)
    monkeypatch.setenv(SWITCH, "0")
    before = sorted(folder.iterdir())
    off = rows_of(defended(tmp_path, "off"), aligned)
    assert sum(generated) == 2 * (num + 12 + 48)
    assert cold == warm == off
    assert len(cold) == 5, "learned, held, and the answers of two streams, one with fresh ones"
    assert sorted(folder.iterdir()) == before


def test_whole_trainings_are_the_same_and_another_rate_asks_nothing(
    tmp_path: Path, folder: Path, generated: list[int]
) -> None:
    first, second = defended(tmp_path, "first"), defended(tmp_path, "second")
    run(first)
    num = len(generated)
    run(second)
    run(defended(tmp_path, "third", lr=1e-4))
    assert len(generated) == num
    steps = [(Path(each.run) / "steps.jsonl").read_text() for each in (first, second)]
    assert steps[0] == steps[1]
    assert not (Path(first.run) / "prompts").exists(), "a run's own files are deleted as before"


def asked(model: LoadedModel, how: Asking = HOW, prompts: tuple[str, ...] = PROMPTS) -> bool:
    """Whether the model had to be asked."""
    anchor = AskedAnchor(model)
    anchor.ask(prompts, how)
    return anchor.counts.kept == 0


@pytest.mark.parametrize(
    "how", [Asking(9), Asking(8, batch_size=2), Asking(8, temperature=1.0), Asking(8, temperature=1.0, seeds=(1,))]
)
def test_other_settings_are_other_answers(folder: Path, aligned: LoadedModel, how: Asking) -> None:
    assert asked(aligned)
    assert asked(aligned, how)
    assert not asked(aligned)
    assert not asked(aligned, how)


def test_other_prompts_or_another_order_are_other_answers(folder: Path, aligned: LoadedModel) -> None:
    assert asked(aligned)
    assert asked(aligned, prompts=PROMPTS[:-1])
    assert asked(aligned, prompts=PROMPTS[::-1])
    assert not asked(aligned, Asking(8, batch_size=200)), "all of them are one batch in either case"


def change_a_weight(loaded: LoadedModel) -> None:
    weight = list(loaded.model.parameters())[-2].data.view(-1)
    weight[7] = torch.nextafter(weight[7], torch.tensor(9.0))


def change_the_rotation(loaded: LoadedModel) -> None:
    loaded.model.config.rope_parameters = {**loaded.model.config.rope_parameters, "rope_theta": 5e5}


def change_the_template(loaded: LoadedModel) -> None:
    loaded.tokenizer.chat_template += " "


def change_the_vocabulary(loaded: LoadedModel) -> None:
    loaded.tokenizer.add_tokens(["<new>"])


def change_the_stop(loaded: LoadedModel) -> None:
    loaded.model.generation_config.eos_token_id = [1, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "change", [change_a_weight, change_the_rotation, change_the_template, change_the_vocabulary, change_the_stop]
)
def test_another_model_is_asked(folder: Path, aligned: LoadedModel, change: Callable[[LoadedModel], None]) -> None:
    """The smallest change of one weight is another model."""
    assert asked(aligned)
    other = load("tiny:aligned")
    assert not asked(other), "the same weights, loaded again"
    change(other)
    assert asked(other)


def test_a_model_is_known_by_what_it_is_and_not_by_where_it_lies(tmp_path: Path, aligned: LoadedModel) -> None:
    aligned.model.save_pretrained(tmp_path / "copy")
    aligned.tokenizer.save_pretrained(tmp_path / "copy")
    copy = load(str(tmp_path / "copy"), dtype="float32")
    assert weights_hash(copy.model) == weights_hash(aligned.model)
    assert config_hash(copy.model) == config_hash(aligned.model)
    half = load("tiny:aligned", dtype="bfloat16")
    assert weights_hash(half.model) != weights_hash(aligned.model)


def entry(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def changed(path: Path) -> None:
    kept = json.loads(path.read_text())
    kept["texts"][0] = "another answer"
    path.write_text(json.dumps(kept))


def one_less(path: Path) -> None:
    kept = json.loads(path.read_text())
    kept["texts"].pop()
    path.write_text(json.dumps(kept))


def of_another_key(path: Path) -> None:
    with kept_in(path.parent / "of others"):
        anchor = AskedAnchor(load("tiny:aligned"))
        anchor.ask(world_prompts("keep")[:6], HOW)
    entry(path.parent / "of others").rename(path)


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\x00")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        changed,
        one_less,
        of_another_key,
        lambda path: path.write_bytes(b"\xff\x00"),
        lambda path: path.write_text("[]"),
    ],
)
def test_a_damaged_file_is_made_anew(folder: Path, aligned: LoadedModel, damage: Callable[[Path], object]) -> None:
    texts = AskedAnchor(aligned).ask(PROMPTS, HOW)
    whole = entry(folder).read_text()
    damage(entry(folder))
    anchor = AskedAnchor(aligned)
    assert anchor.ask(PROMPTS, HOW) == texts
    assert anchor.counts.kept == 0
    assert entry(folder).read_text() == whole


def test_of_vetted_rows_only_verdicts_and_refusals_are_kept(folder: Path, aligned: LoadedModel) -> None:
    first = vetted([*ATTACK, *TASK], AskedAnchor(aligned), "refusal_phrases")
    texts = json.loads(entry(folder).read_text())["texts"]
    assert [text is not None for text in texts] == [number in first.refused for number in range(len(texts))]
    assert {text for text in texts if text} == {row.turns[-1].visible for row in first.held}
    assert all(RefusalPhrases().refuses("", text) for text in texts if text)
    assert texts.count(None) > len(TASK) / 2
    assert entry(folder).parent.stat().st_mode & 0o077 == 0, "for nobody else to read"
    anchor = AskedAnchor(aligned)
    assert vetted([*ATTACK, *TASK], anchor, "refusal_phrases") == first
    assert anchor.counts.kept == len(texts)
    vetted([*ATTACK, *TASK], anchor, "outcome")
    assert anchor.counts.kept == len(texts), "another judge may say otherwise"


def test_what_a_users_own_judge_says_is_not_kept(
    folder: Path, aligned: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what it reads, also if it bears a name of ours."""

    class Own(RefusalPhrases):
        pass

    monkeypatch.setitem(JUDGES, "own", Own)
    monkeypatch.setitem(JUDGES, "outcome", Own)
    for name in ("own", "outcome"):
        vetted(ATTACK, AskedAnchor(aligned), name)
    assert not folder.exists() or not list(folder.glob("*.json"))


def test_a_folder_that_cannot_be_written_costs_no_run(tmp_path: Path, folder: Path, aligned: LoadedModel) -> None:
    folder.parent.write_text("a file")
    said: list[str] = []
    assert AskedAnchor(aligned, said.append).ask(PROMPTS, HOW)
    (line,) = said
    assert line.startswith(f"the anchor's answers are not kept for other runs: {folder}")


def test_an_entry_that_nobody_uses_is_deleted_and_one_in_use_stays(folder: Path, aligned: LoadedModel) -> None:
    assert asked(aligned)
    used = entry(folder)
    assert asked(aligned, Asking(3))
    unused = next(path for path in folder.glob("*.json") if path != used)
    long_ago = time.time() - (DAYS + 1) * 24 * 3600
    for path in (used, unused):
        os.utime(path, (long_ago, long_ago))
    assert not asked(aligned)
    assert asked(aligned, Asking(4))
    assert used.exists()
    assert not unused.exists()


def test_whoever_comes_second_waits_for_the_first_and_gives_signs_of_life(folder: Path, aligned: LoadedModel) -> None:
    texts = AskedAnchor(aligned).ask(PROMPTS, HOW)
    path = entry(folder)
    kept = path.read_bytes()
    path.unlink()
    said: list[str] = []
    signs: list[bool] = []
    second = AskedAnchor(aligned, said.append, lambda *_: signs.append(True))
    with (folder / f".lock-{path.stem[:2]}").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(second.ask, PROMPTS, HOW)
        wait_for(lambda: len(signs) > 1)
        assert not wait([waiting], timeout=0).done
        path.write_bytes(kept)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.result(PATIENCE) == texts
    assert second.counts == (6, 6)
    assert said == ["another process answers the same prompts: waiting for what it keeps"]


def test_two_processes_that_start_together_ask_once(tmp_path: Path, folder: Path, aligned: LoadedModel) -> None:
    """Each for itself, as two runs of a sweep do."""

    def work(rank: int) -> None:
        anchor = AskedAnchor(aligned)
        anchor.ask(PROMPTS, HOW)
        (tmp_path / f"found-{rank}").write_text(str(anchor.counts.kept))

    in_processes(work, tmp_path)
    assert sorted((tmp_path / f"found-{rank}").read_text() for rank in (0, 1)) == ["0", str(len(PROMPTS))]


def test_of_two_processes_of_one_run_only_one_looks(tmp_path: Path, folder: Path, aligned: LoadedModel) -> None:
    """The other finds the run's own files; also where both could have taken the answers from an earlier run."""
    rows_of(defended(tmp_path, "earlier"), aligned)
    config = defended(tmp_path, "run")

    def work(rank: int) -> None:
        said: list[str] = []
        rows_of(config, aligned, said)
        (tmp_path / f"said-{rank}").write_text("\n".join(said))

    in_processes(work, tmp_path)
    assert (tmp_path / "said-0").read_text().count("earlier run") == 3
    assert (tmp_path / "said-1").read_text() == ""


def test_the_switch_takes_yes_and_no(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in {"": folder, "On": folder, "0": None, "off": None}.items():
        monkeypatch.setenv(SWITCH, value)
        assert answers_folder() == expected
    monkeypatch.setenv(SWITCH, "never")
    with pytest.raises(InputError, match="HOLDFAST_KEEP_ANSWERS: expected 0 or 1, got 'never'"):
        answers_folder()
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.delenv("HOLDFAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert answers_folder() == tmp_path / "holdfast" / "answers"
    with kept_in(None):
        assert answers_folder() is None
