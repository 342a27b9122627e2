"""Continuations sampled from a model in large batches, and stored by content, so that nothing is sampled twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from holdfast.generation import continue_ids, stop_ids
from holdfast.models import LoadedModel
from holdfast.records import Trace
from holdfast.tokens import Encoder, prompt_ids

BATCHES_A_CHUNK = 8  # a kill can lose one chunk; every chunk captures a CUDA graph of its own


@dataclass(frozen=True)
class Drawn:
    """A whole answer: the given beginning and what the model wrote after it."""

    text: str
    rest: str  # what the model wrote
    num_tokens: int  # that the model wrote
    ended: bool  # and was not cut off


class Draws:
    """A model, how it is sampled, and the file that keeps what it wrote.

    A line of the file belongs to the weights, the ids given, and the settings. So the file may be kept when data or other
    settings of the study change, and a command that was stopped goes on.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        path: Path,
        *,
        max_new_tokens: int,
        temperature: float,
        batch_size: int,
        seed: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.loaded, self.path = loaded, path
        self.how = {"max_new_tokens": max_new_tokens, "temperature": temperature}
        self.batch_size, self.seed, self.on_progress = batch_size, seed, on_progress
        self._encoder = Encoder(loaded.tokenizer)
        self._stops = stop_ids(loaded.model, loaded.tokenizer)
        self._mark = json.dumps([weights_mark(loaded), self.how, seed])
        self._kept = dict(_whole_lines(path))

    def __call__(self, beginnings: Sequence[tuple[Trace, str]], num: int) -> list[list[Drawn]]:
        """``num`` answers to each (row, how its answer begins), in order."""
        ids = [self._ids(row, text) for row, text in beginnings]
        keys = [self._key(prompt, num) for prompt in ids]
        missing = list({key: prompt for key, prompt in zip(keys, ids, strict=True) if key not in self._kept}.items())
        per_chunk = max(1, BATCHES_A_CHUNK * self.batch_size // num)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(missing), per_chunk):
            self._draw(missing[start : start + per_chunk], num)
            if self.on_progress is not None:
                self.on_progress(min(start + per_chunk, len(missing)), len(missing))
        return [
            [self._read(text, ids) for ids in self._kept[key]] for (_, text), key in zip(beginnings, keys, strict=True)
        ]

    def _ids(self, row: Trace, text: str) -> list[int]:
        return prompt_ids(row.prompt, self.loaded.tokenizer) + self._encoder.continuation(text)

    def _key(self, prompt: Sequence[int], num: int) -> str:
        return hashlib.sha256(f"{self._mark} {num} {list(prompt)}".encode()).hexdigest()[:32]

    def _draw(self, chunk: Sequence[tuple[str, list[int]]], num: int) -> None:
        """Draw a chunk and write it down. The seed follows from the first key, so no two chunks have the same."""
        written = continue_ids(
            self.loaded.model,
            self.loaded.tokenizer,
            [prompt for _, prompt in chunk for _ in range(num)],
            max_new_tokens=int(self.how["max_new_tokens"]),
            temperature=self.how["temperature"],
            seed=int(chunk[0][0][:12], 16),
            batch_size=self.batch_size,
        )
        drawn = {key: written[at * num : (at + 1) * num] for at, (key, _) in enumerate(chunk)}
        self._kept |= drawn
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({"key": key, "ids": ids}) + "\n" for key, ids in drawn.items())

    def _read(self, beginning: str, written: list[int]) -> Drawn:
        """Decode the beginning and what was written together: some vocabularies write a space where two texts meet."""
        ended = written[-1:] != [] and written[-1] in self._stops
        ids = written[:-1] if ended else written
        head = self._encoder.continuation(beginning)
        text = self._encoder.decode([*head, *ids])
        rest = text[len(self._encoder.decode(head)) :]
        return Drawn(beginning + rest, rest, len(written), ended)


@torch.no_grad()
def weights_mark(loaded: LoadedModel) -> str:
    """A hash of all weights, because two models may have the same name."""
    digest = hashlib.sha256()
    for name, weight in loaded.model.named_parameters():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _whole_lines(path: Path) -> Iterator[tuple[str, list[list[int]]]]:
    """Read the whole lines. A last line that was cut off by a kill is removed, so that the next one starts on its own line."""
    if not path.exists():
        return
    whole, _, cut = path.read_text(encoding="utf-8").rpartition("\n")
    if cut:
        path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
    for line in whole.split("\n") if whole else ():
        row = json.loads(line)
        yield row["key"], row["ids"]
