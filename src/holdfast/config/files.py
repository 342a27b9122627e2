"""What a matrix on a user's files needs: requests and task data by path, and who answers the attacker's requests."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from holdfast.config.base import Settings, UserPath, UserPaths
from holdfast.config.errors import InputError
from holdfast.config.loading import fault_lines

FOUR_BITS = "four_bits"
WAY = re.compile(r"(prefilled|sampled)@[1-9]\d*|four_bits")
TaskKind = Literal["sql_exact", "sql", "gsm8k", "code", "choices", "reward", "chat"]


class TaskFiles(Settings):
    """A task of one kind, with the files that teach it and measure it; or one made of others in equal parts (``of``).

    ``sql_exact`` counts answers written the same, ``sql`` queries that return the same (extra ``eval``), ``gsm8k`` the right
    number, ``code`` programs that pass their test in the sandbox, ``choices`` the likeliest letter, ``reward`` answers to which
    the reward of that name gives 1. ``chat`` is prompts that the untouched model answers. A task without ``test``, such as chat,
    teaches and is not measured. ``choices`` needs no ``train``.
    """

    kind: TaskKind | None = None
    train: UserPath = ""
    test: UserPath = ""
    reward: str = ""  # of kind reward: a name in holdfast.judging.REWARDS, or of your own
    max_new_tokens: int | None = Field(default=None, gt=0)  # of an answer; default: enough for any right one
    of: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_kind_or_several(self) -> TaskFiles:
        if bool(self.of) == (self.kind is not None):
            raise ValueError("a task has a kind, or is made of other tasks: give kind or of")
        if self.of and (self.train or self.test or self.reward or self.max_new_tokens):
            raise ValueError("a task made of others has no files, reward or tokens of its own")
        if self.kind is not None and not self.train and not (self.kind == "choices" and self.test):
            raise ValueError("train: expected a file")
        if bool(self.reward) != (self.kind == "reward"):
            raise ValueError("reward: goes with kind: reward, which needs one; give both")
        if self.kind == "chat" and self.test:
            raise ValueError("test: what is right in general chat nobody can say; leave it out")
        return self


class CurveSettings(Settings):
    """At how many steps of every training the model is asked, and how much."""

    points: int = Field(default=4, gt=0)  # in equal distances, the last step included
    num_requests: int = Field(default=64, gt=0)  # of each kind, at most
    num_task: int = Field(default=50, gt=0)


class FilesConfig(Settings):
    """Files of requests have a column ``instruction``, ``prompt``, ``request``, ``goal`` or ``question``."""

    stock: UserPath  # the unaligned model: it answers the attacker's requests at run time
    align: UserPaths = ()  # requests that the alignment learned to refuse
    attack: UserPaths = Field(min_length=1)  # requests that the attacker may use
    held_out: UserPaths = Field(min_length=1)  # requests that are asked in the end, twins of the others left out
    validation: UserPaths = ()  # requests for choosing a defence, beside the package's
    part: Literal["test", "validation"] = (
        "test"  # what is asked in the end: the held-out files, or what is for choosing
    )
    half: Literal["all", "first", "second"] = (
        "all"  # ask only this half: of the harmless, and of each file of held-out ones
    )
    harmless: UserPath  # safe prompts (a column ``label`` may mark unsafe ones, which are left out)
    tasks: dict[str, TaskFiles] = Field(default_factory=dict)  # what is tuned on and measured; the first unless named
    task_train: UserPath = ""  # short for one task of kind sql_exact: question, context, answer
    task_test: UserPath = ""
    beside: tuple[str, ...] = ()  # tasks that every cell measures too, whatever was tuned on
    wrappers: tuple[str, ...] = ()  # for the attack `reworded`: templates with {request}; default: the package's
    asks: tuple[str, ...] = ()  # further ways to ask: prefilled@K (tokens), sampled@N (tries, temperature 1), four_bits
    judges: tuple[str, ...] = Field(default=("outcome", "refusal_phrases"), min_length=1)
    num_attack: int = Field(default=110, gt=0)
    num_requests: int = Field(default=250, gt=0)  # of each kind that is asked, at most
    num_task: int = Field(default=200, gt=0)
    max_new_tokens: int = Field(default=64, gt=0)  # of an answer that is judged
    answer_tokens: int = Field(default=96, gt=0)  # of an answer that is learned from
    curve: CurveSettings | None = None  # ask every model on its way too; None: only when it is tuned
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "auto"
    rows_per_pass: int | None = Field(default=None, gt=0)  # of a training step: memory against time
    steps: float = Field(default=1.0, gt=0)  # share of every training's steps; less than 1 is for trying things out
    replies: UserPath = ""  # a folder for the replies of every cell, which else are judged and forgotten

    @model_validator(mode="after")
    def _tasks_are_there(self) -> FilesConfig:
        if bool(self.task_train) != bool(self.task_test):
            raise ValueError("task_train and task_test: give both")
        if bool(self.tasks) == bool(self.task_train):
            raise ValueError("expected tasks, or task_train and task_test")
        for name, task in self.all_tasks().items():
            for part in task.of:
                if part not in self.tasks or self.tasks[part].of:
                    raise ValueError(f"tasks.{name}.of: '{part}' is no task with files of its own")
        if wrong := [way for way in self.asks if not WAY.fullmatch(way)]:
            raise ValueError(f"asks: '{wrong[0]}': expected prefilled@TOKENS, sampled@TRIES or {FOUR_BITS}")
        if wrong := [template for template in self.wrappers if "{request}" not in template]:
            raise ValueError(f"wrappers: '{wrong[0]}' has no {{request}}")
        for name in self.beside:
            if name not in self.all_tasks():
                raise ValueError(f"beside: '{name}' is none of the tasks")
        return self

    def all_tasks(self) -> dict[str, TaskFiles]:
        """The tasks by name; ``task_train`` and ``task_test`` make one named ``task``."""
        if self.tasks:
            return self.tasks
        return {"task": TaskFiles(kind="sql_exact", train=self.task_train, test=self.task_test)}


class Files(FilesConfig):
    """Your files of requests and tasks, for ``hf.attack``. The settings are those of ``files:`` in a config.

    Needed: ``stock``, the model before it learned to refuse; ``attack``, requests that the attacker may use; ``held_out``,
    those that are asked in the end; ``harmless``, safe prompts; and ``tasks``, such as
    ``{"sql": {"kind": "sql", "train": FILE, "test": FILE}}`` (docs/attacks.md). ``align``: requests that the alignment learned
    to refuse. ``judges``: names, the first one counts. ``holdfast recipes matrix_real`` prints an example.

    Raises ``InputError`` with a line for every wrong one.
    """

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise InputError(fault_lines(FilesConfig, error, "hf.Files")) from None
