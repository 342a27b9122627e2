"""docs/training.md: every field of the config with its default, every command with a file that exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from docs.pages import DOCS, fenced, section, table_rows
from holdfast.config import TrainConfig, load_config
from holdfast.config.recipes import FOLDER as RECIPES
from holdfast.data.default_prompts import KINDS, default_prompts

PAGE = (DOCS / "training.md").read_text(encoding="utf-8")
TABLES = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", section(PAGE, "Fields") + "## ", re.MULTILINE | re.DOTALL))


def models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in models_in(argument)]


PARTS = {
    "top": TrainConfig,
    **{name: found[0] for name, field in TrainConfig.model_fields.items() if (found := models_in(field.annotation))},
}


def test_every_part_has_its_table() -> None:
    assert set(TABLES) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_every_field_is_there_with_its_default(part: str) -> None:
    told = {row[0].strip("`"): row[1] for row in table_rows(TABLES[part])}
    real = {
        name: "required" if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in PARTS[part].model_fields.items()
        if not field.exclude  # rows in memory: given in Python only
    }
    assert list(told) == list(real)
    for name, default in real.items():
        assert as_yaml(told[name]) == plain(default), f"{part}.{name}"


def test_the_prompts_that_come_with_the_package_are_all_there_and_counted() -> None:
    held = section(PAGE, "Streams").partition("### Held prompts")[2].partition("###")[0]
    told = {row[0].strip("`"): row[1] for row in table_rows(held)}
    assert told == {**{f"prompts:{kind}": str(len(default_prompts(kind))) for kind in KINDS}, "prompts:FILE": "yours"}
    assert sum(int(number) for number in re.findall(r"\d+", table_rows(held)[KINDS.index("skills")][2])) == 240


def as_yaml(cell: str) -> object:
    value = yaml.safe_load(cell.strip("`"))
    return float(value) if isinstance(value, str) and re.fullmatch(r"\d+e-?\d+", value) else value


def plain(default: object) -> object:
    """Parts stand in the page as {}: their own tables give the rest."""
    if isinstance(default, BaseModel):
        return {}
    return list(default) if isinstance(default, tuple) else default


def test_the_choices_of_a_field_are_named() -> None:
    for part, model in PARTS.items():
        cells = {row[0].strip("`"): " ".join(row[1:]) for row in table_rows(TABLES[part])}
        for name, field in model.model_fields.items():
            for choice in (each for each in literals(field.annotation) if isinstance(each, str)):
                assert f"`{choice}`" in cells[name], f"{part}.{name}: {choice} is not named"


def literals(annotation: object) -> list[object]:
    found = []
    for argument in get_args(annotation):
        found += literals(argument) if get_args(argument) else [argument]
    return found


def test_the_example_is_a_config(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(fenced(PAGE, "yaml")[0], encoding="utf-8")
    assert load_config(TrainConfig, path).streams[0].objective == "csft"


def test_the_commands_name_files_that_open_with_them() -> None:
    commands = [line for block in fenced(PAGE, "sh") for line in block.splitlines() if "accelerate launch" in line]
    assert len(commands) >= 4
    for command in commands:
        if command.startswith("#"):
            continue
        name = re.search(r"--config_file (\S+)", command)
        assert name
        assert (RECIPES / "accelerate" / name[1]).read_text(encoding="utf-8").splitlines()[0] == f"# {command}"


def test_the_run_directory_has_these_files() -> None:
    from holdfast.training.result import REPORTED
    from holdfast.training.run_directory import RunDirectory

    told = set(re.findall(r"^      ([\w.]+)/? ", section(PAGE, "A run directory"), re.MULTILINE))
    run = RunDirectory("runs/x")
    assert told == {*REPORTED, *(path.name for path in vars(run).values() if path != run.path)}
