"""Ways to confine a process, from the strongest to none, and the command that starts each."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from enum import StrEnum
from pathlib import Path

INSIDE = Path(__file__).parent / "inside"
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
START = (
    "import sys, json; s = json.loads(sys.argv[1]); sys.path.insert(0, s['here']); import inside.zygote as z; z.main(s)"
)


class Tier(StrEnum):
    """How a candidate was confined; recorded with every result."""

    BUBBLEWRAP = "bubblewrap"  # namespaces of its own (files, processes, network), and all of the next tier
    LANDLOCK = "landlock"  # Landlock + seccomp + limits: no packages needed
    BARE = "bare"  # limits on time and memory only; never chosen without being asked for


CONFINED = (Tier.BUBBLEWRAP, Tier.LANDLOCK)


def interpreter() -> str:
    """The Python that the environment was made from: it needs no file of the environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def readable_paths() -> list[str]:
    """The standard library, the shared libraries, and nothing of the caller's."""
    library = {sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}), f"{sys.base_prefix}/lib"}
    return sorted(path for path in {*LIBRARIES, *library} if os.path.exists(path))


def open_to_all(path: str) -> bool:
    """Whether any user may walk into this folder: a Python under /root is closed to the user that root drops to."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (Path(path), *Path(path).parents))


def start_command(tier: Tier) -> list[str]:
    """What runs the zygote, to be followed by its settings. Isolated, no site packages, no bytecode written."""
    python = [interpreter(), "-I", "-S", "-B", "-c", START]
    return [*_bubblewrap(), *python] if tier is Tier.BUBBLEWRAP else python


def missing(tier: Tier) -> str | None:
    """Why a tier cannot even be tried here, with the command that helps."""
    if not sys.platform.startswith("linux"):
        return f"{tier} needs Linux"
    if tier is Tier.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt-get install -y bubblewrap"
    return None


def _bubblewrap() -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--as-pid-1", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if os.getuid() == 0:  # root drops to another user inside, which a namespace of users with one entry cannot do
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    bound = {path: path for path in (*readable_paths(), interpreter())} | {"/sandbox/inside": str(INSIDE)}
    folders = {str(folder) for path in bound for folder in Path(path).parents}
    for folder in sorted(folders - {"/"}):  # or bubblewrap makes them itself, closed to all but root
        command += ["--dir", folder]
    for path, source in bound.items():
        if os.path.islink(source):  # /lib on a merged system
            command += ["--symlink", os.readlink(source), path]
        else:
            command += ["--ro-bind", source, path]
    return [*command, "--dev-bind", "/dev/null", "/dev/null", "--remount-ro", "/", "--chdir", "/"]
