"""The anchor answers when a run begins: prompts without answers (``data: prompts:safety``), and the requests of vetted rows.

The policy is held to these answers, so nobody has to bring safety data. They stay in the run directory while the run
lasts, because a resumed run must go on with the same rows, and are deleted when it ends.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import Progress

from holdfast.config import InputError, TrainConfig
from holdfast.config.training import StreamSettings
from holdfast.data import Dataset, write_traces
from holdfast.data.default_prompts import PREFIX
from holdfast.generation import generate
from holdfast.generation.prompts import turns_of
from holdfast.models import LoadedModel
from holdfast.records import Trace, Turn, answer
from holdfast.tokens import tokenize_all
from holdfast.training.policy import load_model
from holdfast.training.processes import Alive, main_first
from holdfast.training.streams import fresh_file, read_data
from holdfast.training.vetting import Vetted, vetted, vetted_streams, write_vetted
from holdfast.worlds.held_prompts import held_prompts

FOLDER = "prompts"
ANSWER_TOKENS = 128
SAMPLES = 4  # answers to a prompt of a stream with a budget: what it bounds is a mean over the anchor's own answers
FRESH = 5  # one prompt in so many is kept back to measure the drift at the end
ROWS_PER_TRAINED_ROW = 8  # no gradient is kept: so many more fit
NUM_NAMED = 5  # refused rows whose lines are told
Say = Callable[[str], None]
Asked = str | tuple[Turn, ...]
"""A prompt: one user turn, or a conversation that ends before the answer."""
P = TypeVar("P", bound=Asked)


def answer_prompts(
    config: TrainConfig, loaded: LoadedModel, run: Path, say: Say, progress: bool = False
) -> list[StreamSettings]:
    """Return the streams of a run: prompts have become files of answered prompts, and a vetted stream may have become two.

    The held part of a vetted stream comes after all other streams, so that these keep their numbers.
    """
    streams, held = [], []
    with main_first() as alive:
        for number, stream in enumerate(config.streams):
            if stream.vet is not None:
                first, *rest = _vetted(stream, number, config, loaded, run, say, progress, alive)
                held += rest
            elif stream.data.startswith(PREFIX):
                answered = str(_answered(stream, config, loaded, run, say, alive))
                first = stream.model_copy(update={"data": answered, "rows": None})
            else:
                first = stream
            streams.append(first)
    return [*streams, *held]


def forget_answers(run: Path) -> None:
    """Delete the answers when the run is over: an anchor may have answered forbidden requests."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def _answered(
    stream: StreamSettings, config: TrainConfig, loaded: LoadedModel, run: Path, say: Say, alive: Alive
) -> Path:
    """The file of answered prompts; the key of its name covers everything that the answers depend on."""
    prompts = _prompts(stream, loaded)[: stream.limit]
    seed = config.training.seed if stream.hold else None
    path = run / FOLDER / f"held-{_key(prompts, _anchor_name(config), seed, _num_tokens(stream))}.jsonl"
    parts: dict[Path, Sequence[Asked]] = {path: prompts}
    if stream.hold is not None:
        fresh, rest = divided(prompts)
        if not fresh or not rest:
            raise InputError(
                f"{stream.data}: hold: needs at least two prompts, one to hold and one to measure the drift on"
            )
        parts = {path: rest, fresh_file(path): fresh}
    for file, own_prompts in parts.items():
        if not file.exists():
            if file == path:
                say(f"{stream.data}: answered by the anchor, {_anchor_name(config)}")
            file.parent.mkdir(parents=True, exist_ok=True)
            num_tokens = (
                _num_tokens(stream) if file == path else ANSWER_TOKENS
            )  # the drift is measured on whole answers
            write_traces(file, _answers(stream, own_prompts, _anchor(config, loaded), seed, num_tokens, alive))
    return path


def _num_tokens(stream: StreamSettings) -> int:
    """Of an answer that a stream is held to, at most."""
    return ANSWER_TOKENS if stream.hold is None else min(stream.hold.tokens or ANSWER_TOKENS, ANSWER_TOKENS)


def _answers(
    stream: StreamSettings,
    prompts: Sequence[Asked],
    anchor: LoadedModel,
    seed: int | None,
    num_tokens: int,
    alive: Alive,
) -> list[Trace]:
    """One greedy answer to every prompt, or with a seed several sampled ones."""
    try:
        if seed is None:
            rows = as_rows(prompts, _written(anchor, prompts, num_tokens, on_progress=alive))
        else:
            rows = [
                row
                for own_seed in seeds_of(seed)
                for row in as_rows(prompts, drawn(anchor, prompts, own_seed, num_tokens=num_tokens, on_progress=alive))
            ]
    except InputError as error:
        raise InputError(f"{stream.data}: {error}") from None
    if not rows:
        raise InputError(f"{stream.data}: the anchor {anchor.name} answered none of these prompts with a word")
    return rows


def divided(prompts: Sequence[P]) -> tuple[list[P], list[P]]:
    """The prompts that are kept back to measure the drift, and those that are held. By their text: every run divides alike."""
    unique = sorted(dict.fromkeys(prompts), key=lambda prompt: hashlib.sha256(_text(prompt).encode()).digest())
    num_fresh = max(1, len(unique) // FRESH)
    fresh = set(unique[:num_fresh])
    return [prompt for prompt in dict.fromkeys(prompts) if prompt in fresh], unique[num_fresh:]


def _prompts(stream: StreamSettings, anchor: LoadedModel) -> tuple[Asked, ...]:
    if stream.rows is not None:
        return tuple(trace.turns if trace.turns[1:] else trace.turns[0].visible for trace in stream.rows.traces)
    return held_prompts(stream.data, anchor.tokenizer)


def _text(prompt: Asked) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(turn.visible for turn in prompt)


def _vetted(
    stream: StreamSettings,
    number: int,
    config: TrainConfig,
    loaded: LoadedModel,
    run: Path,
    say: Say,
    progress: bool,
    alive: Alive,
) -> list[StreamSettings]:
    """Vet the stream's rows, or use the rows of an earlier start of this run if data, anchor and judge are the same."""
    if stream.data.startswith(PREFIX):
        raise InputError(f"field 'streams.{number}.vet': the anchor's own answers need no vetting; leave it out")
    dataset = read_data(stream)
    folder = run / FOLDER / f"vetted-{number}-{_key(_anchor_name(config), stream.vet, dataset.fingerprint)}"
    if not folder.exists():
        if dataset.num_skipped:
            say(f"{dataset.source}: {dataset.num_skipped} bad rows skipped: " + "; ".join(map(str, dataset.problems)))
        dataset = _readable(dataset, stream, loaded, say)
        with Progress(disable=not progress, transient=True) as bar:
            task = bar.add_task("the anchor is asked every request of the rows", total=None)

            def on_progress(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)
                alive()

            division = vetted(
                dataset.traces,
                _anchor(config, loaded),
                str(stream.vet),
                batch_size=ROWS_PER_TRAINED_ROW * (config.training.micro_batch or 8),
                on_progress=on_progress,
            )
        say(_sentence(stream, dataset, division))
        write_vetted(division, folder, {"source": dataset.source, "fingerprint": dataset.fingerprint})
    total = sum(other.share for other in config.streams)
    return vetted_streams(stream, number, folder, total / config.training.batch_size)


def _readable(dataset: Dataset, stream: StreamSettings, loaded: LoadedModel, say: Say) -> Dataset:
    """Leave out the rows that training would skip, so that the anchor is not asked what they say."""
    skip_bad = stream.skip_bad - dataset.num_skipped
    rows, report = tokenize_all(dataset.traces, loaded.tokenizer, where=dataset.where, skip_bad=skip_bad)
    if report.problems:
        say(f"{dataset.source}: {report.sentence}")
    good = sorted({row.source for row in rows})
    traces, lines = zip(*((dataset.traces[number], dataset.lines[number]) for number in good), strict=True)
    files = tuple(dataset.files[number] for number in good) if dataset.files else ()
    return replace(dataset, traces=traces, lines=lines, files=files)


def _sentence(stream: StreamSettings, dataset: Dataset, division: Vetted) -> str:
    text = f"{stream.name or dataset.source}: the anchor refuses what {len(division.held)} of {len(dataset.traces)} rows ask for"
    if not division.held:
        return text
    first = division.refused[:NUM_NAMED]
    if dataset.files:
        where = ", ".join(dataset.where(number) for number in first)
    else:
        where = f"{dataset.source}:" + ", ".join(str(dataset.lines[number]) for number in first)
    where += ", ..." if len(division.refused) > NUM_NAMED else ""
    return f"{text}; there the model is held to it and learns nothing else: are they harmless? ({where})"


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _anchor_name(config: TrainConfig) -> str:
    return config.anchor.model or config.model.name


def _anchor(config: TrainConfig, loaded: LoadedModel) -> LoadedModel:
    own = config.anchor.model in (None, config.model.name)
    return loaded if own else load_model(config, str(config.anchor.model))[0]


def seeds_of(seed: int, samples: int = SAMPLES) -> range:
    """The seeds of a run's draws: one for each answer to a prompt."""
    return range(seed * samples, (seed + 1) * samples)


def drawn(
    model: LoadedModel,
    prompts: Sequence[Asked],
    seed: int,
    *,
    num_tokens: int = ANSWER_TOKENS,
    batch_size: int = 64,
    on_progress: Alive | None = None,
) -> list[str]:
    """One answer to every prompt, sampled at temperature 1: as often as the model gives it, which the bound is about."""
    how = {"temperature": 1.0, "seed": seed, "batch_size": batch_size, "on_progress": on_progress}
    return _written(model, prompts, num_tokens, **how)


def as_rows(prompts: Sequence[Asked], texts: Sequence[str]) -> list[Trace]:
    """Prompts with their answers. An answer of nothing at all cannot be a target and is left out."""
    return [Trace((*turns_of(prompt), answer(text))) for prompt, text in zip(prompts, texts, strict=True) if text]


def _written(model: LoadedModel, prompts: Sequence[Asked], num_tokens: int, **how: Any) -> list[str]:
    completions = generate(model.model, model.tokenizer, prompts, max_new_tokens=num_tokens, **how)
    return [completion.text.strip() for completion in completions]
