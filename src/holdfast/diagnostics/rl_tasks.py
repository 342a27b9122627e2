"""RL tasks by name: where the prompts come from, what is rewarded, and what the log says of the decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast.config import InputError, nearest_or_all
from holdfast.config.plugins import STUDIES, look_up
from holdfast.config.rl import RlConfig
from holdfast.data import DataError, Problem, file_rows
from holdfast.diagnostics.attempts import Splitter, lexical_splitter
from holdfast.diagnostics.from_transcripts import judge
from holdfast.diagnostics.transcripts import PROMPTS, REFERENCES, Transcript
from holdfast.judging import Extractor, Reward, find_extractor, find_reward, reference_answer
from holdfast.records import Reply
from holdfast.training.rl import Environment, Observer, RlPrompt


class RlTask(NamedTuple):
    """Everything that ``train_rl`` takes beside its config."""

    prompts: list[RlPrompt]
    reward: Reward
    observe: Observer
    environment: Environment | None = None


def task_of(config: RlConfig) -> RlTask:
    """The task that the config names, with the reward that it names: by default the task's own."""
    make = look_up(RL_TASKS, config.task)
    if make is None and config.task == "arithmetic":
        raise InputError(f"task 'arithmetic' {STUDIES}")
    if make is None:
        raise InputError(f"task '{config.task}': no such task{nearest_or_all(config.task, RL_TASKS)}")
    task = make(config)
    return task if config.reward is None else task._replace(reward=find_reward(config.reward))


def answer_matches(config: RlConfig) -> RlTask:
    """Rows of a file, each a prompt with its answer."""
    if config.task_options:
        raise InputError(f"field 'task_options': answer_matches has none, got {', '.join(config.task_options)}")
    if config.data is None:
        raise InputError("field 'data': expected a file with the columns prompt and answer")
    extract = find_extractor(config.extract)
    observe = decisions(lexical_splitter(extract), extract)
    return RlTask(read_prompts(Path(config.data)), find_reward(f"answer:{config.extract}"), observe)


def matching(
    prompts: list[RlPrompt], split: Splitter, extract: Extractor, environment: Environment | None = None
) -> RlTask:
    """The reward of [004] §3.1 and its decisions in the log, for prompts whose responses are split in this way."""
    split = lru_cache(4096)(split)  # the reward and the log split the same rollouts, and many of a group are alike
    return RlTask(prompts, final_answer(split, extract), decisions(split, extract), environment)


RL_TASKS: dict[str, Callable[[RlConfig], RlTask]] = {"answer_matches": answer_matches}
"""Tasks by name. The product has one; plugins add theirs."""


def final_answer(split: Splitter, extract: Extractor) -> Reward:
    """[004] §3.1: 1 if the response stopped on the right answer, else 0."""

    def reward(replies: Sequence[Reply]) -> list[float | None]:
        parts = [split(reply.text, reply.finish_reason == "stop") for reply in replies]
        return [
            float(part.stopped and part.answers[-1:] == (reference_answer(reply.reference, extract),))
            for part, reply in zip(parts, replies, strict=True)
        ]

    return reward


def decisions(split: Splitter, extract: Extractor) -> Observer:
    """p_s, p_dC and p_dW of a batch of rollouts, for the log; what is unidentified is left out."""

    def observe(replies: Sequence[Reply]) -> dict[str, float]:
        transcripts = [
            Transcript(str(index), reply.text, reply.reference, reply.finish_reason == "stop")
            for index, reply in enumerate(replies)
        ]
        calibration = judge(transcripts, split, extract).calibrate(draws=1)
        figures = {name: getattr(calibration, name).value for name in ("p_s", "p_dC", "p_dW", "cut_off", "attempts")}
        return {name: value for name, value in figures.items() if value is not None}

    return observe


def read_prompts(path: Path) -> list[RlPrompt]:
    """Rows with a prompt and an answer, under the usual names of their columns."""
    prompts: list[RlPrompt] = []
    faults: list[Problem] = []
    for item in file_rows(path):
        if isinstance(item, Problem):
            faults.append(item)
        elif item.fields is not None:
            prompt, answer = (
                next(
                    (item.fields[name] for name in names if isinstance(item.fields.get(name), str | int | float)), None
                )
                for names in (PROMPTS, REFERENCES)
            )
            if prompt is None or answer is None:
                missing = f"a column {' or '.join(PROMPTS if prompt is None else REFERENCES)}"
                faults.append(Problem(str(path), item.line, None, f"expected {missing}, got {', '.join(item.fields)}"))
            else:
                prompts.append(RlPrompt(str(prompt), str(answer)))
    if faults:
        raise DataError(faults)
    return prompts
