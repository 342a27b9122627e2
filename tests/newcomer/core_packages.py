"""What `pip install holdfast` brings: the core dependencies of pyproject.toml and theirs."""

import os
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import holdfast
from docs.pages import ROOT

CORE_ONLY = Path(__file__).parent / "core_only"


def core_closure() -> set[str]:
    """Names of distributions, as this environment has them. An optional one that a core package pulls in is core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [Requirement(line) for line in project["dependencies"]]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        package = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if package not in seen:
            seen.add(package)
            waiting += _required(requirement)
    return {name for name, _ in seen}


def _required(package: Requirement) -> Iterator[Requirement]:
    try:
        lines = requires(package.name) or []
    except PackageNotFoundError:  # for another system: its marker did not hold when this one was installed
        return
    for line in lines:
        requirement = Requirement(line)
        wanted = [{"extra": extra} for extra in ("", *package.extras)]
        if requirement.marker is None or any(map(requirement.marker.evaluate, wanted)):
            yield requirement


def other_packages() -> list[str]:
    """Import names of everything else that is installed here, holdfast itself aside."""
    core = core_closure() | {"holdfast"}
    owners = {name: set(map(canonicalize_name, found)) for name, found in packages_distributions().items()}
    return sorted(name for name, found in owners.items() if not found & core)


def core_environment() -> dict[str, str]:
    """For a child process (and its own) that finds nothing but the core; this copy of holdfast is the one it imports."""
    path = os.pathsep.join(map(str, (CORE_ONLY, Path(holdfast.__file__).parents[1])))
    return {**os.environ, "PYTHONPATH": path, "BLOCKED_PACKAGES": " ".join(other_packages())}
