"""What is imported without torch and its seconds: a server in front of other servers, judges by name, figures."""

import subprocess
import sys

import pytest

MODELS = ("torch", "transformers")


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("stats", ("numpy", "scipy", "torch")),
        ("records", ("scipy", "torch")),
        ("worlds", MODELS),
        ("judging", MODELS),
        ("serve.run", MODELS),
        ("view", MODELS),
    ],
)
def test_importing_it_is_cheap(name: str, absent: tuple[str, ...]) -> None:
    if name in ("serve.run", "view"):
        pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    code = f"import sys, holdfast.{name}; print(*(module for module in {absent!r} if module in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"
