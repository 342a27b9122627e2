"""Parts for other people's programs: a refusal task for lm-eval; a scorer, a sandbox and logs for inspect."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.peers.inspect_log import write_inspect_log
from holdfast.peers.lm_eval_task import LM_EVAL_TASK, write_lm_eval_task

if TYPE_CHECKING:
    from holdfast.peers.inspect_parts import ConfinedPython, outcome

__all__ = ["LM_EVAL_TASK", "ConfinedPython", "outcome", "write_inspect_log", "write_lm_eval_task"]


def __getattr__(name: str) -> Any:
    """Import the parts of inspect only where inspect is installed and one of them is used."""
    if name in ("ConfinedPython", "outcome"):
        return getattr(import_module("holdfast.peers.inspect_parts"), name)
    raise AttributeError(f"module 'holdfast.peers' has no attribute '{name}'")
