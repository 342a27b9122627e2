"""`make check`: the studies import only names that `holdfast` and its packages export in ``__all__``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def exported(package: str) -> frozenset[str] | None:
    """The ``__all__`` of a package; None if it is a module, or not there."""
    init = ROOT / "src" / Path(*package.split(".")) / "__init__.py"
    if not init.exists():
        return None
    for statement in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return frozenset(ast.literal_eval(statement.value))
    return frozenset()


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Line and what is wrong, of every import that reaches behind a package's exports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("holdfast."):
                    yield node.lineno, f"import {alias.name}: import names from the package instead"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "holdfast":
            names = exported(node.module or "")
            if names is None:
                yield node.lineno, f"{node.module} is not a package: import from the package that exports the name"
            else:
                for alias in node.names:
                    if alias.name not in names and exported(f"{node.module}.{alias.name}") is None:
                        yield node.lineno, f"{node.module} does not export {alias.name}"


def main() -> int:
    """Print every fault; 1 if there is any."""
    told = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted((ROOT / "studies" / "src").rglob("*.py"))
        for line, what in faults(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(told), end="\n" if told else "")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
