"""How many steps make an epoch: as many as transformers' own Trainer takes over the same rows."""

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from holdfast.training import steps_for
from parity.conftest import ParityRow

MICRO_BATCH, PASSES = 8, 4


class Slope(nn.Module):
    """The least that a Trainer trains."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": (self.weight * x).square().mean()}


def steps_of_trainer(num_rows: int, epochs: int, folder: Path) -> int:
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=MICRO_BATCH,
        gradient_accumulation_steps=PASSES,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = [{"x": torch.tensor([float(row)])} for row in range(num_rows)]
    trainer = Trainer(Slope(), arguments, train_dataset=rows)  # type: ignore[arg-type]
    trainer.train()
    return trainer.state.global_step


@pytest.mark.parametrize("num_rows", [1, 10, 32, 47, 64, 65])
def test_an_epoch_has_as_many_steps(num_rows: int, tmp_path: Path, parity_row: ParityRow) -> None:
    for epochs in (1, 3):
        assert steps_for(epochs, num_rows, MICRO_BATCH * PASSES) == steps_of_trainer(num_rows, epochs, tmp_path)
    parity_row("transformers", transformers.__version__, "steps of an epoch: 1 to 65 rows, 32 a step", "same number")
