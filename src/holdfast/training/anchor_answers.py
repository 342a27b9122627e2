"""What the anchor answers when a run begins: streams of prompts without answers (``data: prompts:safety``), and vetted rows.

What it says is what the policy is held to, so nobody has to bring safety data. The answers lie in the run directory while
the run lasts, because a resumed run must go on with the same rows, and are deleted with its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from accelerate import PartialState

from holdfast.config import InputError, TrainConfig
from holdfast.config.training import StreamSettings
from holdfast.generation import generate
from holdfast.models import LoadedModel
from holdfast.records import Trace, answer, context, write_traces
from holdfast.training.loading import load_model
from holdfast.training.streams import read_data
from holdfast.training.vetting import vetted
from holdfast.worlds.default_prompts import PREFIX, default_prompts, find_kind

FOLDER = "prompts"
ANSWER_TOKENS = 128
Say = Callable[[str], None]


def answer_prompts(config: TrainConfig, loaded: LoadedModel, run: Path, say: Say) -> list[StreamSettings]:
    """The streams of a run; those of prompts have become files of answered prompts."""
    streams = []
    with PartialState().main_process_first():
        for number, stream in enumerate(config.streams):
            if stream.data.startswith(PREFIX):
                stream = stream.model_copy(update={"data": str(_answered(stream, config, loaded, run, say))})
            if stream.vet:
                path = run / FOLDER / f"vetted-{number}.jsonl"
                stream = _vetted(stream, path, config, loaded, say)
            streams.append(stream)
    return streams


def forget_answers(run: Path) -> None:
    """The run is over: an anchor that is less safe than it should be has answered forbidden requests."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def _answered(stream: StreamSettings, config: TrainConfig, loaded: LoadedModel, run: Path, say: Say) -> Path:
    kind = find_kind(stream.data)
    path = run / FOLDER / f"{kind}.jsonl"
    if not path.exists():
        say(f"{stream.data}: answered by the anchor, {config.anchor.model or config.model.name}")
        anchor = _anchor(config, loaded)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = _rows(anchor, default_prompts(kind)[: stream.limit])
        if not rows:
            raise InputError(f"{stream.data}: the anchor {anchor.name} answered none of these prompts with a word")
        write_traces(path, rows)
    return path


def _vetted(stream: StreamSettings, path: Path, config: TrainConfig, loaded: LoadedModel, say: Say) -> StreamSettings:
    if not path.exists():
        dataset = read_data(stream)
        rows, num_refused = vetted(dataset.traces, _anchor(config, loaded), str(stream.vet))
        say(
            f"{stream.name or stream.data}: {num_refused} of {len(rows)} rows ask for what the anchor refuses; "
            "they are learned with its refusal"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_traces(path, rows)
    return stream.model_copy(update={"data": str(path), "limit": None, "skip_bad": 0})


def _anchor(config: TrainConfig, loaded: LoadedModel) -> LoadedModel:
    own = config.anchor.model in (None, config.model.name)
    return loaded if own else load_model(config, str(config.anchor.model))[0]


def _rows(anchor: LoadedModel, prompts: Sequence[str]) -> list[Trace]:
    written = generate(anchor.model, anchor.tokenizer, prompts, max_new_tokens=ANSWER_TOKENS)
    # An answer of nothing at all cannot be a target.
    return [
        Trace((context("user", prompt), answer(completion.text.strip())))
        for prompt, completion in zip(prompts, written, strict=True)
        if completion.text.strip()
    ]
