"""`holdfast generate --n 16 --safe`: the best safe answer to each request, or an abstention with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.output import write_json
from holdfast.cli.progress import progress_bar
from holdfast.generation import ModelSampler, Prompt
from holdfast.judging import find_judge
from holdfast.models import LoadedModel
from holdfast.oversight.answering import Overseen, answer_overseen
from holdfast.oversight.rewards import find_reward


def print_overseen(
    loaded: LoadedModel,
    asked: Sequence[Prompt],
    judge: str | None,
    reward: str,
    n: int,
    batch_size: int,
    how: dict[str, Any],
    json: Path | None,
) -> None:
    """One line per request; abstentions say why."""
    with progress_bar("answering") as on_progress:
        answers = answer_overseen(
            ModelSampler(loaded, batch_size),
            asked,
            find_judge(judge) if judge else None,
            find_reward(reward, loaded) if n > 1 else None,
            n=n,
            on_progress=on_progress,
            **how,
        )
    if not write_json(json, [_row(each) for each in answers]):
        for each in answers:
            print(f"({each.selection.reason})" if each.text is None else each.text)


def _row(overseen: Overseen) -> dict[str, Any]:
    """Candidates that are not safe are shown by verdict only."""
    return {
        "prompt": overseen.candidates[0].prompt,
        "text": overseen.text,
        "index": overseen.selection.index,
        "reason": overseen.selection.reason,
        "rewards": list(overseen.rewards),
        "verdicts": [{"safe": v.safe, "reason": v.reason, "judge": v.judge} for v in overseen.verdicts],
    }
