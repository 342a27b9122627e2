"""docs/parity.md is what tests/parity registered."""

import importlib.util
import sys
from types import ModuleType

from docs.pages import DOCS, ROOT, table_rows


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parity_page", DOCS / "tools" / "parity.py")
    assert spec is not None
    assert spec.loader is not None
    tool = sys.modules["parity_page"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_the_largest_difference_of_each_comparison_is_shown() -> None:
    lines = [
        '{"peer": "trl", "version": "1.16.0", "what": "the | loss", "difference": 1e-7, "test": "test_a.py"}',
        '{"peer": "trl", "version": "1.16.0", "what": "the | loss", "difference": 3e-6, "test": "test_a.py"}',
        '{"peer": "Qi", "version": "2024", "what": "ids", "difference": "same ids", "test": "test_b.py"}',
        '{"peer": "scipy", "version": "1.17.1", "what": "intervals", "difference": 0.0, "test": "test_c.py"}',
    ]
    tool = load_tool()
    rows = tool.read_rows(lines)
    assert rows[1] == tool.Row("trl", "1.16.0", "the | loss", 3e-6, "test_a.py")
    assert table_rows(tool.page(rows)) == [
        ["Qi", "2024", "ids", "same ids", "[test_b.py](../tests/parity/test_b.py)"],
        ["scipy", "1.17.1", "intervals", "0", "[test_c.py](../tests/parity/test_c.py)"],
        ["trl", "1.16.0", r"the \| loss", "3.0e-06", "[test_a.py](../tests/parity/test_a.py)"],
    ]


def test_every_test_beside_another_code_is_on_the_page() -> None:
    """If this fails, run `make parity`."""
    shown = {row[-1].partition("]")[0].removeprefix("[") for row in table_rows((DOCS / "parity.md").read_text("utf-8"))}
    assert shown == {path.name for path in (ROOT / "tests" / "parity").glob("test_*.py")}
