"""`python verbs.py COMMANDS.json`: run `holdfast` commands one after the other in this process and print what came of each.

One process pays for importing torch once. A matrix still starts its own workers.
"""

import contextlib
import io
import json
import sys
from pathlib import Path


def run(words: list[str]) -> dict[str, object]:
    from holdfast.cli import main

    sys.argv = ["holdfast", *words]
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    commands = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    outcomes = [run(words) for words in commands]
    print(json.dumps(outcomes))
