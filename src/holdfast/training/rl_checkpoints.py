"""GRPO saves as every run does: what TRL writes for a checkpoint is there whole or not at all, with its digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl import GRPOTrainer

from holdfast.training.checkpoints import step_of
from holdfast.training.joint_checkpoints import save_jointly
from holdfast.training.run_directory import RunDirectory
from holdfast.training.step_log import StepLog


class SafeGrpoTrainer(GRPOTrainer):
    """GRPOTrainer that a kill or a second Ctrl-C while saving cannot leave with half a checkpoint."""

    _saves_into: str | None = None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run, save = RunDirectory(self.args.output_dir), super()._save_checkpoint

        def write(folder: Path) -> None:
            self._saves_into = str(folder)
            try:
                save(model, trial)
            finally:
                self._saves_into = None

        StepLog(run.steps).sync()
        save_jointly(run.checkpoints, self.state.global_step, write, keep=None)

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Not after the last step: killed between its checkpoint and its model, a run would make one step too many."""
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)

    def _get_output_dir(self, trial: Any) -> str:
        """Where Trainer makes the folder of a checkpoint."""
        folder: str = self._saves_into or super()._get_output_dir(trial)
        return folder


def inner_folder(checkpoint: Path) -> Path:
    """What Trainer resumes from: it gives the folder of a checkpoint a name of its own."""
    return checkpoint / f"checkpoint-{step_of(checkpoint)}"
