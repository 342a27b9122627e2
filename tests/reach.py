"""How much of `src/holdfast` the product's commands reach: `python tests/reach.py` prints the modules that none does.

Imports are followed from `holdfast.cli` and from `holdfast` itself, those inside functions included. A file that is run by its
path counts as reached when a reached file names it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
GOAL = 0.95


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    named = {".".join(path.relative_to(SRC).with_suffix("").parts): path for path in SRC.glob("holdfast/**/*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a file imports, packages on the way included; and those it names in a string."""
    wanted: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            word = node.value.removesuffix(".py").replace("/", ".")
            wanted |= {word, f"{package}.{word}"}
    parents = {name.rsplit(".", depth)[0] for name in wanted for depth in range(1, name.count(".") + 1)}
    return (wanted | parents) & known.keys()


def reached(known: dict[str, Path]) -> set[str]:
    """From the command line and the public interface on."""
    waiting, seen = ["holdfast.cli", "holdfast", "holdfast.__main__"], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imports(name, known[name], known)
    return seen


def main() -> int:
    """Print the count, and what is out of reach."""
    known = modules()
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    within = reached(known)
    share = sum(lines[name] for name in within) / sum(lines.values())
    print(f"{sum(lines[name] for name in within)} of {sum(lines.values())} lines in {len(known)} files: {share:.1%}")
    for name in sorted(known.keys() - within):
        print(f"  no command reaches {name} ({lines[name]} lines)")
    return share < GOAL


if __name__ == "__main__":
    sys.exit(main())
