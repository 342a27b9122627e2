"""What a matrix on a user's files needs: requests and task data by path, and who answers the attacker's requests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.config.base import Settings


class FilesConfig(Settings):
    """Files of requests have a column ``instruction``, ``prompt``, ``request``, ``goal`` or ``question``."""

    stock: str  # the unaligned model: it answers the attacker's requests at run time
    align: tuple[str, ...] = ()  # requests that the alignment learned to refuse
    attack: tuple[str, ...] = Field(min_length=1)  # requests that the attacker may use
    held_out: tuple[str, ...] = Field(min_length=1)  # requests that are asked in the end, twins of the others left out
    validation: tuple[str, ...] = ()  # requests for choosing a defence, beside the package's
    part: Literal["test", "validation"] = (
        "test"  # what is asked in the end: the held-out files, or what is for choosing
    )
    harmless: str  # safe prompts (a column ``label`` may mark unsafe ones, which are left out)
    task_train: str  # benign SQL rows: question, context, answer
    task_test: str
    judges: tuple[str, ...] = Field(default=("outcome", "refusal_phrases", "learned"), min_length=1)
    num_attack: int = Field(default=110, gt=0)
    num_requests: int = Field(default=250, gt=0)  # of each kind that is asked, at most
    num_task: int = Field(default=200, gt=0)
    max_new_tokens: int = Field(default=64, gt=0)  # of an answer that is judged
    answer_tokens: int = Field(default=96, gt=0)  # of an answer that is learned from
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "auto"
    rows_per_pass: int | None = Field(default=None, gt=0)  # of a training step: memory against time
    steps: float = Field(default=1.0, gt=0)  # share of every training's steps; less than 1 is for trying things out
