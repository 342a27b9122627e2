"""Which models the page may ask: an adapter's base model counts as named by any of its names."""

import json
import shutil
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model

from holdfast.config import InputError
from holdfast.models import load
from holdfast.models.embedded import tiny_path
from holdfast.view.folders import find_runs
from holdfast.view.models import Models
from holdfast.view.summaries import Watched
from holdfast.view.watch import Watch
from view.serving import write_training


def models_of(root: Path, *names: str) -> tuple[Models, str]:
    """The models of a page over ``root``, and the id of its one run's."""
    watch = Watch(root, lambda: False)
    (folder,) = find_runs(root)
    run = Watched(folder)
    run.refresh(folder, frozenset())
    watch.runs = {folder.id: run}
    return Models(watch, names), f"run:{folder.id}"


def write_adapter(folder: Path, base: Path | str) -> None:
    adapted = get_peft_model(load("tiny:aligned").model, LoraConfig(r=2, target_modules="all-linear"))
    adapted.save_pretrained(folder)
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": str(base)}))


def test_an_adapter_of_an_embedded_model_loads(tmp_path: Path) -> None:
    """Its base is the folder in the package, which nobody types."""
    run = write_training(tmp_path / "runs" / "lora")
    write_adapter(run / "model", tiny_path("tiny:aligned"))
    models, key = models_of(tmp_path / "runs")
    assert models.load(key).model is not None


def test_a_base_model_is_the_same_under_another_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tiny_path("tiny:aligned"), tmp_path / "base")
    run = write_training(tmp_path / "runs" / "lora")
    write_adapter(run / "model", "base")
    monkeypatch.chdir(tmp_path)
    models, key = models_of(tmp_path / "runs", str(tmp_path / "base"))
    assert models.load(key).model is not None
    models, key = models_of(tmp_path / "runs")
    with pytest.raises(InputError, match="its base model is base: name it with --model"):
        models.load(key)
