"""studies/configs/smollm2: public requests are asked for by name and home, never looked for in a folder that only we have."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT
from holdfast.config import InputError, load_config
from holdfast.config.base import Settings
from holdfast.config.matrix import MatrixConfig
from holdfast_studies.real.align import AlignConfig

FOLDER = ROOT / "studies" / "configs" / "smollm2"
LISTS = ("requests", "harmless", "files.align", "files.attack", "files.held_out", "files.validation")


@pytest.mark.parametrize(
    ("name", "kind", "num"),
    [("align", AlignConfig, 2), *((name, MatrixConfig, 7) for name in ("matrix", "outcomes", "tables", "validation"))],
)
def test_it_says_where_its_files_come_from_and_takes_their_paths(name: str, kind: type[Settings], num: int) -> None:
    path = FOLDER / f"{name}.yaml"
    with pytest.raises(InputError) as caught:
        load_config(kind, path)
    lines = str(caught.value).splitlines()
    fields = [found[1] for line in lines if (found := re.search(r"add ([\w.]+)=VALUE to the command", line))]
    assert len(fields) == len(lines) == num
    assert all(re.search(r"github\.com|Hugging Face hub|the same", line) for line in lines)
    given = [f"{field}={'[a.json]' if field in LISTS else 'a.json'}" for field in fields]
    assert load_config(kind, path, given)
