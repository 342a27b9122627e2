"""Parts for other people's programs: a refusal task for lm-eval; a scorer, a sandbox and logs for inspect."""

from holdfast.peers.lm_eval_task import LM_EVAL_TASK, write_lm_eval_task

__all__ = ["LM_EVAL_TASK", "write_lm_eval_task"]
