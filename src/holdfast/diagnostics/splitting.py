"""How a response is taken apart into attempts: which answers count, and where one attempt ends and the next begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.config import InputError
from holdfast.config.base import user_path
from holdfast.config.plugins import STUDIES, look_up
from holdfast.diagnostics.attempts import MARKERS, Splitter, lexical_splitter, token_splitter
from holdfast.judging.extractors import EXTRACTORS, Extractor, find_extractor

Splitting = tuple[Splitter, Extractor]

SPLITTINGS: dict[str, Callable[[int], Splitting]] = {}
"""Ways that are neither phrases nor a token, by the name that ``extract`` gives them; each takes a base. Plugins add theirs."""
OF_THE_STUDIES = ("product", "words")
"""Those that the package holdfast-studies adds."""


def how_to_split(
    extract: str,
    *,
    base: int = 5,
    markers: str | Path | None = None,
    resample: str | None = None,
    stop: str | None = None,
) -> Splitting:
    """At phrases (a file of ``markers``, or ours), or exactly at the token ``resample``; ``extract`` names what an answer is.

    An ``extract`` that brings its own way of splitting takes ``base`` alone; the others do not read it.
    """
    if extract not in EXTRACTORS and (split_own_way := look_up(SPLITTINGS, extract)) is not None:
        for name, value in (("markers", markers), ("resample", resample), ("stop", stop)):
            if value is not None:
                raise InputError(f"{name}=: extract={extract} splits in its own way; leave it out")
        return split_own_way(base)
    if extract in OF_THE_STUDIES:
        raise InputError(f"extract={extract} {STUDIES}")
    extractor = find_extractor(extract)
    if resample == "":
        raise InputError("resample=: expected a token, got nothing")
    if resample is not None:
        if markers is not None:
            raise InputError("markers= and resample=: choose one way of splitting")
        return token_splitter(extractor, resample=resample, stop=stop), extractor
    if stop is not None:
        raise InputError("stop= goes with resample=")
    return lexical_splitter(
        extractor, MARKERS if markers is None else _phrases(user_path(markers, "markers"))
    ), extractor


def _phrases(path: Path) -> list[str]:
    try:
        phrases = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if not phrases:
        raise InputError(f"{path}: expected one phrase a line, got none")
    return phrases
