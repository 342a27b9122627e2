"""On PYTHONPATH: this interpreter, and every one it starts, does without the packages named in BLOCKED_PACKAGES.

They look as they do where nobody installed them: `find_spec` returns None and an import is a ModuleNotFoundError.
"""

import os
import sys
from importlib.machinery import PathFinder

BLOCKED = frozenset(os.environ.get("BLOCKED_PACKAGES", "").split())


class CoreOnly(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname.partition(".")[0] in BLOCKED:
            return None
        return super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = CoreOnly  # type: ignore[call-overload, index]
