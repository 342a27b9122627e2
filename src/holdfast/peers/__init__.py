"""Parts for other people's programs: a refusal task for lm-eval; a scorer, a sandbox and logs for inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.peers.inspect_log import write_inspect_log
from holdfast.peers.lm_eval_task import LM_EVAL_TASK, write_lm_eval_task

if TYPE_CHECKING:
    from holdfast.peers.inspect_parts import ConfinedPython, outcome

__all__ = ["LM_EVAL_TASK", "ConfinedPython", "outcome", "write_inspect_log", "write_lm_eval_task"]

# Inspect may not be installed.
__getattr__ = exported_later(__name__, {"inspect_parts": "ConfinedPython outcome"})
