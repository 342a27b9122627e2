"""Which models a page may ask: the embedded ones, those that were named, and those that the runs have made."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import InputError
from holdfast.reports.text import named
from holdfast.view.folders import is_inside
from holdfast.view.watch import Watch

if TYPE_CHECKING:
    from holdfast.models import LoadedModel

EMBEDDED = ("tiny:aligned", "tiny:base")
OF_A_RUN = "run:"
KEPT = 3  # models in memory


class Models:
    """Loads models by the ids that it listed, one at a time, and keeps the last few."""

    def __init__(self, watch: Watch, names: Sequence[str]) -> None:
        self.watch, self.names = watch, (*dict.fromkeys([*names, *EMBEDDED]),)
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._one = threading.Lock()

    def listed(self) -> list[dict[str, str]]:
        """Ids and what they are called."""
        by_name = [{"id": name, "name": named(name, 120)} for name in self.names]
        made = [run.summary for run in self.watch.runs.values() if run.summary.has_model and not run.folder.fault]
        return by_name + [{"id": OF_A_RUN + summary.id, "name": summary.name} for summary in made]

    def load(self, key: str) -> LoadedModel:
        """Raises ``InputError`` for an id that was not listed, or a run's model that would read files from elsewhere."""
        with self._one:
            name = self._name(key)
            key = f"{key} {_changed(name)}"
            if key not in self._loaded:
                from transformers.utils import logging as transformers_logging

                from holdfast.models import load

                transformers_logging.disable_progress_bar()
                self._loaded[key] = load(name)
            self._loaded.move_to_end(key)
            while len(self._loaded) > KEPT:
                self._loaded.popitem(last=False)
            return self._loaded[key]

    def _name(self, key: str) -> str:
        if key in self.names:
            return key
        run = self.watch.runs.get(key.removeprefix(OF_A_RUN)) if key.startswith(OF_A_RUN) else None
        if run is None or run.folder.fault or not run.summary.has_model:
            raise InputError("no such model here: name it with --model when you start `holdfast view`")
        folder = run.folder.path / "model"
        for path in folder.rglob("*"):
            if not is_inside(path, self.watch.root):
                raise InputError(f"{run.folder.name}: {named(path.name)} is a link that leads out of the folder")
        self._check_base(folder)
        return str(folder)

    def _check_base(self, folder: Path) -> None:
        """An adapter names its base model: one that may be asked, or a folder among the runs."""
        config = folder / "adapter_config.json"
        if not config.is_file():
            return
        try:
            base = json.loads(config.read_text(encoding="utf-8"))["base_model_name_or_path"]
        except (ValueError, KeyError, TypeError, RecursionError):
            base = None
        if not isinstance(base, str):
            raise InputError("adapter_config.json: expected a base model's name")
        beside = folder / base
        place = beside if beside.is_dir() else Path(base)
        named_here = base in self.names or any(_is_same(place, name) for name in self.names)
        if not named_here and not (place.is_dir() and is_inside(place, self.watch.root)):
            raise InputError(f"its base model is {named(base)}: name it with --model when you start `holdfast view`")


def _is_same(place: Path, name: str) -> bool:
    """Whether a folder is that of a model by its name: an adapter of ``tiny:aligned`` has the folder in the package."""
    from holdfast.models.embedded import PREFIX, tiny_path

    other = tiny_path(name) if name.startswith(PREFIX) else Path(name).expanduser()
    return place.is_dir() and other.is_dir() and place.resolve() == other.resolve()


def _changed(name: str) -> float:
    """When a folder's weights were written: a run that has gone on has another model."""
    return max((path.stat().st_mtime for path in Path(name).glob("*.safetensors")), default=0.0)
