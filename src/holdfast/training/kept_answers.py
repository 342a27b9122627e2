"""A folder of answers that other runs need too, each file under the hash of everything that decided what is in it.

A file is looked at before it is used: one that is cut, changed or under another name is made anew. Processes may share the
folder. Whoever comes second to the same answers waits for the first, and where the disk has no locks both make them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Literal

from holdfast.config import InputError
from holdfast.config.cache_folder import cache_folder
from holdfast.data import atomic_text
from holdfast.training.processes import Alive, Say, try_lock

SWITCH = "HOLDFAST_KEEP_ANSWERS"
"""Environment variable: 0 keeps nothing and looks for nothing."""
ON, OFF = ("", "1", "on", "true", "yes"), ("0", "off", "false", "no")
DAYS = 30  # an entry that no run has used for so long is deleted
SECONDS = 0.2  # between two looks at whether another process has finished
Text = str | None
"""An answer; None where only its verdict is kept."""
_PLACE: ContextVar[Path | Literal["cache"] | None] = ContextVar("place", default="cache")


@contextmanager
def kept_in(folder: Path | None) -> Iterator[None]:
    """Keep answers in ``folder`` instead of the user's cache, and nowhere if it is None. Whoever owns the folder deletes it."""
    before = _PLACE.set(folder)
    try:
        yield
    finally:
        _PLACE.reset(before)


def answers_folder() -> Path | None:
    """Where answers are kept now; None: nowhere."""
    switch = os.environ.get(SWITCH, "").lower()
    if switch not in ON + OFF:
        raise InputError(f"environment variable {SWITCH}: expected 0 or 1, got '{switch}'")
    place = _PLACE.get()
    if switch in OFF or place is None:
        return None
    return cache_folder() / "answers" if place == "cache" else place


class KeptAnswers:
    """Answers by key. ``say`` hears why something takes longer or is not kept; ``alive`` is called while waiting."""

    def __init__(self, folder: Path, say: Say, alive: Alive) -> None:
        self.folder, self.say, self.alive = folder, say, alive

    def read_or_make(self, key: str, num: int, make: Callable[[], Sequence[Text]]) -> tuple[list[Text], bool]:
        """The ``num`` answers under ``key``, and whether they were there already. ``make`` is called if they were not."""
        path = self.folder / f"{key}.json"
        with self._alone(key):
            kept = _read(path, num)
            if kept is not None:
                return kept, True
            made = list(make())
            assert len(made) == num
            self._write(path, made)
        return made, False

    def _write(self, path: Path, texts: list[Text]) -> None:
        try:
            with atomic_text(path) as file:
                json.dump({"sha256": _digest(path.stem, texts), "texts": texts}, file)
            _forget_old(self.folder)
        except (InputError, OSError) as error:
            self.say(f"the anchor's answers are not kept for other runs: {error}")

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        lock = self._lock(key)
        if lock is None:
            yield
            return
        with lock:
            if not try_lock(lock):
                self.say("another process answers the same prompts: waiting for what it keeps")
                while not try_lock(lock):
                    self.alive()
                    time.sleep(SECONDS)
            yield

    def _lock(self, key: str) -> IO[str] | None:
        """None in a folder that cannot be written: it has no writers to wait for."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # other users must not read answers
            return (self.folder / f".lock-{key[:2]}").open("w")  # few files for all keys: none is ever deleted
        except OSError:
            return None


def _read(path: Path, num: int) -> list[Text] | None:
    """None where the file is missing or not what was written; else it counts as used."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        texts, digest = kept["texts"], kept["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if digest != _digest(path.stem, texts) or len(texts) != num:
        return None
    with suppress(OSError):  # the folder may belong to another user
        os.utime(path)
    return list(texts)


def _digest(key: str, texts: object) -> str:
    return hashlib.sha256(json.dumps([key, texts]).encode()).hexdigest()


def _forget_old(folder: Path) -> None:
    oldest = time.time() - DAYS * 24 * 3600
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError):  # another process was quicker
            if path.stat().st_mtime < oldest:
                path.unlink()
