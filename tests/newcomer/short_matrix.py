"""`holdfast`, and one more attack that it knows: ``short``, of four steps, whose rows of seed 1 wait to be killed once.

The environment says where the mark is, as for attacks/matrix_run.py.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a worker reads this file before the tests' folder is known

from attacks.matrix_run import WaitingData
from holdfast.attacks import ATTACKS
from holdfast.attacks.rows import HarmfulExamples

ATTACKS["short"] = replace(ATTACKS["harmful_examples"], name="short", data=WaitingData(HarmfulExamples(32)), epochs=2)

if __name__ == "__main__":
    from holdfast.cli import main

    main()
