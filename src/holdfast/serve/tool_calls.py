"""Tool calls of a model: checked, and spelled as text, which is what a judge reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.serve.protocol import sendable


def read_tool_calls(value: Any) -> tuple[dict[str, Any], ...] | None:
    """The calls with the fields that the protocol knows; None where one of them is not well-formed."""
    if not isinstance(value, list):
        return None
    calls = [_read_call(call) for call in value]
    return None if None in calls else tuple(call for call in calls if call)


def _read_call(call: Any) -> dict[str, Any] | None:
    function = call.get("function") if isinstance(call, dict) and call.get("type", "function") == "function" else None
    if not isinstance(function, dict):
        return None
    texts = [function.get("name"), function.get("arguments"), call.get("id")]
    if not all(isinstance(text, str) for text in texts) or not texts[0]:
        return None
    name, arguments, call_id = (sendable(str(text)) for text in texts)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def spelled(text: str, calls: Sequence[dict[str, Any]]) -> str:
    """The text, and every call on a line of its own as ``name(arguments)``."""
    lines = [f"{call['function']['name']}({call['function']['arguments']})" for call in calls]
    return "\n".join([*([text] if text or not lines else []), *lines])
