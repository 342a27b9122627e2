"""A small matrix leaves behind what its report shows, and no weights."""

import json
import shutil
from pathlib import Path

import pytest

from holdfast.attacks import ATTACKS, DEFENCES, Scale, run_matrix
from holdfast.attacks.inside import inside_path
from holdfast.reports import write_report

SMALL = Scale(num_requests=6, steps=0.1)
DEFENDED = ("untouched", "csft", "anchored", "interpolate")


def run(folder: Path, *names: str) -> None:
    defences = [DEFENCES[name] for name in names]
    run_matrix([ATTACKS["identity_shift"]], defences, (0, 1), folder, scale=SMALL, num_workers=1)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    run(folder, *DEFENDED)
    return folder


def test_a_matrix_leaves_curves_answers_and_depth(matrix: Path) -> None:
    curves, answers, depth = (
        json.loads((matrix / name).read_text()) for name in ("curves.json", "microscope.json", "depth.json")
    )
    assert [(curve["defence"], curve["seed"]) for curve in curves] == [("csft", 0), ("anchored", 0), ("interpolate", 0)]
    assert all(len(curve["steps"]) > 1 and "task" in curve["steps"][0]["streams"] for curve in curves)
    # Weights mixed after training are not the ones the microscope saw: such a defence shows none.
    assert {answer["defence"] for answer in answers} == {"csft", "anchored"}
    assert {answer["stream"] for answer in answers if answer["defence"] == "anchored"} == {"task", "safety"}
    assert depth["to"] == "tiny:base"
    assert [line["name"] for line in depth["lines"]] == [name for name in DEFENDED for _ in (0, 1)]
    untouched = depth["lines"][0]
    assert untouched["before"] == untouched["after"]
    assert untouched["before"][0] > 1  # refusing begins at the first token
    page = write_report(matrix).read_text(encoding="utf-8")
    for part in ("depth", "training", "microscope"):
        assert f'<section id="{part}"' in page
    assert "How much of the alignment is left" in page
    assert len(page.encode()) < 2_000_000
    assert not list(matrix.rglob("*.safetensors"))


def test_a_lost_inside_costs_its_part_only(matrix: Path, tmp_path: Path) -> None:
    """The cells are the other test's; only what is gathered from them is made anew."""
    shutil.copytree(matrix / "cells", tmp_path / "cells")
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").glob("*.json") if "." not in path.stem}

    def seeds() -> list[int]:
        run(tmp_path, "csft")
        assert {path: path.stat().st_mtime_ns for path in cells} == cells, "no cell is run again"
        return [curve["seed"] for curve in json.loads((tmp_path / "curves.json").read_text())]

    assert seeds() == [0]
    for path in (tmp_path / "cells").glob("*.inside.json"):
        if json.loads((tmp_path / "cells" / path.name.replace(".inside", "")).read_text())["seed"] == 0:
            path.write_text('{"half a fi')
    assert inside_path(Path("a/b.json")) == Path("a/b.inside.json")
    assert seeds() == [1]  # the next seed stands in
