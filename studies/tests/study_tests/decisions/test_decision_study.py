"""The study's table from responses of known writers; and the whole chain, very short."""

import json
import random

import pytest

from holdfast.config import InputError
from holdfast.data import write_between_marks
from holdfast.diagnostics.counts import count
from holdfast_studies.decisions.config import DecisionStudyConfig
from holdfast_studies.decisions.decision_study import BASE, ROLLOUTS, Job, run_study, world_of
from holdfast_studies.decisions.decision_table import compare, page, study_cells, times_as_accurate
from holdfast_studies.worlds.arithmetic import Size
from holdfast_studies.worlds.arithmetic_writing import Writer, problems, write

WRITERS = {BASE: Writer(0.1, "show"), "sft_reflection": Writer(0.1, "none"), "grpo": Writer(0.1, "honest")}


def config(run, **changes):
    tiny = {"rows": 8, "steps": 1, "batch_size": 4}
    settings = {
        "run": str(run), "seeds": [0, 1], "world": {"base": 3, "largest": "3x1", "max_attempts": 2},
        "model": {"hidden": 16, "layers": 1, "heads": 2, "feed_forward": 24}, "base": {**tiny, "sizes": ["2x1"]},
        "variants": {"sft_reflection": {"sizes": ["2x1"], "phase": tiny}}, "eval_sizes": ["2x1", "3x1"], "num_eval": 3,
        "device": "cpu", "better": "sft_reflection", "worse": "sft_reflection",
    }  # fmt: skip
    return DecisionStudyConfig.model_validate({**settings, **changes})


@pytest.fixture
def finished(tmp_path):
    """A study whose 'models' are writers: an honest checker, one that only pretends, one that never checks."""
    grpo = {"sizes": ["2x1"], "grpo": {"prompts_per_step": 2, "group": 2}}
    sft = {"sizes": ["2x1"], "phase": {"rows": 4, "steps": 1}}
    study = config(
        tmp_path, world={"base": 5, "largest": "9x1"}, variants={"sft_reflection": sft, "grpo": grpo},
        eval_sizes=["4x1", "9x1"], num_eval=60, better="grpo", worse="sft_reflection",
    )  # fmt: skip
    world = world_of(study)
    for name, writer in WRITERS.items():
        for seed in study.seeds:
            job, rng = Job(study, seed, name), random.Random(f"{name}{seed}")
            rows = []
            for size in study.eval_sizes:
                for each in problems(world, [Size.read(size)], study.num_eval, seed=f"{seed}{size}"):
                    text = "".join(part.text for part in write(world, each, writer, rng))
                    row = {
                        "prompt": world.prompt(each),
                        "response": text,
                        "answer": str(world.value(each)),
                        "size": size,
                    }
                    rows.append({**row, "stopped": text.endswith("stop")})
            job.folder.mkdir(parents=True)
            (job.folder / ROLLOUTS).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return study


def test_table_knows_the_writers(finished):
    cells = {(cell.model, cell.size): cell for cell in study_cells(finished)}
    assert len(cells) == 6
    honest, pretended = cells["grpo", "9x1"].figures, cells[BASE, "9x1"].figures
    assert honest.p_dW.value == honest.p_dC.value == 1.0
    assert pretended.p_dW.value == 0.0
    assert pretended.reflection_pays is False
    assert honest.p_s.value == pytest.approx(0.9**9, abs=0.12)
    assert abs(honest.held_out_error) < 0.1
    found = compare(finished, list(cells.values()), "9x1")
    assert found.times.low > 1.2
    assert found.p_dw_gap.value == 1.0
    assert found.parts.decision.value > 0.3 > abs(found.parts.sampling.value)


def test_page_is_written_between_its_marks(finished, tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Title\n\n<!-- table:begin -->\nbefore it\n<!-- table:end -->\n\nafter\n", encoding="utf-8")
    write_between_marks(path, page(finished, study_cells(finished), "holdfast diagnose decisions x.yaml"), "table")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Title")
    assert text.endswith("after\n")
    assert "before it" not in text
    assert "| grpo | 9x1 |" in text
    assert "2 seeds" in text


def test_a_page_whose_end_mark_is_gone_keeps_what_it_says(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("<!-- table:begin -->\nwritten by hand\n", encoding="utf-8")
    with pytest.raises(InputError, match="without <!-- table:end -->"):
        write_between_marks(path, "figures\n", "table")
    assert "written by hand" in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_whole_chain_and_going_on(tmp_path):
    study = config(tmp_path, seeds=[0])
    assert all(job.done for job in run_study(study))
    stamps = {job.name: (job.folder / ROLLOUTS).stat().st_mtime_ns for job in run_study(study)}
    assert stamps == {job.name: (job.folder / ROLLOUTS).stat().st_mtime_ns for job in run_study(study)}
    assert {cell.size for cell in study_cells(study)} == {"2x1", "3x1"}


def one_attempt(right: int, of: int):
    """Counts of responses with one attempt each."""
    return count([[True]] * right + [[False]] * (of - right), None)


def test_a_ratio_with_nothing_on_top_has_an_upper_end():
    """0 of 100 against 50 of 100: Wilson [0, .0370] and [.4038, .5962]; .0370 / sqrt(.4038 (1 - .4038)) = .0754."""
    found = times_as_accurate(one_attempt(50, 100), one_attempt(0, 100), 200)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(0.0754, abs=2e-4)


def test_a_ratio_that_may_have_nothing_below_has_no_upper_end():
    """2 of 100: 13 % of the draws have none."""
    found = times_as_accurate(one_attempt(2, 100), one_attempt(50, 100), 2000)
    assert found.value == pytest.approx(25)
    assert found.high == float("inf")
    assert 8 < found.low < 16
    assert str(found).endswith("unbounded]")
    assert times_as_accurate(one_attempt(0, 9), one_attempt(5, 9), 50).value is None


def test_an_ordinary_ratio():
    """40 against 20 of 100: by the delta method log 2 +- 1.96 sqrt(.6 / 40 + .8 / 20) = [1.26, 3.17]."""
    found = times_as_accurate(one_attempt(20, 100), one_attempt(40, 100), 4000)
    assert found.low == pytest.approx(1.26, abs=0.1)
    assert found.high == pytest.approx(3.17, abs=0.3)
