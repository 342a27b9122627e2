"""Part of `make check`: a file says one thing, in at most 400 lines; a function fits a screen."""

import ast
import sys
from pathlib import Path

MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 60


def complaints(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    found = []
    if (length := len(source.splitlines())) > MAX_FILE_LINES:
        found.append(f"{path}: {length} lines, at most {MAX_FILE_LINES}: is it one idea?")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_kernel(node):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}")
    return found


def _is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A Triton kernel is one function by nature: its accumulators live in registers across both of its loops."""
    return any(ast.unparse(decorator) == "triton.jit" for decorator in node.decorator_list)


if __name__ == "__main__":
    root = Path(__file__).parent.parent
    files = [
        path
        for folder in ("src", "studies", "tests", "benchmarks", "docs")
        for path in sorted((root / folder).rglob("*.py"))
    ]
    problems = [line for path in files for line in complaints(path)]
    print("\n".join(problems) or f"file lengths: {len(files)} files, all within {MAX_FILE_LINES} lines")
    sys.exit(bool(problems))
