"""studies/configs/smollm2: what is run next opens with a command that says everything which the file leaves open."""

from __future__ import annotations

import pytest

from docs.pages import ROOT
from holdfast.config import MatrixConfig, load_config
from holdfast_studies.real.align import AlignConfig


@pytest.mark.parametrize(("name", "kind"), [("align", AlignConfig), ("outcomes", MatrixConfig)])
def test_it_opens_with_its_whole_command(name: str, kind: type[AlignConfig] | type[MatrixConfig]) -> None:
    path = ROOT / "studies" / "configs" / "smollm2" / f"{name}.yaml"
    command = path.read_text(encoding="utf-8").splitlines()[0].split()
    assert f"studies/configs/smollm2/{name}.yaml" in command
    assert load_config(kind, path, [word for word in command if "=" in word]).run == f"runs/smollm2/{name}"
