"""A small matrix in a process of its own, to be killed: ``python matrix_run.py FOLDER``."""

import sys

from holdfast.attacks import ATTACKS, DEFENCES, Scale, run_matrix

ATTACKED = [ATTACKS["harmful_examples"], ATTACKS["backdoor"]]
DEFENDED = [DEFENCES["untouched"], DEFENCES["sft"]]
SEEDS = (0, 1)
SMALL = Scale(num_requests=6, steps=0.05)

if __name__ == "__main__":
    run_matrix(ATTACKED, DEFENDED, SEEDS, sys.argv[1], scale=SMALL, num_workers=1)
