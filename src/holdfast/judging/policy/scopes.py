"""Which names a program defines itself: its own function ``open`` is not the built-in one."""

from __future__ import annotations

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Scopes:
    """Definitions (functions, classes, parameters) by the function that they stand in.

    Only definitions count, not assignments: ``run = eval`` must not make ``eval`` a name of the program.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._names: dict[ast.AST, set[str]] = {}
        self._home: dict[ast.AST, list[ast.AST]] = {}
        self._enter(tree, [tree])

    def defines(self, name: ast.Name) -> bool:
        """Is this name defined in a scope around its use?"""
        return any(name.id in self._names[scope] for scope in self._home[name])

    def _enter(self, node: ast.AST, around: list[ast.AST]) -> None:
        """``around``: the scopes whose names are seen from ``node``, innermost last; a method does not see its class's."""
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._names[node] = _parameters(node) if isinstance(node, Function) else set()
            if around[-1] is not node:
                around = [*around, node]
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not isinstance(
                node, ast.ClassDef
            ):
                self._names[around[-1]].add(child.name)
            if isinstance(child, ast.Name):
                self._home[child] = around
            self._enter(child, around)


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in every if argument is not None}
