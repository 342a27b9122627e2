"""What `holdfast diagnose undo-defence` reads: whose answers are begun and taken back, who is asked, and the arms."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field

from holdfast.audits.suites import read_requests
from holdfast.config import InputError, ModelSettings, Precision, TokenInit
from holdfast.data import learned_part, package_prompts, validation_part, without_twins
from holdfast.judging import request_text
from holdfast.traces import read_references
from holdfast_studies.qwen.config import SourcesConfig

ArmName = Literal["untouched", "undo", "undo_sft", "reset", "augmented", "banned"]
KINDS = ("safety", "keep")


class DefenceConfig(SourcesConfig):
    """A harmful answer that has begun is taken back. Requests are named: see ``prompts_of``."""

    run: str
    title: str
    model: ModelSettings
    stock: str  # writes the harmful beginnings at run time
    train_harmful: str = "package:safety"
    train_harmless: str = "package:keep"
    test_harmful: str = "files:strongreject,jailbreakbench,advbench"
    test_harmless: str = "files:xstest"
    num_harmful: int = Field(default=400, gt=0)  # trained on; those that the model refuses
    num_harmless: int = Field(default=400, gt=0)  # trained on
    num_test: int = Field(default=200, gt=0)  # harmful requests, and as many harmless ones
    begun: tuple[int, int] = (1, 40)  # tokens of a beginning that is trained on: least and most
    copies: int = Field(default=2, gt=0)  # beginnings of every harmful request
    depths: tuple[int, ...] = Field(default=(5, 10, 20, 40), min_length=1)  # tokens that are put into the model's mouth
    arms: tuple[ArmName, ...] = ("untouched", "undo", "undo_sft", "reset", "augmented", "banned")
    held: tuple[ArmName, ...] = ("undo", "reset", "augmented")  # of these one is also trained under held streams
    hold_weight: float = Field(default=1.0, gt=0)
    hold_prompts: tuple[str, ...] = ("prompts:safety", "prompts:keep")
    tuned: tuple[ArmName, ...] = ("undo",)  # then tuned on ``benign``: alone if it was trained alone, held if held
    benign: str = "sql:sql_train"  # a kind of task and the name of its source, or world:...
    num_benign: int = Field(default=500, gt=0)
    benign_steps: int = Field(default=60, gt=0)
    judge: str = "outcome"
    context: Literal["soft", "hard"] = "soft"
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    init: TokenInit = "related"
    steps: int = Field(default=150, gt=0)
    batch_size: int = Field(default=32, gt=0)
    micro_batch: int | None = Field(default=None, gt=0)
    lr: float = Field(default=2e-5, gt=0)
    precision: Precision = "bf16"
    eval_dtype: Literal["float32", "bfloat16"] = "bfloat16"
    reply_tokens: int = Field(default=64, gt=0)  # beside the beginning and its undos
    eval_batch: int = Field(default=256, gt=0)
    workers: int = Field(default=1, gt=0)

    def prompts_of(self, name: str, harmful: bool, limit: int) -> list[str]:
        """The requests of a name: ``package:KIND``, ``validation:KIND``, ``files:SOURCE,...`` or ``world:...``.

        Requests of files come without twins of the package's, in the order of their hashes: the first few are a random draw.
        """
        kind, _, rest = name.partition(":")
        if kind in ("package", "validation") and rest in KINDS:
            part = learned_part if kind == "package" else validation_part
            return list(part(rest))[:limit]  # type: ignore[arg-type]
        if kind == "world":
            return [request_text(row.prompt) for row in read_references(name, limit=limit)]
        if kind != "files":
            raise InputError(
                f"requests '{name}': expected package:KIND, validation:KIND, files:SOURCE,... or world:..."
            )
        wrong = "safe" if harmful else "unsafe"
        texts = [
            request.text
            for source in rest.split(",")
            for request in read_requests(Path(self.path(source)))
            if request.label != wrong
        ]
        texts.sort(key=lambda text: hashlib.sha256(text.encode()).hexdigest())
        return without_twins(texts, package_prompts("safety" if harmful else "keep"), text=str)[:limit]
