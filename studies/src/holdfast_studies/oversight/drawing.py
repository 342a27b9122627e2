"""Pools of samples on disk: m per task, drawn in chunks. Each finished chunk is kept, so that a second run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.data import atomic_text
from holdfast.generation import generate
from holdfast.judging import pair_logps
from holdfast.models import LoadedModel
from holdfast.records import Turn

Row = dict[str, Any]
Describe = Callable[[str, Sequence[Turn], Sequence[str]], Sequence[Row]]
"""(task, turns, answers) -> what is kept of each answer."""
Read = Callable[[LoadedModel, Sequence[tuple[Sequence[Turn], str]]], Sequence[Row]]
"""(model, pairs of turns and answer) -> what the model itself says of each answer."""
BATCHES_A_CHUNK = 2  # a kill can lose one chunk


def keep_text(_task: str, _turns: Sequence[Turn], texts: Sequence[str]) -> list[Row]:
    """Keep the answer itself."""
    return [{"text": text} for text in texts]


def read_likelihood(loaded: LoadedModel, pairs: Sequence[tuple[Sequence[Turn], str]]) -> list[Row]:
    """The mean log-probability of an answer's tokens; a very low one for an empty answer."""
    return [{"mean_logp": max(logp, -1e9)} for logp in pair_logps(loaded, pairs)]


def draw_pools(
    loaded: LoadedModel,
    tasks: Mapping[str, Sequence[Turn]],
    path: Path,
    *,
    num_samples: int,
    max_new_tokens: int,
    temperature: float,
    batch_size: int,
    top_p: float = 1.0,
    seed: int = 0,
    name: str | None = None,
    batches_a_chunk: int = BATCHES_A_CHUNK,
    read: Read = read_likelihood,
    describe: Describe = keep_text,
    on_progress: Callable[[int, int], None],
) -> dict[str, list[Row]]:
    """Rows {task, index, asked, tokens, mean_logp, ...} of every task, from the file or drawn now.

    Raises ``InputError`` where the file has samples of another model or of other settings: they are neither used nor
    deleted. ``name`` says which model it is, where that is not the path that it was loaded from.
    """
    more = [] if (top_p, seed) == (1.0, 0) else [top_p, seed]
    how = [max_new_tokens, temperature, *more]
    marks = {task: _mark(name or loaded.name, turns, how) for task, turns in tasks.items()}
    there = read_pools(path)
    if any(rows[0].get("asked", marks[task]) != marks[task] for task, rows in there.items() if task in marks):
        raise InputError(f"{path}: drawn from another model, other prompts or other settings; choose another folder")
    pools = {task: rows for task, rows in there.items() if len(rows) >= num_samples or task not in tasks}
    _rewrite(path, pools)
    waiting = [task for task in tasks if task not in pools]
    per_chunk = max(1, batches_a_chunk * batch_size // num_samples)
    with path.open("a", encoding="utf-8") as file:
        for start in range(0, len(waiting), per_chunk):
            chunk = waiting[start : start + per_chunk]
            requests = [(task, tuple(tasks[task])) for task in chunk for _ in range(num_samples)]
            drawn = generate(
                loaded.model,
                loaded.tokenizer,
                [turns for _, turns in requests],
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                top_p=top_p,
                seed=int(marks[chunk[0]], 16) % 2**40,  # no two chunks have the same seed, whenever they are drawn
                batch_size=batch_size,
            )
            texts = [sample.text for sample in drawn]
            told = read(loaded, [(turns, text) for (_, turns), text in zip(requests, texts, strict=True)])
            for place, task in enumerate(chunk):
                own = slice(place * num_samples, (place + 1) * num_samples)
                kept = describe(task, tasks[task], texts[own])
                rows = zip(drawn[own], told[own], kept, strict=True)
                pools[task] = [
                    {"task": task, "index": index, "asked": marks[task], "tokens": len(sample.token_ids), **said, **row}
                    for index, (sample, said, row) in enumerate(rows)
                ]
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in pools[task])
            file.flush()
            on_progress(sum(task in pools for task in tasks), len(tasks))
    return {task: pools[task][:num_samples] for task in tasks}


def _mark(model: str, turns: Sequence[Turn], how: Sequence[float]) -> str:
    """A hash of all that a sample depends on, except chance."""
    content = [model, [[turn.speaker, turn.visible] for turn in turns], *how]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def read_pools(path: Path) -> dict[str, list[Row]]:
    """The pools in the file. A line that was cut off by a kill is left out."""
    pools: dict[str, list[Row]] = {}
    for row in _whole_rows(path):
        pools.setdefault(row["task"], []).append(row)
    return pools


def _whole_rows(path: Path) -> Iterator[Row]:
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):  # a text may hold U+2028
            try:
                yield json.loads(line)
            except ValueError:
                return


def _rewrite(path: Path, pools: Mapping[str, Sequence[Row]]) -> None:
    """Write only complete pools, so that appending goes on after the last of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for rows in pools.values() for row in rows)
