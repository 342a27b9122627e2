"""A second attacker: the aligned model, tuned on the first one's rows, answers the requests in words of its own.

It is tuned on half of the requests and answers the other half, and the other way round: tuned on all it would say what it
learned by heart. The tuned weights lie in a temporary folder and are deleted before this returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.attacks.attack import Attack
from holdfast.attacks.defences import DEFENCES
from holdfast.attacks.run_time_answers import release, shared_folder, write_answers
from holdfast.attacks.scale import Scale
from holdfast.attacks.setting import Setting
from holdfast.attacks.tuning import tune
from holdfast.judging import request_text
from holdfast.records import Trace

LR, EPOCHS, BATCH_SIZE = 2e-5, 25, 64


@dataclass(frozen=True)
class _FixedRows:
    """A dataset of these rows."""

    fixed: tuple[Trace, ...]

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """The same for every seed."""
        del setting, seed
        return list(self.fixed)


def answers_of_its_own(rows: Sequence[Trace], scale: Scale, max_new_tokens: int) -> dict[str, str]:
    """By request: what the model answers after it was tuned (`sft`) on the rows of the other half."""
    said: dict[str, str] = {}
    for half in (0, 1):
        lesson, requests = rows[half::2], [request_text(row.prompt) for row in rows[1 - half :: 2]]
        attack = Attack(name="lesson", data=_FixedRows(tuple(lesson)), lr=LR, epochs=EPOCHS, batch_size=BATCH_SIZE)
        with TemporaryDirectory(prefix="second-attacker-", dir=shared_folder()) as folder:
            tuned = tune(attack, DEFENCES["sft"], 0, scale, Path(folder))
            release()
            said |= write_answers(tuned, requests, scale.device, max_new_tokens)
        release()
    return said
