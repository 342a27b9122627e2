"""The candidates that hold a model on plain work too."""

import re
from pathlib import Path

import pytest

from holdfast.attacks import find_defence
from holdfast.config import load_config
from holdfast_studies.qwen import defences
from holdfast_studies.qwen.config import StudyConfig

CONFIGS = Path(__file__).parents[3] / "configs" / "qwen"


@pytest.mark.parametrize(
    ("without", "name"), [("anchored@5/5", "anchored_skills@5/5/5"), ("vetted@1/1", "vetted_skills@1/1/1")]
)
def test_skills_take_half_of_keeps_rows_and_change_nothing_else(without: str, name: str) -> None:
    before, after = find_defence(without), find_defence(name)
    assert after.vet == before.vet
    assert [(stream.rows, stream.batch_size) for stream in after.own_on_files] == [
        ("safety", 32),
        ("keep", 16),
        ("skills", 16),
    ]
    assert sum(stream.batch_size for stream in before.own_on_files) == 64
    assert {stream.weight for stream in after.own_on_files} == {stream.weight for stream in before.own_on_files}
    assert after.own == after.own_on_files


def test_the_command_beside_them_loads() -> None:
    text = str(defences._with_skills.__doc__)
    settings = re.findall(r"\b(?!run=)(\w+=\S+)", text)
    config = load_config(StudyConfig, CONFIGS / "validation.yaml", ["model=m", "stock=s", "data=d", *settings])
    assert [config.defence(name).name for name in config.defences] == list(config.defences)
    assert {"anchored_skills@5/5/5", "vetted_skills@1/1/1"} < set(config.defences)
    assert config.shares == (0, 0.1)
