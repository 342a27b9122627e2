"""A row as the model sees it, each token coloured by its role: in the terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from holdfast.records import Role
from holdfast.tokens.batch import TokenRow, answer_positions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BEFORE = 4  # tokens that settle how the next one reads
SHADES: dict[Role, tuple[str, str]] = {  # two, so that neighbouring tokens can be told apart
    Role.PROMPT: ("#d9d9d9", "#c6c6c6"),
    Role.RESPONSE: ("#9ecbf2", "#7db7ea"),
    Role.PREFIX: ("#a5e3e0", "#83d3cf"),
    Role.ERROR: ("#ffb3a1", "#ff9780"),
    Role.UNDO: ("#d9b8f0", "#c99ce8"),
    Role.CORRECTION: ("#aee3a6", "#8dd483"),
    Role.SAMPLE: ("#f5e08b", "#ecd062"),
    Role.DECISION: ("#ffcb8f", "#ffb866"),
}
TERMINAL = {  # the sixteen colours of every terminal, light or dark
    Role.PROMPT: "dim",
    Role.RESPONSE: "blue",
    Role.PREFIX: "cyan",
    Role.ERROR: "red",
    Role.UNDO: "magenta",
    Role.CORRECTION: "green",
    Role.SAMPLE: "yellow",
    Role.DECISION: "bright_red",
}


def token_texts(ids: list[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text that each token adds to those before it; a character in several tokens is shown at the last of them."""
    texts: list[str] = []
    known = read = 0  # ids[known:read] is context already shown, which settles the spaces of what follows
    for end in range(1, len(ids) + 1):
        before = tokenizer.decode(ids[known:read], clean_up_tokenization_spaces=False)
        text = tokenizer.decode(ids[known:end], clean_up_tokenization_spaces=False)
        assert isinstance(before, str)
        assert isinstance(text, str)
        if text.endswith("\ufffd") and end < len(ids):
            texts.append("")
            continue
        texts.append(text[len(before) :])
        known, read = read, end
    return texts


def text_in_place(ids: Sequence[int], index: int, token: int, texts: Sequence[str], tokenizer: Any) -> str:
    """How ``token`` would read at a place of a row. ``texts``: the row's own, by ``token_texts``.

    The tokens before it settle its spaces.
    """
    if token == ids[index]:
        return texts[index]
    return token_texts([*ids[max(0, index - BEFORE) : index], token], tokenizer)[-1]


def render_terminal(row: TokenRow, tokenizer: PreTrainedTokenizerBase) -> Group:
    """For ``rich.print``: a line per run of a role, every other token underlined. Readable without colours too."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    tokens = zip(row.roles, token_texts(row.ids, tokenizer), strict=True)
    for role, run in groupby(enumerate(tokens), key=lambda token: Role(token[1][0])):
        line = Text()
        pieces = [(index, text) for index, (_, text) in run]
        for index, text in pieces:
            line.append(_shown(text), style=TERMINAL[role] + (" underline" if index % 2 else ""))
        line.remove_suffix("\n")
        table.add_row(Text(role.label, style=TERMINAL[role]), str(len(pieces)), line)
    return Group(Text(_summary(row)), Text(), table)


def render_html(row: TokenRow, tokenizer: PreTrainedTokenizerBase) -> str:
    """One self-contained page: no script, nothing loaded. Hover over a token for its id, role and positions."""
    spans = []
    facts = zip(row.ids, row.roles, row.positions, answer_positions(row.roles, row.blanks), strict=True)
    for index, (text, (token, number, position, place)) in enumerate(
        zip(token_texts(row.ids, tokenizer), facts, strict=True)
    ):
        role = Role(number)
        title = f"token {index}: {role.label}, id {token}, position {position}"
        title += f", answer position {place}" if role is not Role.PROMPT else ""
        spans.append(f'<span class="{role.label} shade{index % 2}" title="{title}">{escape(_shown(text))}</span>')
    present = [role for role in Role if role in row.roles]
    legend = " ".join(
        f'<span class="{role.label} shade0">{role.label} {row.roles.count(int(role))}</span>' for role in present
    )
    shades = "\n".join(
        f".{role.label}.shade{i} {{ background: {shade} }}" for role in present for i, shade in enumerate(SHADES[role])
    )
    return PAGE.format(shades=shades, summary=escape(_summary(row)), legend=legend, tokens="".join(spans))


def _summary(row: TokenRow) -> str:
    return f"{len(row)} tokens, {row.num_targets} of them trained, {row.context} context"


def _shown(text: str) -> str:
    """Newlines, tabs and parts of a character get a sign; what does not print, or steers a terminal, is spelled out."""
    signs = {"\n": "⏎\n", "\t": "⇥"}
    spelled = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return "".join(signs.get(raw, char) for raw, char in zip(text, spelled, strict=True)) or "◌"


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>holdfast tokens</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
.tokens {{ font: 15px/1.9 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }}
span {{ color: #111; border-radius: 3px }}
.legend span {{ padding: .1rem .5rem }}
.tokens span:hover {{ outline: 2px solid currentColor }}
.error {{ text-decoration: line-through }}
@media (prefers-color-scheme: dark) {{ span {{ filter: brightness(.82) }} }}
{shades}
</style>
</head>
<body>
<h1>A row, token by token</h1>
<p>{summary}</p>
<p class="legend">{legend}</p>
<div class="tokens">{tokens}</div>
</body>
</html>
"""
