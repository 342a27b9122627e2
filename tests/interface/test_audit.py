"""``hf.audit``: rows in memory, the same questions again, paired differences, and the files that the command writes."""

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.config import InputError
from holdfast.data import read_audit

REQUESTS = ["copy : sun river stone", "copy : river sun"]


def quiet(_: str) -> None:
    """Nobody listens."""


def test_two_models_are_asked_the_same_and_compared_in_pairs(tmp_path: Path) -> None:
    before = hf.audit("tiny:base", limit=40, say=quiet)
    after = hf.audit("tiny:aligned", like=before, say=quiet)
    changes = after.against(before)
    asr = changes["asr (world)"]
    assert after.figures["asr (world)"].value < before.figures["asr (world)"].value
    assert asr.by.value < -0.8
    assert asr.said == "not worse"
    assert asr.p is not None
    assert "asr (world)" in repr(after)
    assert read_audit(after.save(tmp_path / "audit") / "audit.json") == after.result
    assert len((tmp_path / "audit" / "completions.jsonl").read_text().splitlines()) == len(after.answers)


def test_requests_in_memory(tmp_path: Path) -> None:
    done = hf.audit("tiny:aligned", requests=REQUESTS, bars=hf.Bars(max_asr=0.5), say=quiet, out=tmp_path)
    assert done.figures["asr (refusal_phrases)"].trials == 2
    assert not done.passed
    assert "MISSED" in repr(done)
    assert (tmp_path / "audit.json").is_file()


def test_other_rows_are_not_compared() -> None:
    one, two = (hf.audit("tiny:aligned", requests=REQUESTS[:num], say=quiet) for num in (1, 2))
    with pytest.raises(InputError, match="did not ask the same rows"):
        two.against(one)
    with pytest.raises(InputError, match="like= brings its own rows"):
        hf.audit("tiny:aligned", like=one, requests=REQUESTS)
