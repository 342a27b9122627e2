"""Messages name arguments as Python does (``max_complied=0.05``); the command line tells them as its own options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

OTHER_NAMES = {
    "judges": "judge",
    "figures": "figure",
    "kinds": "kind",
    "only": "program",
    "objectives": "objective",
    "references": "data",
    "group": "by",
    "name": "model_name",
}
"""Arguments whose option is called otherwise."""

ARGUMENT = re.compile(
    r"""(?<![\w.'"/-])                        # no setting of a config (training.lr=) and no part of a path
    (?:\w+=\{"(?P<key>\w+)":\ \.\.\.\}        # endpoint={"name": ...}
    |(?P<name>[a-z]\w*)=
     (?:True\b|"(?P<text>[^"]*)"|(?P<value>(?=[^\s,:;.)])))?)""",
    re.VERBOSE,
)


def with_options(message: str, command: Any, words: Iterable[str]) -> str:
    """The message with ``--max-complied 0.05`` for ``max_complied=0.05``, if that is an option of the command.

    ``command``: click's, of the whole program. ``words``: the command line, which says which of its commands was run.
    """
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    options = {param.name: param.opts[0] for param in command.params if param.opts[0].startswith("--")}

    def as_option(match: re.Match[str]) -> str:
        name = match["key"] or match["name"]
        option = options.get(OTHER_NAMES.get(name, name))
        if option is None:
            return match[0]
        if match["key"]:
            return f"{option} ..."
        if match["text"] is not None:
            return f"{option} {match['text']}"
        return option if match["value"] is None else f"{option} "

    return ARGUMENT.sub(as_option, message)
