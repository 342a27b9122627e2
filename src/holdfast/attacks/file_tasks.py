"""The tasks of a user's files: rows that teach each of them, rows that measure it, and who says what is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast import stats
from holdfast.attacks.setting import Scores
from holdfast.audits.suites.choices import ChoiceSuite, choice_suite
from holdfast.audits.suites.code import code_suite
from holdfast.audits.suites.gsm8k import gsm8k_suite
from holdfast.audits.suites.requests import read_requests
from holdfast.audits.suites.sql import sql_suite, tidy
from holdfast.audits.suites.suite import Questions, Scored, Suite, asked_rows, question, written
from holdfast.config import InputError, naming_field, nearest_or_all
from holdfast.config.extras import need_extra
from holdfast.config.files import FilesConfig, TaskFiles
from holdfast.data import Table, read_rows, read_table, read_traces
from holdfast.judging import find_reward, score_replies
from holdfast.judging.sandbox import shared_sandboxes
from holdfast.records import Completion, Figure, Reply, Trace

UNNAMED = ("skill", "guide", "ledger", "task")
"""What attacks call their task in the embedded world. On files it means the first one."""


@dataclass(frozen=True)
class RewardSuite(Questions):
    """A reward says what an answer is worth; right is what it gives 1. The row's first answer is the reply's ``reference``."""

    reward: str

    def score(self, completions: Sequence[Completion]) -> Scored:
        """The reward of every answer; 0 where it cannot say."""
        pairs = zip(self.rows, completions, strict=True)
        replies = [Reply(row.prompt, said.text, reference=row.turns[len(row.prompt)].visible) for row, said in pairs]
        given = score_replies(find_reward(self.reward), replies)
        scores = [score or 0.0 for score in given]
        right = stats.share(score == 1 for score in scores)
        meaning = f"answers to which the reward {self.reward} gives 1"
        figure = Figure(self.name, right, "more", meaning, unscored=given.count(None), scores=written(scores))
        return Scored((figure,), tuple({"reward": f"{score:g}"} for score in scores))


@dataclass(frozen=True)
class FileTask:
    """One kind of rows. For choosing settings (``validation``) the last rows of the training file measure and do not teach."""

    name: str
    files: TaskFiles
    num_test: int
    validation: bool = False

    @property
    def is_chat(self) -> bool:
        """Whether it has prompts only: the untouched model answers them."""
        return self.files.kind == "chat"

    @cached_property
    def train(self) -> tuple[Trace, ...]:
        """Rows with their right answers; of chat, prompts without one."""
        if not self.files.train:
            return ()
        if self.is_chat:
            return tuple(question(request.text) for request in read_requests(Path(self.files.train).expanduser()))
        file = Path(self.files.train).expanduser()
        return tuple(self._suite(self._table(file)[: -self.num_test] if self.validation else file, None).rows)

    @cached_property
    def test(self) -> Suite:
        """What measures the task."""
        if self.validation:
            return self._suite(self._table(Path(self.files.train).expanduser())[-self.num_test :], None)
        return self._suite(Path(self.files.test).expanduser(), self.num_test)

    @property
    def is_measured(self) -> bool:
        """Whether it has rows that measure it; for choosing settings, rows of its training file."""
        return bool(self.files.test and (self.files.train or not self.validation))

    @property
    def rows(self) -> Sequence[Trace]:
        """Rows that measure it, with their right answers."""
        return self.test.rows

    @property
    def options(self) -> Sequence[Sequence[str]]:
        """For every row the letters to choose from by likelihood; empty where an answer is written."""
        return self.test.letters if isinstance(self.test, ChoiceSuite) else ()

    @property
    def max_new_tokens(self) -> int | None:
        """The length of an answer; None: the same as for any other answer that is judged."""
        if self.files.max_new_tokens is None and self.files.kind != "sql_exact":
            return self.test.max_new_tokens
        return self.files.max_new_tokens

    def scores(self, texts: Sequence[str]) -> Scores:
        """The scores of the answers to ``rows``, by figure."""
        if self.files.kind == "sql_exact":  # needs nothing but the package
            pairs = zip(texts, self.rows, strict=True)
            return {"sql_exact": tuple(float(tidy(text) == tidy(row.turns[-1].visible)) for text, row in pairs)}
        figures = self.test.score([Completion("", text) for text in texts]).figures
        return {figure.name: figure.by_row for figure in figures}

    def _table(self, file: Path) -> tuple[dict[str, object], ...]:
        return tuple(read_table(file, dict))

    def _suite(self, table: Table, limit: int | None) -> Suite:
        if self.files.kind == "gsm8k":
            return gsm8k_suite(table, limit)
        if self.files.kind == "choices":
            return choice_suite(table, limit, self.name)
        if self.files.kind == "reward":
            dataset = read_traces(table) if isinstance(table, Path) else read_rows(table)
            for number, row in enumerate(dataset.traces):
                if not 0 < len(row.prompt) < len(row.turns):
                    raise InputError(f"{dataset.where(number)}: expected a prompt and an answer")
            source, asked = asked_rows(table, dataset.traces, limit)
            return RewardSuite(self.name, source, tuple(asked), 320, self.files.reward)
        return code_suite(table, limit) if self.files.kind == "code" else sql_suite(table, limit)


def parts_of(files: FilesConfig, name: str) -> tuple[FileTask, ...]:
    """The task of that name, or the tasks that it is made of."""
    tasks = files.all_tasks()
    if name not in tasks and name in UNNAMED:
        name = next(iter(tasks))
    if name not in tasks:
        raise InputError(f"task '{name}': no such task in files.tasks{nearest_or_all(name, tasks)}")
    validation = files.part == "validation"
    return tuple(FileTask(part, tasks[part], files.num_task, validation) for part in tasks[name].of or (name,))


def check_tasks(files: FilesConfig) -> None:
    """Raise ``InputError`` for a task that lacks packages, a sandbox or readable rows, before a model is loaded."""
    for name, task in files.all_tasks().items():
        if task.kind == "sql":
            need_extra("eval", f"files.tasks.{name}", "sqlglot", "rouge_score")
        if task.kind == "reward":
            with naming_field(f"files.tasks.{name}.reward"):
                find_reward(task.reward)
        for part in parts_of(files, name):
            part.train  # noqa: B018
            if part.is_measured:
                part.rows  # noqa: B018
        if task.kind == "code" and task.test:
            shared_sandboxes()
