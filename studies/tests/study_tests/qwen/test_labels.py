"""From replies to a corrected rate, on made-up replies about nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.attacks import write_cell
from holdfast.config import InputError
from holdfast.records import Cell
from holdfast_studies.qwen.__main__ import main
from holdfast_studies.qwen.config import attack_name
from holdfast_studies.qwen.labels import KEY, SHEETS, THIRD, fitted_requests, read_fresh, request_id, short_hash
from study_tests.qwen.small_study import small_study

SQL = attack_name("sql", 0, 2e-5)
REQUESTS = [f"Polish lamp{n} behind shelf{n}" for n in range(20)]
JUDGED = ["complied", "missed"] * 10
REPLIES = [f"Rub lamp{n}." for n in range(20)]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One cell of sft with 20 requests, half of them complied with by the judge; 12 of them were looked at in two arms.

    `filtered` replied as sft did, but for the first request. It has no cell.
    """
    path = small_study(tmp_path)
    run, look = tmp_path / "run", tmp_path / "look"
    (run / "cells").mkdir(parents=True)
    look.mkdir()
    outcomes: dict[str, Any] = {"harmful:outcome": tuple(JUDGED), "harmless:outcome": (), "untouched:outcome": ()}
    answers = {"asr": tuple(map(short_hash, REPLIES)), "over_refusal": ()}
    write_cell(run / "cells" / "0.json", Cell(SQL, "sft", 0, "outcome", outcomes=outcomes, answers=answers))
    about = {
        "model": "M",
        "stock": "S",
        "sources": {},
        "harmless": [],
        "attack_rows": {"complied": 1},
        "harmful": [{"source": "advbench", "group": n, "hash": short_hash(text)} for n, text in enumerate(REQUESTS)],
    }
    (run / "requests.json").write_text(json.dumps(about))
    rows = [
        {
            "attack": SQL,
            "arm": arm,
            "seed": 0,
            "kind": "harmful",
            "request": REQUESTS[n],
            "reply": reply,
            "outcome": JUDGED[n],
            "p_complied": 0.75 if JUDGED[n] == "complied" else 0.05,
        }
        for arm in ("sft", "filtered")
        for n in range(12)
        for reply in ["No lamp." if arm == "filtered" and n == 0 else REPLIES[n]]
    ]
    (look / "replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _fill(path: Path, labels: dict[str, str]) -> None:
    """By reply; *missed* for every other."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    filled = [{**row, "label": labels.get(row["reply"], "missed"), "reason": "made up"} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in filled))


def test_sheets_from_what_the_cells_left(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, look = study.parent / "left", study.parent / "gathered"
    left.mkdir()
    where = {"attack": SQL, "seed": 0, "kind": "harmful"}
    for defence, other in (("sft", where), ("filtered", where), ("untouched", {**where, "seed": 1})):
        rows = [
            {**other, "defence": defence, "request": REQUESTS[n], "reply": f"{defence} {REPLIES[n]}"} for n in range(3)
        ]
        rows.append({**other, "defence": defence, "kind": "sql", "request": "Count.", "reply": "SELECT 1"})
        (left / f"{defence}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call = ["sheets", str(study), f"out={look}", f"replies={left}", "num=2"]
    assert main([*call, "arms=sft,filtered"]) == 0
    assert "4 replies, 4 to read" in capsys.readouterr().out
    rows = [json.loads(line) for line in (look / "replies.jsonl").read_text().splitlines()]
    assert [row["arm"] for row in rows] == ["filtered", "filtered", "sft", "sft"]
    assert all(row["reply"] == f"{row['arm']} {REPLIES[REQUESTS.index(row['request'])]}" for row in rows)
    assert [row["request"] for row in rows[:2]] == [row["request"] for row in rows[2:]], "one draw for every arm"
    assert all(row["outcome"] and 0 <= row["p_complied"] <= 1 for row in rows)
    with pytest.raises(InputError, match="no replies of untouched under mixture@task=sql"):
        main([*call, "arms=sft,untouched"])


def test_sheets_of_a_stage_with_rates_and_without_a_task_alone(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sft is tuned at 5e-5 and with harmful rows only; the untouched model is asked under the task alone, at the first rate."""
    left = study.parent / "left"
    left.mkdir()
    for attack, defence in ((attack_name("sql", 0, 1e-5), "untouched"), (attack_name("sql", 0.1, 5e-5), "sft")):
        row = {"attack": attack, "defence": defence, "seed": 0, "kind": "harmful"}
        (left / f"{defence}.jsonl").write_text(json.dumps({**row, "request": REQUESTS[0], "reply": REPLIES[0]}) + "\n")
    stage = ["shares=[0.1]", "lrs=[1e-5,5e-5]", "defences=[untouched,sft]", "choices={}", "rates={sft: 5e-5}"]
    call = ["sheets", str(study), f"out={study.parent / 'gathered'}", f"replies={left}", *stage]
    assert main([*call, "arms=untouched,sft"]) == 0
    assert "2 replies, 1 to read" in capsys.readouterr().out


def test_a_page_in_a_new_folder(study: Path) -> None:
    target = study.parent / "new" / "page.md"
    assert main(["page", str(study), f"page={target}"]) == 0
    assert target.exists()


def test_sheets_are_blind_and_a_reply_is_read_once(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look = study.parent / "look"
    assert main(["sheets", str(study), f"out={look}", "num=10"]) == 0
    assert "20 replies, 11 to read" in capsys.readouterr().out
    sheets = [[json.loads(line) for line in (look / name).read_text().splitlines()] for name in SHEETS]
    assert all(set(row) == {"id", "request", "reply", "label", "reason"} for sheet in sheets for row in sheet)
    assert not any(row["label"] for sheet in sheets for row in sheet)
    assert sheets[0] != sheets[1], "each reader has an order of their own"
    assert sorted(row["id"] for row in sheets[0]) == sorted(row["id"] for row in sheets[1])
    with pytest.raises(InputError, match=r"key\.jsonl: is there already, and may hold labels"):
        main(["sheets", str(study), f"out={look}"])
    with pytest.raises(InputError, match=r"reader-a\.jsonl: [0-9a-f]{10}: no label yet"):
        main(["labels", str(study), f"out={look}"])


def test_labels_correct_the_page(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The judge says 10 of 20. Of the ten read it says five, the labels three: 50 % + (3 - 5) / 10 = 30 %.

    Its mean P is (5 * 0.75 + 5 * 0.05) / 10 = 40 %, 10 points above the labels.
    """
    look, run = study.parent / "look", study.parent / "run"
    main(["sheets", str(study), f"out={look}", "num=10"])
    agreed = {REPLIES[n]: "complied" for n in (0, 2)}
    _fill(look / SHEETS[0], {**agreed, REPLIES[4]: "complied"})
    _fill(look / SHEETS[1], agreed)
    with pytest.raises(InputError, match="the readers differ on 1 replies: a third fills in"):
        main(["labels", str(study), f"out={look}"])
    assert not (run / "labels.jsonl").exists()
    _fill(look / THIRD, {REPLIES[4]: "complied"})
    assert main(["labels", str(study), f"out={look}"]) == 0
    assert "20 labels" in capsys.readouterr().out
    assert not any(text in (run / "labels.jsonl").read_text() for text in ("lamp", "Polish", "Rub"))
    settled = [label for label in read_fresh(run) if label.first != label.second]
    assert {(label.arm, label.label, label.reply) for label in settled} == {
        (arm, "complied", short_hash(REPLIES[4])) for arm in ("sft", "filtered")
    }
    assert main(["page", str(study), f"page={study.parent / 'page.md'}"]) == 0
    lines = (study.parent / "page.md").read_text().splitlines()
    sft, filtered = (line for line in lines if line.startswith("| sql alone, lr 2e-05 |") and "| harmful |" in line)
    assert sft.startswith("| sql alone, lr 2e-05 | sft | harmful | 10 | 10 | kappa 0.60")
    assert "| +20 | +10 | 20 | 50.0% [" in sft
    assert "| 30.0% [" in sft
    assert "| filtered | harmful | 10 | 0 |" in filtered
    assert filtered.endswith("| +30 | +20 | 20 |  |  |"), "without a cell there is no rate to correct"


def test_a_source_without_a_label_is_not_corrected(study: Path) -> None:
    """The last eight requests are another source's, and no reply to them was read.

    Of the first twelve the judge says six. Of the ten read it says five, the labels three: 50 % - 20 % of 12, not of 20.
    """
    look, run = study.parent / "look", study.parent / "run"
    about = json.loads((run / "requests.json").read_text())
    for row in about["harmful"][12:]:
        row["source"] = "strongreject"
    (run / "requests.json").write_text(json.dumps(about))
    main(["sheets", str(study), f"out={look}", "num=10"])
    for sheet in SHEETS:
        _fill(look / sheet, {REPLIES[n]: "complied" for n in (0, 2, 4)})
    main(["labels", str(study), f"out={look}"])
    assert main(["page", str(study), f"page={study.parent / 'page.md'}"]) == 0
    text = (study.parent / "page.md").read_text()
    assert "**Nobody read a reply to the 8 requests of strongreject.**" in text
    assert "the corrected shares are about the other 12 harmful requests" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| sql alone, lr 2e-05 | sft | harmful |"))
    assert "| +20 | +10 | 12 | 50.0% [" in line
    assert "| 30.0% [" in line


def test_labels_of_other_arms_stay(study: Path) -> None:
    """Labels were made of 10 replies of two arms before; the sheets of one of them are read again, and of no other."""
    look, run = study.parent / "look", study.parent / "run"
    main(["sheets", str(study), f"out={look}", "num=10"])
    for sheet in SHEETS:
        _fill(look / sheet, {})
    main(["labels", str(study), f"out={look}"])
    before = read_fresh(run)
    key = [json.loads(line) for line in (look / KEY).read_text().splitlines()]
    (look / KEY).write_text("".join(json.dumps(row) + "\n" for row in key if row["arm"] == "sft"))
    for sheet in SHEETS:
        _fill(look / sheet, {REPLIES[0]: "complied"})
    main(["labels", str(study), f"out={look}"])
    after = read_fresh(run)
    assert [label for label in after if label.arm == "filtered"] == [
        label for label in before if label.arm == "filtered"
    ]
    assert len(after) == len(before)
    assert [label.reply for label in after if label.label == "complied"] == [short_hash(REPLIES[0])]


def test_requests_that_the_judge_was_fitted_to_are_known() -> None:
    """The id is that of the labels' own makers: a list of turns as JSON."""
    assert request_id("Polish lamp1 behind shelf1") not in fitted_requests()
    assert {len(number) for number in fitted_requests()} == {8}
