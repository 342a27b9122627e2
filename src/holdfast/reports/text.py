"""Untrusted text made fit to show: nothing invisible, nothing that reorders its neighbours, nothing endless.

What a model, a file name or a failure's reason says is data. Markup is escaped where the page is put together; here
characters that a browser would hide or obey are written out, as ``⟨U+202E⟩``.
"""

from __future__ import annotations

import hashlib
import re

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls other than tab and newline
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u3164\ufeff\uffa0\ufff9-\ufffb"  # seen as nothing
    "\u2028-\u202e\u2060-\u206f"  # line separators, bidi embeddings, overrides and isolates
    "\ud800-\udfff"  # half of a pair: cannot be written as UTF-8 at all
    "\U000e0000-\U000e0fff"  # tags and variation selectors, in which text can hide
    "]"
)


def visible(text: str) -> str:
    """The text with every hidden character written out."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def shown(value: object, limit: int = 400) -> str:
    """A value as visible text of about ``limit`` characters, with a note of how many were left out."""
    text = value if isinstance(value, str) else str(value)
    left_out = len(text) - limit
    return visible(text) if left_out <= 0 else f"{visible(text[:limit])}… ({left_out:,} more characters left out)"


def named(name: str, limit: int = 60) -> str:
    """A name as visible text. One that is cut ends in a hash of the whole: two long names never become one."""
    if len(name) <= limit:
        return visible(name)
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{visible(name[: limit - 9])}…{digest[:8]}"
