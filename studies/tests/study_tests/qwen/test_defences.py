"""The candidates that hold a model on plain work too."""

from pathlib import Path

import pytest

from holdfast.attacks import find_defence
from holdfast.config import load_config
from holdfast_studies.qwen.cells import places
from holdfast_studies.qwen.config import StudyConfig
from holdfast_studies.qwen.page import HELD

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


def test_the_committed_config_asks_for_them_with_and_without_skills() -> None:
    config = load_config(StudyConfig, CONFIGS / "skills.yaml", ["model=m", "stock=s", "data=d"])
    tuned = [config.defence(name).name for name in config.defences if name.startswith(HELD)]
    assert tuned == ["anchored@5/5", "anchored_skills@5/5/5", "vetted@1/1", "vetted_skills@1/1/1"]
    assert "code" in config.beside
    assert len(places(config)) == 1 + 2 * 5


def test_the_committed_configs_name_our_defences_as_the_page_knows_them() -> None:
    """Under a name with its settings a defence has no goals, and nothing is compared with it."""
    for path in sorted(CONFIGS.glob("[!sv]*.yaml")) + sorted(CONFIGS.glob("s[tk]*.yaml")):
        config = load_config(StudyConfig, path, ["model=m", "stock=s", "data=d", "run=r"])
        assert not [name for name in config.defences if "@" in name], path.name
        assert set(HELD) & set(config.defences), path.name
