"""Scripts that start worker processes: one without a guard runs once, and one that workers need is told of its guard."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from forked import Forked
from holdfast.attacks.caller_script import imports_script
from holdfast.config import InputError
from waiting import PATIENCE

ATTACK = 'hf.attack(attacks=["NAME"], defences=["untouched"], seeds=1, run="run", num_requests=2, workers=1)'
PLAIN = f"""\
import holdfast as hf
print("begins")
matrix = {ATTACK.replace("NAME", "harmful_examples")}
print("share", matrix.estimate("harmful_examples", "untouched"))
"""
OWN = f"""\
from dataclasses import dataclass
import holdfast as hf
from holdfast.attacks import ATTACKS, Attack

@dataclass(frozen=True)
class FewExamples:
    def rows(self, setting, seed):
        return setting.attacker_rows(4, seed)

ATTACKS["few"] = Attack(name="few", data=FewExamples(), lr=1e-3, epochs=1)
print("begins")
{ATTACK.replace("NAME", "few")}
"""
GUARDED_ELSEWHERE = (
    OWN
    + """
if __name__ == "__main__":
    print("ends")
"""
)


def fresh(script: Path) -> subprocess.CompletedProcess[str]:
    """The script in an interpreter of its own, as a user starts it."""
    command = [sys.executable, script.name]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=PATIENCE, check=False)


def forked(script: Path) -> subprocess.CompletedProcess[str]:
    return Forked(script=script, cwd=script.parent).done()


@pytest.mark.parametrize("start", [forked, pytest.param(fresh, marks=pytest.mark.slow)])
def test_a_script_without_a_guard_runs_once_and_gets_its_figures(
    start: Callable[[Path], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN, encoding="utf-8")
    done = start(tmp_path / "plain.py")
    assert done.returncode == 0, done.stderr
    begins, share = done.stdout.splitlines()
    assert begins == "begins"
    assert re.fullmatch(r"share 0\.\d{3} \[0\.\d{3}, [01]\.\d{3}\]", share)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OWN, "own.py: defines 'FewExamples', so worker processes import this script: put what is to run once below"),
        (
            GUARDED_ELSEWHERE,
            "own.py: worker processes import this script, and it starts workers again: put that call below",
        ),
    ],
    ids=["no guard", "a guard elsewhere"],
)
def test_a_script_that_workers_need_is_told_of_its_guard(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    done = Forked(script=tmp_path / "own.py", cwd=tmp_path).done()
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1, "that of the script itself: its workers say nothing"
    assert "ends" not in done.stdout
    assert not list(tmp_path.glob("run/cells/*")), "nothing is left behind"


PARTS = """\
from holdfast import objectives
from holdfast.attacks import ATTACKS, DEFENCES, Attack, Defence, HarmfulExamples

def plain(stats):
    return -stats.logp

objectives.REGISTRY["plain"] = objectives.Objective("plain", plain, reads=("logp",))
ATTACKS["few"] = Attack(name="few", data=HarmfulExamples(4), lr=1e-3, epochs=1)
DEFENCES["plain"] = Defence(name="plain", objective="plain")
"""
MATRIX = """
import holdfast as hf
matrix = hf.attack(attacks=["few"], defences=["plain"], seeds=1, run="run", num_requests=2, workers=1)
print(matrix.cells[0].status)
"""


def test_an_objective_that_a_script_imports_reaches_the_workers(tmp_path: Path) -> None:
    """Only a name of it is in the cell: neither the attack's rows nor the defence bring the file along."""
    (tmp_path / "parts.py").write_text(PARTS, encoding="utf-8")
    (tmp_path / "study.py").write_text(f"import parts\n{MATRIX}", encoding="utf-8")
    done = Forked(script=tmp_path / "study.py", cwd=tmp_path).done()
    assert done.stdout.splitlines()[-1:] == ["ok"], done.stderr


def test_an_objective_of_the_script_itself_is_told_of_the_guard(tmp_path: Path) -> None:
    (tmp_path / "study.py").write_text(PARTS + MATRIX, encoding="utf-8")
    done = Forked(script=tmp_path / "study.py", cwd=tmp_path).done()
    assert "study.py: defines 'plain', so worker processes import this script" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("if __name__ == '__main__':\n    main()\n", True),
        ("if '__main__' == __name__ and ready:\n    main()\n", True),
        ("print('__main__')\nif name == '__main__':\n    main()\n", False),
        ("main()\n", False),
        ("no python", True),  # as multiprocessing would have it
    ],
)
def test_a_guard_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, guarded: bool) -> None:
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "mine.py")
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert imports_script(print, ["__main__", ModuleType.__name__]) == guarded


def test_what_a_session_defines_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    session = ModuleType("__main__")
    exec("class Mine:\n    pass\n", vars(session))
    monkeypatch.setitem(sys.modules, "__main__", session)
    assert not imports_script(print, ["__main__"]), "a text is no reference"
    with pytest.raises(InputError, match=r"'Mine' is defined in this session, .*: import it from a file"):
        imports_script(print, [session.Mine()])
    with pytest.raises(InputError, match="'Mine' is defined in this session"):
        imports_script(print, [], parts=[print, session.Mine])
