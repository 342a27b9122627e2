"""`python studies/tools/fingerprints.py docs/results/papers`: after code was moved, give stored figures its new fingerprint.

Only for changes that leave every number as it is. Each file that is rewritten is listed with both fingerprints: put the list into
the commit, so that a reader can check the change of the code behind each. The figures themselves are not touched.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast_studies.papers import studies
from holdfast_studies.papers.fingerprint import fingerprint


def rewrite(folder: Path) -> list[str]:
    """One line for every file whose fingerprint was changed."""
    lines = []
    for study in studies().values():
        now = fingerprint(study)
        for path in sorted(folder.glob(f"{study.id}.*.json")):
            text = path.read_text(encoding="utf-8")
            then = json.loads(text)["source"]
            if then != now:
                path.write_text(text.replace(f'"source": "{then}"', f'"source": "{now}"', 1), encoding="utf-8")
                lines.append(f"{path.name}: {then} -> {now}")
    return lines


if __name__ == "__main__":
    print("\n".join(rewrite(Path(sys.argv[1]))) or "all fingerprints are current")
