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
from holdfast.training.vetting import vetted, vetted_streams, write_vetted
from holdfast.worlds.default_prompts import PREFIX, default_prompts, find_kind

FOLDER = "prompts"
ANSWER_TOKENS = 128
Say = Callable[[str], None]


def answer_prompts(config: TrainConfig, loaded: LoadedModel, run: Path, say: Say) -> list[StreamSettings]:
    """The streams of a run; those of prompts have become files of answered prompts, vetted ones are divided.

    What is held of a vetted stream comes after all others, so that these keep their numbers.
    """
    streams, held = [], []
    with PartialState().main_process_first():
        for number, stream in enumerate(config.streams):
            if stream.data.startswith(PREFIX):
                stream = stream.model_copy(update={"data": str(_answered(stream, config, loaded, run, say))})
            first, *rest = [stream] if stream.vet is None else _vetted(stream, number, config, loaded, run, say)
            streams.append(first)
            held += rest
    return [*streams, *held]


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


def _vetted(
    stream: StreamSettings, number: int, config: TrainConfig, loaded: LoadedModel, run: Path, say: Say
) -> list[StreamSettings]:
    folder = run / FOLDER / f"vetted-{number}"
    if not folder.exists():
        found = vetted(read_data(stream).traces, _anchor(config, loaded), str(stream.vet))
        num_rows = len(found.learned) + len(found.held)
        say(
            f"{stream.name or stream.data}: {len(found.held)} of {num_rows} rows ask for what the anchor refuses;"
            " there the model is held to it"
        )
        write_vetted(found, folder)
    total = sum(each.share for each in config.streams)
    return vetted_streams(stream, folder, total / config.training.batch_size)


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
