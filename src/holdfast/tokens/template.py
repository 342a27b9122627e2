"""A conversation as the chat template writes it, tools and other arguments included.

Templates do not agree on what they are given: content as text or in parts, arguments of a tool call as an object or as JSON,
thoughts as ``reasoning_content`` or as ``thinking``. The form that this template reads is found by trying. What it cannot be
made to write (tools, tool calls, an argument that it does not know) is refused: it would be lost in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from holdfast.config import InputError
from holdfast.records import Turn, chat_arguments, chat_messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACEHOLDER = "\ue000\ue001"
"""Stands in for a text, to see where a template writes it."""
Messages = list[dict[str, Any]]

_takes_parts: dict[str, bool] = {}
"""By template: whether content must be a list of parts. Some for models that see pictures drop, or refuse, plain text."""


def render(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase, *, open_answer: bool, go_on: bool = False) -> str:
    """The conversation as text. ``open_answer`` adds the generation prompt; ``go_on`` leaves the last turn unended."""
    if not tokenizer.chat_template:
        raise InputError(
            "this tokenizer has no chat template: use an instruct model, set tokenizer.chat_template, "
            "or give documents without turns (field 'text')"
        )
    given = chat_arguments(turns)
    tools, arguments = given.get("tools"), given.get("chat_template_kwargs", {})
    template = tokenizer.get_chat_template(None, tools)
    for name in arguments:
        if not _mentions(template, name):
            raise InputError(
                f"field 'chat_template_kwargs.{name}': this chat template knows no such variable; remove it"
            )
    messages = chat_messages(turns)
    for message in messages:
        if "reasoning_content" in message:
            message["thinking"] = message["reasoning_content"]
    how = {"add_generation_prompt": open_answer, "continue_final_message": go_on}
    write = _Writer(tokenizer, template, how, {"tools": tools, **arguments})
    text = _with_calls(messages, write)
    names = _tool_names(tools or [])
    if tools and not (_mentions(template, "tools") and all(name in text for name in names)):
        raise InputError(
            "field 'tools': this chat template does not write tools; remove them, or use a template that does"
        )
    return text


class _Writer:
    """``apply_chat_template`` with everything but the messages settled."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, template: str, how: dict[str, Any], settings: dict[str, Any]
    ) -> None:
        self.tokenizer, self.how, self.settings = tokenizer, how, settings
        if template not in _takes_parts:
            user, said = {"role": "user", "content": PLACEHOLDER}, {"role": "assistant", "content": PLACEHOLDER[::-1]}
            _takes_parts[template] = not self._writes([user, said]) and self._writes(_in_parts([user, said]))
        self.takes_parts = _takes_parts[template]

    def __call__(self, messages: Messages) -> str:
        """The text, content in the form that the template reads."""
        return self._apply(_in_parts(messages) if self.takes_parts else messages, self.how)

    def _writes(self, probe: Messages) -> bool:
        try:
            text = self._apply(probe, {})
        except InputError:
            return False
        return PLACEHOLDER in text and PLACEHOLDER[::-1] in text

    def _apply(self, messages: Messages, how: dict[str, Any]) -> str:
        try:
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, **how, **self.settings)
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            hint = "; put the system text into the first user turn" if messages[0]["role"] == "system" else ""
            raise InputError(f"the chat template refuses this conversation: {error}{hint}") from None
        assert isinstance(text, str)
        return text


def _with_calls(messages: Messages, write: _Writer) -> str:
    """The text, with every tool call in it: the first form of the calls in which the template writes them."""
    names = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    if not names:
        return write(messages)
    refusals: list[InputError] = []
    forms = _forms_of_calls(messages)
    for form in forms:
        try:
            text = write(form)
        except InputError as error:
            refusals.append(error)
            continue
        if all(name in text for name in names):
            return text
    if len(refusals) == len(forms):
        raise refusals[0]
    raise InputError("field 'tool_calls': this chat template does not write tool calls; use one that does")


def _forms_of_calls(messages: Messages) -> list[Messages]:
    """Arguments as an object, or as its JSON; content that is not there as an empty text, or as null."""
    return [
        [_calling(message, as_json, nothing) if "tool_calls" in message else message for message in messages]
        for as_json in (False, True)
        for nothing in ("", None)
    ]


def _calling(message: dict[str, Any], as_json: bool, nothing: str | None) -> dict[str, Any]:
    calls = message["tool_calls"]
    if as_json:
        calls = [{**call, "function": {**call["function"], "arguments": _json_arguments(call)}} for call in calls]
    return {**message, "content": message["content"] or nothing, "tool_calls": calls}


def _json_arguments(call: Mapping[str, Any]) -> str:
    return json.dumps(call["function"]["arguments"], ensure_ascii=False)


def _in_parts(messages: Messages) -> Messages:
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if message["content"] is not None
        else message
        for message in messages
    ]


def _tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    named = [tool.get("function", tool) for tool in tools]
    return [str(tool["name"]) for tool in named if isinstance(tool, dict) and "name" in tool]


def _mentions(template: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", template) is not None
