"""A walk over the syntax tree that names every way out of plain computing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.judging.policy.modules import (
    ATTRIBUTES,
    COMPUTING,
    EXCEPTIONS,
    NAME_OF,
    PARTS,
    PURPOSE_OF,
)  # fmt: skip
from holdfast.judging.policy.scopes import Scopes

FORMAT_WALK = re.compile(r"\{[^{}]*\.__\w+__")
BY_NAME = ("getattr", "setattr", "delattr", "hasattr")


class Finding(NamedTuple):
    """One use of a capability: where, which, and how."""

    line: int
    capability: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.capability}: {self.what}"


def find_capabilities(source: str) -> list[Finding]:
    """All findings, by line; none means that the program only computes, reads standard input and prints.

    Raises SyntaxError (or ValueError, for a NUL) for text that is no program.
    """
    tree = ast.parse(source)
    walk = _Walk(Scopes(tree))
    walk.visit(tree)
    return sorted(set(walk.findings))


class _Walk(ast.NodeVisitor):
    """Modules are followed by the names they are bound to; everything else is judged where it stands."""

    def __init__(self, scopes: Scopes) -> None:
        self.findings: list[Finding] = []
        self._scopes = scopes
        self._modules = dict(_bound_modules(scopes.tree))

    def _find(self, node: ast.AST, capability: str, what: str) -> None:
        self.findings.append(Finding(getattr(node, "lineno", 0), capability, what))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            whole = f"{module}.{alias.name}"
            if whole in COMPUTING or whole in PARTS:
                continue  # from collections import abc; from os import path
            if module in PARTS or self._import(node, module):
                self._part(node, module, alias.name)

    def _import(self, node: ast.AST, module: str) -> bool:
        if module in COMPUTING or module in PARTS:
            return True
        root = module.split(".")[0]
        self._find(node, PURPOSE_OF.get(module, PURPOSE_OF.get(root, "unknown module")), f"imports {module}")
        return False

    def _part(self, node: ast.AST, module: str, name: str) -> None:
        """Is this name of an imported module harmless?"""
        if f"{module}.{name}" in PARTS or f"{module}.{name}" in COMPUTING:
            return
        root = module.split(".")[0]
        allowed = PARTS.get(module)
        outside = name not in allowed if allowed is not None else name in EXCEPTIONS.get(root, ())
        if name == "*":
            outside = allowed is not None
        if outside or name in EXCEPTIONS.get(module, ()):
            self._find(node, PURPOSE_OF.get(root, "file"), f"uses {module}.{name}")
        elif name.startswith("_") and name != "__name__" and name != "__version__":
            self._find(node, "introspection", f"uses {module}.{name}")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._modules and not self._scopes.defines(node):
            if isinstance(node.ctx, ast.Load):
                self._find(node, "introspection", f"hands the module {self._modules[node.id]} around")
        elif node.id in NAME_OF and isinstance(node.ctx, ast.Load) and not self._scopes.defines(node):
            self._find(node, NAME_OF[node.id], f"uses {node.id}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        module = self._module(node.value)
        if module is not None:
            if isinstance(node.ctx, ast.Load):
                self._part(node, module, node.attr)
            else:
                self._find(node, "introspection", f"changes {module}.{node.attr}")
            return  # the name below is part of this use
        self._attribute(node, node.attr)
        self.visit(node.value)

    def _module(self, node: ast.expr) -> str | None:
        """The imported module that an expression names: ``np``, ``os.path``, ``urllib.parse``."""
        if isinstance(node, ast.Name):
            return None if self._scopes.defines(node) else self._modules.get(node.id)
        if isinstance(node, ast.Attribute) and (parent := self._module(node.value)) is not None:
            whole = f"{parent}.{node.attr}"
            return whole if whole in COMPUTING or whole in PARTS else None
        return None

    def _attribute(self, node: ast.AST, name: str) -> None:
        if name in ATTRIBUTES:
            self._find(node, "introspection", f"reaches for {name}")

    def visit_Call(self, node: ast.Call) -> None:
        by_name = isinstance(node.func, ast.Name) and node.func.id in BY_NAME and not self._scopes.defines(node.func)
        if by_name and isinstance(node.func, ast.Name) and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant):
                self._attribute(node, str(name.value))
                if self._module(node.args[0]):
                    self._part(node, str(self._module(node.args[0])), str(name.value))
            elif node.func.id == "getattr":
                self._find(node, "introspection", "getattr with a name made at run time")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and FORMAT_WALK.search(node.value):
            self._find(node, "introspection", "a format string that walks attributes")


def _bound_modules(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Name -> module, for every import anywhere in the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or whole, whole
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in COMPUTING or whole in PARTS:
                    yield alias.asname or alias.name, whole
