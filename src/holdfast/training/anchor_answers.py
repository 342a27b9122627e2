"""The anchor answers when a run begins: prompts without answers (``data: prompts:safety``), and the requests of vetted rows.

The policy is held to these answers, so nobody has to bring safety data. They stay in the run directory while the run
lasts, because a resumed run must go on with the same rows, and are deleted when it ends.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from holdfast.config import FieldError, InputError, TrainConfig, naming_field
from holdfast.config.training import StreamSettings
from holdfast.data import Dataset, write_traces
from holdfast.data.default_prompts import PREFIX, check_prompts
from holdfast.generation.prompts import turns_of
from holdfast.judging import check_judge
from holdfast.models import LoadedModel
from holdfast.records import Trace, Turn, answer
from holdfast.tokens import tokenize_all
from holdfast.training.asked_anchor import AskedAnchor, Asking, Counts, written
from holdfast.training.checkpoints.folders import sha256_file
from holdfast.training.kept_answers import answers_folder
from holdfast.training.policy import load_model
from holdfast.training.processes import Alive, Say, main_first
from holdfast.training.streams import fresh_file, naming_data, read_data
from holdfast.training.vetting import Vetted, vetted, vetted_streams, write_vetted
from holdfast.worlds.held_prompts import held_prompts

FOLDER = "prompts"
ANSWER_TOKENS = 128
SAMPLES = 4  # answers to a prompt of a stream with a budget: what it bounds is a mean over the anchor's own answers
FRESH = 5  # one prompt in so many is kept back to measure the drift at the end
ROWS_PER_TRAINED_ROW = 8  # no gradient is kept: so many more fit
NUM_NAMED = 5  # refused rows whose lines are shown
BLOCK, NUM_BLOCKS = 1 << 16, 256  # bytes of an anchor's files that its key covers
HeldPrompt = str | tuple[Turn, ...]
"""A prompt: one user turn, or a conversation that ends before the answer."""
P = TypeVar("P", bound=HeldPrompt)


def answer_prompts(
    config: TrainConfig, loaded: LoadedModel, run: Path, say: Say, progress: bool = False
) -> list[StreamSettings]:
    """Return the streams of a run: prompts have become files of answered prompts, and a vetted stream may have become two.

    The held part of a vetted stream comes after all other streams, so that these keep their numbers.
    """
    streams, held = [], []
    with main_first() as alive:
        preparation = _Preparation(config, loaded, run, say, progress, alive)
        for number, stream in enumerate(config.streams):
            if stream.vet is not None:
                first, *rest = preparation.vetted(stream, number)
                held += rest
            elif stream.data.startswith(PREFIX):
                answers = {"data": str(preparation.answered(stream)), "rows": None, "limit": None}
                first = stream.model_copy(update=answers)
            else:
                first = stream
            streams.append(first)
    return [*streams, *held]


def check_asked(config: TrainConfig) -> None:
    """Raise ``FieldError`` for a judge that nobody knows, and for prompts that are not there. Needs no model."""
    for number, stream in enumerate(config.streams):
        is_prompts = stream.data.startswith(PREFIX)
        if stream.vet is not None and is_prompts:
            raise FieldError(f"streams.{number}.vet", "the anchor's own answers need no vetting; leave it out")
        if stream.vet is not None:
            with naming_field(f"streams.{number}.vet"):
                check_judge(stream.vet)
        if is_prompts and stream.rows is None:
            with naming_data(number):
                check_prompts(stream.data)


def prompt_file(stream: StreamSettings) -> dict[str, str]:
    """What ``data.json`` keeps of a stream that asks the prompts of a user's file: a hash of it. Of others nothing."""
    path = Path(stream.data.removeprefix(PREFIX)).expanduser()
    if stream.rows is not None or not stream.data.startswith(PREFIX) or not path.is_file():
        return {}
    return {"prompts": sha256_file(path)}


def forget_answers(run: Path) -> None:
    """Delete the answers when the run is over: an anchor may have answered forbidden requests."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


@dataclass(frozen=True)
class _Preparation:
    """Gets the anchor's answers before a run begins. The anchor is loaded and hashed only if an answer is missing."""

    config: TrainConfig
    loaded: LoadedModel
    run: Path
    say: Say
    progress: bool
    alive: Alive

    @property
    def name(self) -> str:
        """The anchor's name."""
        return self.config.anchor.model or self.config.model.name

    @cached_property
    def anchor(self) -> AskedAnchor:
        """The model before training, or another one if the config names it."""
        is_policy = self.name == self.config.model.name
        return AskedAnchor(self.loaded if is_policy else load_model(self.config, self.name)[0], self.say, self.alive)

    def key(self, *parts: object) -> str:
        """A hash of all that answers depend on: the anchor, how it is loaded, and what it is asked.

        A start that failed before its run began leaves answers behind, and the settings may change before the next one.
        """
        parts = (_held_in(self.name), self.config.model, *parts)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    def answered(self, stream: StreamSettings) -> Path:
        """The file of answered prompts."""
        prompts = _prompts(stream, self.loaded)[: stream.limit]
        seed = self.config.training.seed if stream.hold else None
        path = self.run / FOLDER / f"held-{self.key(prompts, seed, _num_tokens(stream))}.jsonl"
        parts: dict[Path, Sequence[HeldPrompt]] = {path: prompts}
        if stream.hold is not None:
            fresh, rest = divided(prompts)
            if not fresh or not rest:
                raise InputError(
                    f"{stream.data}: hold: needs at least two prompts, one to hold and one to measure the drift on"
                )
            parts = {path: rest, fresh_file(path): fresh}
        missing = [file for file in parts if not file.exists()]
        if missing:
            num_prompts = sum(len(parts[file]) for file in missing)
            self.say(f"{stream.data}: the anchor, {self.name}, answers {num_prompts} prompts before the first step")
            path.parent.mkdir(parents=True, exist_ok=True)
            before = self.anchor.counts
            for file in missing:
                # The drift is measured on whole answers.
                num_tokens = _num_tokens(stream) if file == path else ANSWER_TOKENS
                write_traces(file, self._rows(stream, parts[file], seed, num_tokens))
            self._say_kept(stream.data, before)
        return path

    def _rows(
        self, stream: StreamSettings, prompts: Sequence[HeldPrompt], seed: int | None, num_tokens: int
    ) -> list[Trace]:
        """One greedy answer to every prompt, or with a seed several sampled ones."""
        how = Asking(num_tokens)
        if seed is not None:
            how = Asking(num_tokens, temperature=1.0, seeds=tuple(seeds_of(seed)))
        try:
            with self._bar(f"the anchor answers {stream.data}") as on_progress:
                texts = self.anchor.ask(prompts, how, on_progress=on_progress)
        except InputError as error:
            raise InputError(f"{stream.data}: {error}") from None
        rows = as_rows([*prompts] * len(how.seeds), texts)
        if not rows:
            raise InputError(f"{stream.data}: the anchor {self.name} answered none of these prompts with a word")
        return rows

    def vetted(self, stream: StreamSettings, number: int) -> list[StreamSettings]:
        """Vet the stream's rows, or use those of an earlier start of this run under the same settings."""
        dataset = read_data(stream)
        key = self.key(stream.vet, dataset.fingerprint, stream.skip_bad, self.config.training.max_length)
        folder = self.run / FOLDER / f"vetted-{number}-{key}"
        if not folder.exists():
            if dataset.num_skipped:
                problems = "; ".join(map(str, dataset.problems))
                self.say(f"{dataset.source}: {dataset.num_skipped} bad rows skipped: {problems}")
            dataset = _readable(dataset, stream, self.loaded, self.config.training.max_length, self.say)
            name = stream.name or dataset.source
            self.say(f"{name}: vetting: the anchor, {self.name}, is asked the requests of {len(dataset.traces)} rows")
            before = self.anchor.counts
            division = self._divided(dataset, str(stream.vet))
            self.say(_sentence(stream, dataset, division))
            self._say_kept(name, before)
            write_vetted(division, folder, {"source": dataset.source, "fingerprint": dataset.fingerprint})
        total = sum(other.share for other in self.config.streams)
        return vetted_streams(stream, number, folder, total / self.config.training.batch_size)

    def _divided(self, dataset: Dataset, judge: str) -> Vetted:
        batch_size = ROWS_PER_TRAINED_ROW * (self.config.training.micro_batch or 8)
        with self._bar("the anchor is asked every request of the rows") as on_progress:
            return vetted(dataset.traces, self.anchor, judge, batch_size=batch_size, on_progress=on_progress)

    @contextmanager
    def _bar(self, title: str) -> Iterator[Callable[[int, int], None]]:
        """A progress bar if one is wanted. Every step of it also tells waiting processes that this one is alive."""
        console = Console(stderr=True)
        unseen = not self.progress or not console.is_terminal  # it would leave an empty line
        with Progress(console=console, disable=unseen, transient=True) as bar:
            task = bar.add_task(title, total=None)

            def on_progress(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)
                self.alive()

            yield on_progress

    def _say_kept(self, stream: str, before: Counts) -> None:
        """Print how many answers came from an earlier run; nothing if none did."""
        num_asked, num_kept = self.anchor.counts.asked - before.asked, self.anchor.counts.kept - before.kept
        if num_kept:
            self.say(f"{stream}: {num_kept} of {num_asked} answers are kept from an earlier run, {answers_folder()}")


def _num_tokens(stream: StreamSettings) -> int:
    """The most tokens that a stream's held answers may have."""
    return ANSWER_TOKENS if stream.hold is None else min(stream.hold.tokens or ANSWER_TOKENS, ANSWER_TOKENS)


def divided(prompts: Sequence[P]) -> tuple[list[P], list[P]]:
    """(prompts kept back to measure the drift, prompts to be held). A hash of the text decides: every run divides alike."""
    unique = sorted(dict.fromkeys(prompts), key=lambda prompt: hashlib.sha256(_text(prompt).encode()).digest())
    num_fresh = max(1, len(unique) // FRESH)
    fresh = set(unique[:num_fresh])
    return [prompt for prompt in dict.fromkeys(prompts) if prompt in fresh], unique[num_fresh:]


def _prompts(stream: StreamSettings, anchor: LoadedModel) -> tuple[HeldPrompt, ...]:
    if stream.rows is not None:
        return tuple(trace.turns if trace.turns[1:] else trace.turns[0].visible for trace in stream.rows.traces)
    return held_prompts(stream.data, anchor.tokenizer)


def _text(prompt: HeldPrompt) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(turn.visible for turn in prompt)


def _readable(dataset: Dataset, stream: StreamSettings, loaded: LoadedModel, max_length: int, say: Say) -> Dataset:
    """Leave out the rows that training would skip, so that the anchor is not asked what they say."""
    skip_bad = stream.skip_bad - dataset.num_skipped
    rows, report = tokenize_all(
        dataset.traces, loaded.tokenizer, max_length=max_length, where=dataset.where, skip_bad=skip_bad
    )
    if report.problems or report.dropped:
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


def _held_in(anchor: str) -> str:
    """The anchor's name and, if it lies on disk, what its files hold: other weights in the same folder answer anew."""
    path = Path(anchor).expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return "\n".join([anchor, *(f"{file.name} {_content(file)}" for file in files if file.is_file())])


def _content(file: Path) -> str:
    """A hash of the file's size and of blocks all over it: a model that was trained again differs in every one of them."""
    size, digest = file.stat().st_size, hashlib.sha256()
    with file.open("rb") as opened:
        for start in range(0, size, max(BLOCK, size // NUM_BLOCKS)):
            opened.seek(start)
            digest.update(opened.read(BLOCK))
    return f"{size} {digest.hexdigest()}"


def seeds_of(seed: int, samples: int = SAMPLES) -> range:
    """The seeds of a run's draws: one for each answer to a prompt."""
    return range(seed * samples, (seed + 1) * samples)


def drawn(model: LoadedModel, prompts: Sequence[HeldPrompt], seed: int, *, batch_size: int = 64) -> list[str]:
    """One answer to every prompt, sampled at temperature 1: as often as the model gives it, which the bound is about."""
    return written(model, prompts, Asking(ANSWER_TOKENS, batch_size, temperature=1.0), seed)


def as_rows(prompts: Sequence[HeldPrompt], texts: Sequence[str | None]) -> list[Trace]:
    """Prompts with their answers. An answer of nothing at all cannot be a target and is left out."""
    return [Trace((*turns_of(prompt), answer(text))) for prompt, text in zip(prompts, texts, strict=True) if text]
