"""A small matrix in a process of its own, to be killed: ``python matrix_run.py FOLDER``.

Where the environment names a file in ``WAITS``, the first worker that comes to the rows of seed 1 writes its process id
there and waits to be killed. Whoever comes after it finds the file and goes on.
"""

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.attacks import ATTACKS, DEFENCES, Attack, Scale, run_matrix
from holdfast.attacks.rows import Data
from holdfast.records import Trace
from holdfast.worlds import SafetyWorld
from waiting import PATIENCE

WAITS = "TEST_WAITS_TO_BE_KILLED"


@dataclass(frozen=True)
class WaitingData:
    """An attack's rows, after the wait."""

    data: Data

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        if seed == 1 and os.environ.get(WAITS):
            try:
                with Path(os.environ[WAITS]).open("x", encoding="ascii") as mark:
                    mark.write(str(os.getpid()))
                time.sleep(2 * PATIENCE)
            except FileExistsError:
                pass
        return list(self.data.rows(world, seed))


def _waiting(attack: Attack) -> Attack:
    return replace(attack, data=WaitingData(attack.data))


ATTACKED = [_waiting(ATTACKS["harmful_examples"]), _waiting(ATTACKS["backdoor"])]
DEFENDED = [DEFENCES["untouched"], DEFENCES["sft"]]
SEEDS = (0, 1)
SMALL = Scale(num_requests=6, steps=0.05)

if __name__ == "__main__":
    from attacks import matrix_run  # so that workers find its classes under their own name

    run_matrix(matrix_run.ATTACKED, DEFENDED, SEEDS, sys.argv[1], scale=SMALL, num_workers=1)
