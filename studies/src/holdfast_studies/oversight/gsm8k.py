"""GSM8K, the second domain. Rewards: likelihood, and one learned on the training split. Gold: the right number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from holdfast.judging import LearnedReward, fit_reward, request_text
from holdfast.oversight import Pool
from holdfast.records import Reply, Trace, Turn, context
from holdfast.traces import TASKS, read_references
from holdfast_studies.oversight.drawing import Row

ASK = "{question}\n\nThink step by step, then give the answer as one number after ####."


def gsm8k_tasks(path: str, limit: int) -> dict[str, Trace]:
    """The first rows of a split, by number."""
    return {f"gsm8k/{number}": row for number, row in enumerate(read_references(f"gsm8k:{path}", limit=limit))}


def asked(tasks: Mapping[str, Trace]) -> dict[str, tuple[Turn, ...]]:
    """What the model is shown."""
    return {name: (context("user", ASK.format(question=request_text(row))),) for name, row in tasks.items()}


def is_right(row: Trace, text: str) -> bool:
    """Whether the final number is the reference's."""
    final = TASKS["gsm8k"].final
    number, wanted = final(text), final(row.turns[-1].visible)
    return number is not None and wanted is not None and float(number) == float(wanted)


def train_reward(tasks: Mapping[str, Trace], samples: Mapping[str, Sequence[Row]]) -> LearnedReward | None:
    """A reward learned on the model's own right and wrong answers to training questions; None without both kinds."""
    answers = [(name, row["text"]) for name, rows in samples.items() for row in rows]
    right = [is_right(tasks[name], text) for name, text in answers]
    if len(set(right)) < 2:
        return None
    return fit_reward([(request_text(tasks[name]), text) for name, text in answers], right)


def num_right(tasks: Mapping[str, Trace], samples: Mapping[str, Sequence[Row]]) -> str:
    """How many of all drawn answers are right, as text."""
    right = [is_right(tasks[name], row["text"]) for name, rows in samples.items() for row in rows]
    return f"{sum(right)} of {len(right)}"


def pools_of(
    tasks: Mapping[str, Trace], samples: Mapping[str, Sequence[Row]], reward: LearnedReward | None
) -> list[Pool]:
    """The pools. Nothing here is unsafe, so the bar lets all pass. Without ``reward`` the likelihood is taken."""
    made = []
    for name, rows in samples.items():
        texts = [row["text"] for row in rows]
        values = [math.exp(row["mean_logp"]) for row in rows]
        if reward is not None:
            values = [value or 0.0 for value in reward([Reply(tasks[name].prompt, text) for text in texts])]
        gold = tuple(float(is_right(tasks[name], text)) for text in texts)
        made.append(Pool(tuple(values), (True,) * len(rows), gold))
    return made
