"""``hf.audit``: rows in memory, the same questions again, paired differences, and the files that the command writes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.config import InputError
from holdfast.data import read_audit
from holdfast.records import AuditResult

REQUESTS = ["copy : sun river stone", "copy : river sun"]


def quiet(_: str) -> None:
    """Nobody listens."""


def test_two_models_are_asked_the_same_and_compared_in_pairs(tmp_path: Path) -> None:
    before = hf.audit("tiny:base", limit=40, say=quiet)
    after = hf.audit("tiny:aligned", like=before, say=quiet)
    changes = after.against(before)
    asr = changes["complied (world)"]
    assert after.figures["complied (world)"].value < before.figures["complied (world)"].value
    assert asr.by.value < -0.8
    assert asr.said == "not worse"
    assert asr.p is not None
    assert changes["refused (world)"].num_better == asr.num_better, "what it no longer complies with it refuses"
    assert after.figures["kept (world)"].value == 1
    assert after.result.untouched == "tiny:base"
    assert "complied (world)" in repr(after)
    assert read_audit(after.save(tmp_path / "audit") / "audit.json") == after.result
    assert after.against(before.save(tmp_path / "before")) == changes, "a folder is as good"
    assert str(changes).startswith("tiny:aligned against tiny:base\n  complied (world)")
    assert len((tmp_path / "audit" / "completions.jsonl").read_text().splitlines()) == len(after.answers)


def test_requests_in_memory(tmp_path: Path) -> None:
    done = hf.audit("tiny:aligned", requests=REQUESTS, bars=hf.Bars(max_complied=0.5), say=quiet, out=tmp_path)
    assert done.figures["not_refused (refusal_phrases)"].trials == 2
    assert not done.passed
    assert re.search(r"NOT MET: complied \(outcome\) \d\.\d+ > max_complied=0.5 \(95 % interval", repr(done))
    assert (tmp_path / "audit.json").is_file()
    bars = hf.Bars(max_worse=0.1, strict_before=True)
    again = repr(hf.audit("tiny:aligned", requests=REQUESTS, bars=bars, before=done, say=quiet))
    assert "(before=, max_worse=0.1)" in again
    assert "; strict_before=: may be worse" in again
    assert "--" not in again, "options are the command line's"


def test_other_rows_are_not_compared() -> None:
    one, two = (hf.audit("tiny:aligned", requests=REQUESTS[:num], say=quiet) for num in (1, 2))
    with pytest.raises(InputError, match="did not ask the same rows"):
        two.against(one)
    with pytest.raises(
        InputError, match="against: expected an audit or the folder of a saved one, got a value of type float"
    ):
        two.against(0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"nowhere: cannot be read"):
        two.against("nowhere")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"requests": REQUESTS, "limit": 2}, "leave out requests, limit$"),
        ({"judges": ["world"], "suite": "safety"}, "leave out suite, judges$"),
        ({"world": False, "max_new_tokens": 4}, "leave out world, max_new_tokens$"),
    ],
)
def test_what_like_decides_is_not_taken_beside_it(how: dict[str, Any], said: str) -> None:
    asked = hf.Audit(AuditResult("tiny:aligned", None, (), ()), ())
    with pytest.raises(InputError, match=f"like= brings its own rows and settings; {said}"):
        hf.audit("tiny:aligned", like=asked, **how)


@pytest.mark.parametrize(
    ("like", "got"), [("runs/before", "'runs/before', and a saved audit keeps no rows"), (3, "a value of type int")]
)
def test_like_takes_an_audit_of_this_session(like: Any, got: str) -> None:
    with pytest.raises(InputError, match=f"like= takes the result of hf.audit, got {got}; before= takes"):
        hf.audit("tiny:aligned", like=like)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hf.audit("tiny:aligned", limit=-1), "audit: limit=-1: expected a whole number from 1 on"),
        (lambda: hf.audit("tiny:aligned", max_new_tokens=0), "audit: max_new_tokens=0"),
        (lambda: hf.drift("tiny:aligned", samples=0), "drift: samples=0"),
        (lambda: hf.calibrate([{"response": "1", "answer": "1"}], draws=0), "calibrate: draws=0"),
        (lambda: hf.attribute("tiny:aligned", [], batch_size=0), "attribution: batch_size=0"),
    ],
)
def test_numbers_that_the_commands_refuse_are_refused_in_python(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_one_name_need_not_be_in_a_list() -> None:
    assert hf.audit("tiny:aligned", suite="safety", limit=2, judges="world").result.judges == ("world",)
    assert hf.compare({"a": 1}, {"a": 2}, figures="score", less="score").figures[0].better == "less"
    rows = [{"prompt": "copy : sun", "response": "4", "answer": "4"}]
    attributed = hf.attribute("tiny:aligned", rows, objectives="sft", growth=False)
    assert {row.objective for row in attributed.attribution.rows} == {"sft"}
    assert re.fullmatch(r"1 responses, .*: norm and share of the gradient\nsft +\w+ +\S+ +100.0%", repr(attributed))


def test_phrases_that_split_attempts_are_read_from_a_path_as_text(tmp_path: Path) -> None:
    (tmp_path / "phrases.txt").write_text("oh no")
    row = {"prompt": "2 + 2", "response": "5, oh no, 4", "answer": "4"}
    assert hf.calibrate([row], markers=str(tmp_path / "phrases.txt")).observed.value == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: hf.audit("tiny:aligned", requests=rows, say=quiet),
        lambda rows: hf.generate("tiny:aligned", rows),
        lambda rows: hf.best_of("tiny:aligned", rows, n=2),
        lambda rows: hf.drift("tiny:aligned", prompts=rows, samples=1),
        lambda rows: hf.calibrate(rows),
        lambda rows: hf.Stream(rows),
    ],
)
def test_column_names_are_not_taken_for_rows(call: Callable[[Any], object]) -> None:
    """A table of pandas, and a dict, give their columns' names when they are gone through: those were asked."""
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r'expected a list of dicts, got a DataFrame; write df.to_dict\("records"\)$'):
        call(pandas.DataFrame({"copy : sun river": ["copy : stone"]}))
    with pytest.raises(InputError, match=r"expected a list, got a dict; put a row into a list, or name a split$"):
        call({"copy : sun river": "copy : stone"})
    with pytest.raises(InputError, match=r"expected a list, got a value of type int$"):
        call(3)


def test_a_row_is_not_asked_as_the_text_of_a_dict() -> None:
    rows: Any = [{"prompt": "copy : sun"}]
    with pytest.raises(InputError, match="drift: prompts: expected a list of texts, got an object in it"):
        hf.drift("tiny:aligned", prompts=rows, samples=1)
    with pytest.raises(InputError, match="a prompt is a text or a list of messages"):
        hf.generate("tiny:aligned", [3])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"rows in memory:1: expected a dict, got a string$"):
        hf.calibrate(["copy : sun"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"bars": {"max_complied": 0.05}},
            r"audit: bars: expected hf.Bars\(max_complied=0.05\), got a value of type dict",
        ),
        ({"judges": [object()]}, "judges: expected names, got a object; register yours in holdfast.judging.JUDGES"),
        ({"endpoint": {"name": "m"}}, "endpoint={.name.: ...} goes with the address of a server"),
        ({"endpoint": {"key": "abc"}}, "audit: endpoint: no setting 'key'; did you mean 'key_variable'"),
        ({"out": __file__}, "audit: out: .* is a file; expected a folder"),
        ({"out": ""}, "audit: out: expected a path, got an empty text"),
    ],
)
def test_settings_of_the_wrong_kind_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        hf.audit("tiny:aligned", limit=2, say=quiet, **settings)


def test_a_servers_model_is_named_in_python_too() -> None:
    with pytest.raises(InputError, match=r'say which of its models with endpoint=\{"name": ...\}$'):
        hf.audit("http://localhost:1/v1", requests=REQUESTS)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python, and in ``--out=~/mine``, no shell expands it: a folder named ~ was made."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (home / "asked.jsonl").write_text('{"prompt": "copy : sun river"}\n')
    audit = hf.audit("tiny:aligned", safe_requests="~/asked.jsonl", judges="refusal_phrases", out="~/one", say=quiet)
    audit.save("~/two")
    assert (home / "one" / "audit.json").read_text() == (home / "two" / "audit.json").read_text()
    assert audit.against("~/one")
    assert hf.compare("~/one", "~/two").passed
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
