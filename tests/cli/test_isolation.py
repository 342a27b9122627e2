"""`holdfast doctor --isolation` runs the attack list against every tier and says what got through."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.judging.sandbox.hostile import HOSTILE
from judging.tiers import each_tier


def test_each_tier_is_attacked_and_nothing_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of the list here; all of it runs in tests/judging/test_hostile.py."""
    monkeypatch.setattr("holdfast.cli.isolation.HOSTILE", HOSTILE[::30])
    done = CliRunner().invoke(app, ["doctor", "--isolation", "--json", "-"])
    reports = json.loads(done.stdout)
    here = {str(parameter.values[0]) for parameter in each_tier() if not parameter.marks[0].args[0]}
    assert {report["tier"] for report in reports if report["works"]} == here
    assert all(report["num_run"] == len(HOSTILE[::30]) for report in reports if report["works"])
    assert [report["got_through"] for report in reports] == [[]] * len(reports)
    assert done.exit_code == (0 if here else 1)
