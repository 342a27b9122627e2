"""Looks at every run a few times a second, for all pages together, and tells each page what has changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from holdfast.view.charts import RunLogs
from holdfast.view.folders import Folder, find_runs
from holdfast.view.logs import Log
from holdfast.view.summaries import Watched, locked_folders

SECONDS = 0.4  # between two looks: a new row is shown within a second
SEARCH_SECONDS = 2.0  # between two searches for new folders
KEPT_LOGS = 24  # whole logs in memory


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event. (``holdfast.serve`` has the same function, but takes half a second to import.)"""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode(errors="replace")


class Watch:
    """Watches all runs under ``root``, by id. Files are read in a thread, one at a time."""

    def __init__(self, root: Path, has_ended: Callable[[], bool]) -> None:
        self.root, self.has_ended = root, has_ended
        self.runs: dict[str, Watched] = {}
        self._folders: list[Folder] = []
        self._searched = self._looked = -SEARCH_SECONDS
        self._logs: OrderedDict[str, RunLogs] = OrderedDict()
        self._one = asyncio.Lock()

    async def look(self) -> None:
        """Bring everything up to date, unless that was done a moment ago."""
        async with self._one:
            if time.monotonic() - self._looked >= SECONDS / 2:
                await asyncio.to_thread(self._look)
                self._looked = time.monotonic()

    def _look(self) -> None:
        if time.monotonic() - self._searched >= SEARCH_SECONDS:
            self._folders = find_runs(self.root)
            self._searched = time.monotonic()
        locked = locked_folders()
        runs = {folder.id: self.runs.get(folder.id) or Watched(folder) for folder in self._folders}
        deadline = time.monotonic() + SECONDS  # the list comes first, then what takes longer
        for folder in self._folders:
            runs[folder.id].refresh(folder, locked, deadline)
        self.runs = runs

    async def changes(self) -> AsyncIterator[dict[str, Any]]:
        """First every run, then until the server ends the rows of those that changed and the ids of those that are gone."""
        sent: dict[str, int] = {}
        while not self.has_ended():
            await self.look()
            runs = self.runs
            changed = [run for run in runs.values() if sent.get(run.folder.id) != run.version]
            gone = [key for key in sent if key not in runs]
            if changed or gone or not sent:
                yield {"runs": [run.summary.row() for run in changed], "gone": gone}
                sent = {key: run.version for key, run in runs.items()}
            else:
                yield {}
            await asyncio.sleep(SECONDS)

    async def logs(self, key: str) -> RunLogs | None:
        """The whole log of a run, up to its newest row; None for a run that is not there or must not be read."""
        run = self.runs.get(key)
        if run is None or run.folder.fault:
            return None
        async with self._one:
            return await asyncio.to_thread(self._read, run.folder)

    def _read(self, folder: Folder) -> RunLogs:
        path = folder.path
        logs = self._logs.get(folder.id) or RunLogs(folder.name, Log(path / "steps.jsonl"), Log(path / "timing.jsonl"))
        logs.steps.refresh()
        logs.timing.refresh()
        self._logs[folder.id] = logs
        self._logs.move_to_end(folder.id)
        while len(self._logs) > KEPT_LOGS:
            self._logs.popitem(last=False)
        return logs
