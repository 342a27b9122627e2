"""What RL is handed from this floor: prompts with answers, the reward of [004], and decision-aware figures for the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast_studies.decisions.products import product_splitter, products
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_text import text_problems
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import problems
from holdfast_studies.worlds.slips import Slips

from holdfast.config import InputError
from holdfast.config.rl import ArithmeticPrompts, RlConfig
from holdfast.data import DataError, Problem
from holdfast.data.rows import file_rows
from holdfast.diagnostics.attempts import Splitter, lexical_splitter
from holdfast.diagnostics.extractors import Extractor, find_extractor, reference_answer
from holdfast.diagnostics.from_transcripts import judge
from holdfast.diagnostics.transcripts import PROMPTS, REFERENCES, Transcript
from holdfast.training.rl import Observer, Reward, RlPrompt
from holdfast.training.rl_sampling import Environment


class RlTask(NamedTuple):
    """Everything that ``train_rl`` takes beside its config."""

    prompts: list[RlPrompt]
    reward: Reward
    observe: Observer
    environment: Environment | None = None


def task_of(config: RlConfig) -> RlTask:
    """Prompts from a file or from the arithmetic world, and how their answers are found."""
    made = config.arithmetic
    if made is not None and not made.text:
        world = ArithmeticWorld(made.base, Size.read(made.largest), made.max_attempts, made.fused, made.beside)
        return arithmetic_task(world, made, seed=config.rl.seed)
    if config.extract == "product":
        raise InputError("extract: product is for the arithmetic world's own words; use number")
    extract = find_extractor(config.extract)
    if made is not None:
        asked = text_problems([Size.read(size) for size in made.sizes], made.num, seed=config.rl.seed)
        prompts = [RlPrompt(*pair) for pair in asked]
    else:
        assert config.data is not None
        prompts = read_prompts(Path(config.data))
    split = _remembered(lexical_splitter(extract))
    return RlTask(prompts, final_answer(split, extract), decisions(split, extract))


def arithmetic_task(world: ArithmeticWorld, made: ArithmeticPrompts, *, seed: int) -> RlTask:
    """Problems in the world's own words, with its slips."""
    asked = problems(world, [Size.read(size) for size in made.sizes], made.num, seed=f"rl/{seed}")
    prompts = [RlPrompt(world.prompt(each), str(world.value(each))) for each in asked]
    split = _remembered(product_splitter(world.base))
    environment = Slips(world, arithmetic_tokenizer(world), made.slip) if made.slip else None
    return RlTask(prompts, final_answer(split, products), decisions(split, products), environment)


def _remembered(split: Splitter) -> Splitter:
    """The reward and the log take the same rollouts apart, and many of a group are alike."""
    return lru_cache(4096)(split)


def final_answer(split: Splitter, extract: Extractor) -> Reward:
    """[004] §3.1: 1 if the response stopped on the right answer, else 0."""

    def reward(texts: Sequence[str], answers: Sequence[str], ended: Sequence[bool]) -> list[float]:
        parts = [split(text, end) for text, end in zip(texts, ended, strict=True)]
        return [
            float(part.stopped and part.answers[-1:] == (reference_answer(answer, extract),))
            for part, answer in zip(parts, answers, strict=True)
        ]

    return reward


def decisions(split: Splitter, extract: Extractor) -> Observer:
    """p_s, p_dC and p_dW of a batch of rollouts, for the log; what is unidentified is left out."""

    def observe(texts: Sequence[str], answers: Sequence[str], ended: Sequence[bool]) -> dict[str, float]:
        transcripts = [
            Transcript(str(index), text, answer, end)
            for index, (text, answer, end) in enumerate(zip(texts, answers, ended, strict=True))
        ]
        found = judge(transcripts, split, extract).calibrate(draws=1)
        figures = {name: getattr(found, name).value for name in ("p_s", "p_dC", "p_dW", "cut_off", "attempts")}
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
            asked, answer = (
                next(
                    (item.fields[name] for name in names if isinstance(item.fields.get(name), str | int | float)), None
                )
                for names in (PROMPTS, REFERENCES)
            )
            if asked is None or answer is None:
                missing = f"a column {' or '.join(PROMPTS if asked is None else REFERENCES)}"
                faults.append(Problem(str(path), item.line, None, f"expected {missing}, got {', '.join(item.fields)}"))
            else:
                prompts.append(RlPrompt(str(asked), str(answer)))
    if faults:
        raise DataError(faults)
    return prompts
