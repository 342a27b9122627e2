"""Which code made a study's figures, a hash of what its ``run`` reaches in its own file; and from which finished runs.

Docstrings, white space and the rules that judge the figures do not count: figures outlive them.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from holdfast_studies.papers.study import Machine, Study


def fingerprint(study: Study) -> str:
    """What ``run`` calls in other files may have changed too: that is what `--fresh` is for."""
    file = inspect.getsourcefile(study.run)
    assert file is not None, f"{study.id}: its run function has no source file"
    source = Path(file).read_text(encoding="utf-8")
    named = dict(_top_level(ast.parse(source)))
    reached, waiting = set[str](), [study.run.__name__]
    while waiting:
        name = waiting.pop()
        if name in named and name not in reached:
            reached.add(name)
            waiting += [node.id for node in ast.walk(named[name]) if isinstance(node, ast.Name)]
    # Words of the source, not a dump of the tree: a dump differs from one Python to the next.
    words = [word for name in sorted(reached) for word in _words(named[name], source.splitlines())]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def inputs(study: Study, scale: Machine) -> str | None:
    """A hash of the files that ``run`` reads; None if it reads none, or if they are not on this machine."""
    digest, paths = hashlib.sha256(), study.reads(scale)
    for path in paths:
        digest.update(f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16] if paths else None


def _top_level(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes and constants by name."""
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for node in (node for target in targets for node in ast.walk(target)):
                if isinstance(node, ast.Name):
                    yield node.id, statement


def _words(statement: ast.stmt, lines: list[str]) -> list[str]:
    texts = [
        node for node in ast.walk(statement) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    docstrings = {number for text in texts for number in _numbers(text)}
    kept = [lines[number - 1] for number in _numbers(statement) if number not in docstrings]
    return " ".join(kept).split()


def _numbers(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
