"""The study on a model that its vendor aligned. Settings are changed by ``key=value``; docs/results/qwen.md is its page.

    python -m holdfast_studies.qwen plan   CONFIG model=M.gguf stock=S.gguf data=FOLDER
    python -m holdfast_studies.qwen look   CONFIG ... [out=runs/qwen/look] [num=40] [arms=untouched,sft,vetted]
    python -m holdfast_studies.qwen sheets CONFIG [out=runs/qwen/look] [num=50] [kinds=harmful,safe] [replies=FOLDER arms=...]
    python -m holdfast_studies.qwen labels CONFIG [out=runs/qwen/look]
    python -m holdfast_studies.qwen run    CONFIG ... [page=docs/results/qwen.md] [pack=cells.tar.gz]
    python -m holdfast_studies.qwen choose CONFIG ...
    python -m holdfast_studies.qwen worst  CONFIG ...
    python -m holdfast_studies.qwen near   CONFIG ... [points=5]
    python -m holdfast_studies.qwen page   CONFIG ... [page=FILE] [picture=FILE.svg]

``plan`` says what every cell costs and which fit into ``minutes``. ``look`` prints replies and rendered prompts, to be read
before any sweep. ``sheets`` makes blind sheets of them for two readers, or of what a ``run`` with ``replies=FOLDER`` left
there; ``labels`` joins what they filled in and keeps labels and hashes beside the cells, and ``page`` corrects its rates by
them. ``run`` runs the cells that are missing; ``pack`` is one file with all of them so far. ``choose`` names the settings with
the least cost in a validation run, ``worst`` for every defence the learning rate with the greatest, and ``near`` the defences
whose cost is within some points of the least: more seeds are for them. ``page`` writes the page from the cells that are there,
and the picture of the first attack that has some. Only ``plan``, ``look`` and ``run`` need the model and the files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.attacks import chosen, near_the_best, worst_rates
from holdfast.config import InputError, load_config, mistakes_end_it
from holdfast.data import atomic_text
from holdfast_studies.qwen.cells import read, run
from holdfast_studies.qwen.config import UNTOUCHED, StudyConfig
from holdfast_studies.qwen.cost import plan
from holdfast_studies.qwen.labels import KINDS, join_sheets, write_sheets
from holdfast_studies.qwen.look import LOOKED_AT, NUM_REPLIES, gather, look
from holdfast_studies.qwen.page import page, picture_of
from holdfast_studies.study_words import read_words, unless_given

VERBS = ("plan", "look", "sheets", "labels", "run", "choose", "worst", "near", "page")
NO_MODEL = ("sheets", "labels", "choose", "worst", "near", "page")
OWN = ("page", "picture", "out", "num", "arms", "kinds", "pack", "points")
LOOK = "runs/qwen/look"


def main(arguments: Sequence[str]) -> int:
    """Run one verb. Returns 0 where all went well, 1 where a cell failed."""
    verb, path, own, changes = read_words("qwen", arguments, VERBS, OWN)
    if verb in NO_MODEL:  # they only read the run's folder, so no model is needed
        changes = unless_given(changes, "model=none", "stock=none", "data=none")
    config = load_config(StudyConfig, Path(path), changes)
    if not own.get("num", "1").isdigit():
        raise InputError(f"num={own['num']}: expected a number of replies")
    for word in {"page", "picture", "pack"} & own.keys():  # made now: a missing folder must not cost a finished run
        Path(own[word]).parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    if verb == "plan":
        print("\n".join(plan(config)))
    elif verb == "look":
        arms = own.get("arms", ",".join(LOOKED_AT)).split(",")
        look(config, Path(own.get("out", LOOK)), int(own.get("num", NUM_REPLIES)), arms)
    elif verb == "sheets":
        kinds = own.get("kinds", ",".join(KINDS)).split(",")
        if config.replies:
            arms = own.get("arms", ",".join(LOOKED_AT)).split(",")
            gather(config, Path(own.get("out", LOOK)), int(own.get("num", NUM_REPLIES)), arms)
        print(write_sheets(Path(own.get("out", LOOK)), kinds, int(own["num"]) if "num" in own else None))
    elif verb == "labels":
        print(join_sheets(Path(own.get("out", LOOK)), Path(config.run))[1])
    elif verb in ("choose", "worst", "near"):
        print("\n".join(_choices(verb, config, own)))
    elif verb == "run":
        pack = Path(own["pack"]) if "pack" in own else None
        failed = sum(cell.status == "failed" for cell in run(config, pack=pack))
    if verb == "page" or (verb == "run" and "page" in own):
        text = page(config, f"python -m holdfast_studies.qwen {verb} {path}")
        if "page" not in own:
            print(text)
        else:
            with atomic_text(Path(own["page"])) as file:
                file.write(text)
    if verb == "page" and "picture" in own:
        with atomic_text(Path(own["picture"])) as file:
            file.write(picture_of(config))
    return int(failed > 0)


def _choices(verb: str, config: StudyConfig, own: Mapping[str, str]) -> list[str]:
    """What the cells of a run choose, as lines for a config."""
    kept = read(config).cells
    if verb == "choose":
        best = chosen(list(kept.values()))
        return [f"  {defence}: {name}  # cost {cost:.3f}" for defence, (name, cost) in best.items()]
    named = [replace(cell, defence=place.defence) for place, cell in kept.items() if place.defence != UNTOUCHED]
    if verb == "worst":
        return [f"  {defence}: {rate:g}  # cost {cost:.3f}" for defence, (rate, cost) in worst_rates(named).items()]
    points = own.get("points", "5")
    if not points.replace(".", "", 1).isdigit():
        raise InputError(f"points={points}: expected a number of points")
    near = near_the_best(named, float(points) / 100)
    return [f"  {defence}  # cost {cost:.3f}" for defence, cost in near.items()]


if __name__ == "__main__":
    with mistakes_end_it():
        sys.exit(main(sys.argv[1:]))
