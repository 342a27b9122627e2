"""`python signalled.py NUM ARGUMENTS`: `holdfast ARGUMENTS`, which gets a real SIGINT when the NUMth row of a log is written."""

import os
import signal
import sys

from holdfast.cli import main
from holdfast.training.checkpoints import durable

if __name__ == "__main__":
    num_rows = int(sys.argv.pop(1))
    num_written = 0

    def at_point(name: str) -> None:
        global num_written
        num_written += name == "after-row"
        if name == "after-row" and num_written == num_rows:
            os.kill(os.getpid(), signal.SIGINT)

    durable.at_point = at_point
    main()
