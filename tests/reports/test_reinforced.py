"""Reward, KL, length and what was observed: drawn where a log has them, explained where they are drawn."""

import json
import math

import pytest
import yaml

from holdfast.cli.train import train_policy
from holdfast.records.rl_steps import TRAINER_FIGURES, observed_names
from holdfast.reports import write_report
from holdfast.reports.reading import MAX_FIGURES, read_run
from holdfast.reports.reinforced import MAX_OBSERVED, reinforced_part
from holdfast.reports.training import MAX_CURVES
from training.rl_runs import save_policy

from .runs import HOSTILE, rl_rows, step_rows, write_lines

DECISIONS = {"p_s": 0.6, "p_dC": 0.9, "p_dW": 0.3, "cut_off": 0.1, "attempts": 1.5}


def part_of(folder, rows):
    notes = []
    write_lines(folder / "steps.jsonl", rows)
    part = reinforced_part(read_run(folder).curves, notes)
    return part, notes


def drawn(run):
    """Title of every chart, with its lines and their values."""
    return {title: dict(chart.figures["series"]) for title, chart in run.charts}


def test_every_figure_is_drawn_in_its_chart(tmp_path):
    rows = rl_rows(5, **DECISIONS)
    part, notes = part_of(tmp_path, rows)
    (run,) = part.runs
    charts = drawn(run)
    assert {title: list(lines) for title, lines in charts.items()} == {
        "Reward": ["mean", "spread"],
        "KL": ["KL"],
        "Length": ["mean"],
        "Attempts and decisions": ["p_s", "p_dC", "p_dW", "cut_off"],
        "Attempts per response": ["mean"],
    }
    for title, line, name in (("Reward", "spread", "reward_std"), ("Attempts and decisions", "p_dW", "p_dW")):
        assert charts[title][line] == pytest.approx([row[name] for row in rows], rel=1e-3)
    assert [chart.figures["percent"] for _, chart in run.charts] == [False, False, False, True, False]
    assert list(part.meanings) == list(charts)
    assert run.summary == "5 rows to step 5"
    assert notes == []


def test_what_a_log_does_not_have_is_neither_drawn_nor_explained(tmp_path):
    rows = [{"step": step, "reward": 0.0, "learning_rate": 1.0, "rollout_seconds": 1.0} for step in (1, 2)]
    part, _ = part_of(tmp_path, rows)
    assert drawn(part.runs[0]) == {"Reward": {"mean": [0.0, 0.0]}}  # nothing was gained: that is worth a look
    assert list(part.meanings) == ["Reward"]
    assert part_of(tmp_path / "plain", step_rows(3))[0] is None


def test_a_figure_that_a_step_does_not_have_is_a_gap(tmp_path):
    rows = rl_rows(4, **DECISIONS)
    del rows[1]["p_dW"]
    rows[2]["kl"] = math.nan
    charts = drawn(part_of(tmp_path, rows)[0].runs[0])
    assert [value is None for value in charts["Attempts and decisions"]["p_dW"]] == [False, True, False, False]
    assert [value is None for value in charts["KL"]["KL"]] == [False, False, True, False]


def test_figures_of_other_observers_get_a_chart_each_up_to_a_limit(tmp_path):
    few, notes = part_of(tmp_path / "few", rl_rows(3, num_words=40.0))
    assert drawn(few.runs[0])["num_words"].keys() == {"observed"}
    assert "as the observer of the run named" in few.meanings["num_words"]
    assert notes == []
    many, notes = part_of(tmp_path / "many", rl_rows(3, **{f"figure{i}": 1.0 for i in range(500)}))
    assert len(many.runs[0].charts) == 3 + MAX_OBSERVED
    assert len(read_run(tmp_path / "many").curves[0].rl) == MAX_FIGURES
    assert len(notes) == 1
    assert notes[0].startswith(f"many: the first {MAX_OBSERVED} of ")


def test_the_page_shows_rl_beside_plain_runs(tmp_path):
    write_lines(tmp_path / "grpo" / "steps.jsonl", rl_rows(400, **DECISIONS, **{HOSTILE.replace("\ud800", ""): 1.0}))
    write_lines(tmp_path / "sft" / "steps.jsonl", step_rows(3))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    section = page.split('<section id="reinforcement"')[1].split("</section>")[0]
    assert '<a href="#reinforcement">' in page
    assert "<bdi>grpo</bdi>" in section
    assert "<bdi>sft</bdi>" not in section
    assert "measured on the rollouts that the policy was trained on" in section
    assert "p_dW, it tries again after a wrong one" in section
    assert "reward, means of 3 rows" in section
    assert "<img" not in page
    assert "Training curves: no steps.jsonl" not in page
    only_rl = write_report(tmp_path / "grpo").read_text(encoding="utf-8")
    assert 'id="training"' not in only_rl
    assert "Training curves: no steps.jsonl" not in only_rl


def test_of_many_runs_the_first_are_drawn_and_the_rest_counted(tmp_path):
    for index in range(MAX_CURVES + 2):
        write_lines(tmp_path / f"run-{index}" / "steps.jsonl", rl_rows(2))
    notes = []
    part = reinforced_part(read_run(tmp_path).curves, notes)
    assert len(part.runs) == MAX_CURVES
    assert notes == [f"Reinforcement learning: the first {MAX_CURVES} of {MAX_CURVES + 2} runs."]


def test_the_log_of_a_real_run(tmp_path):
    """`holdfast train` with rl: what GRPO on the arithmetic world wrote, name by name."""
    made = {"base": 3, "largest": "3x1", "max_attempts": 2, "sizes": ["2x1", "3x1"], "num": 24, "slip": 0.2}
    rl = {"steps": 4, "prompts_per_step": 6, "group": 4, "lr": 1e-2, "max_new_tokens": 10, "kl_weight": 0.05}
    model = {"name": str(save_policy(tmp_path / "policy")), "device": "cpu"}
    config = {
        "run": str(tmp_path / "run"),
        "model": model,
        "rl": rl,
        "task": "arithmetic",
        "task_options": made,
        "extract": "product",
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    train_policy(tmp_path / "config.yaml", [], None)
    rows = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    names = {name for row in rows for name in row}
    assert set(TRAINER_FIGURES) <= names
    assert set(observed_names(names)) <= DECISIONS.keys()
    part = reinforced_part(read_run(tmp_path / "run").curves, [])
    charts = drawn(part.runs[0])
    assert charts["Reward"]["mean"] == pytest.approx([row["reward"] for row in rows], rel=1e-3)
    assert charts["Length"]["mean"] == pytest.approx([row["completions/mean_length"] for row in rows], rel=1e-3)
    assert {"p_s", "cut_off"} <= charts["Attempts and decisions"].keys()
    assert list(charts) == ["Reward", "KL", "Length", "Attempts and decisions", "Attempts per response"]
    assert '<section id="reinforcement"' in write_report(tmp_path / "run").read_text(encoding="utf-8")


def test_rewards_too_far_apart_to_draw_do_not_stop_the_page(tmp_path):
    write_lines(tmp_path / "steps.jsonl", [{"step": 1, "reward": 1e308}, {"step": 2, "reward": -1e308}, *rl_rows(3)])
    assert write_report(tmp_path).is_file()
