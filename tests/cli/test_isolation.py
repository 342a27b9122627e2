"""`holdfast doctor --isolation` runs the attack list and says what got through."""

import json
import subprocess
import sys

from judging.tiers import each_tier


def test_the_attack_list_is_run_and_nothing_gets_through() -> None:
    command = [sys.executable, "-m", "holdfast", "doctor", "--isolation", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    reports = json.loads(done.stdout)
    here = {str(parameter.values[0]) for parameter in each_tier() if not parameter.marks[0].args[0]}
    assert {report["tier"] for report in reports if report["works"]} == here
    assert [report["got_through"] for report in reports] == [[]] * len(reports)
    assert done.returncode == (0 if here else 1)
