"""What a cell costs, before anything is run: steps, tokens trained on, requests asked, tokens written, seconds.

Counts come from the rows and the settings. Seconds are an estimate from ``speed:`` in the config and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.attacks import Attack, Data, Defence, FileSetting, Mixture, file_scale, parts_of
from holdfast.records import Trace
from holdfast.training import steps_for
from holdfast_studies.qwen.cells import Place, in_order, places
from holdfast_studies.qwen.config import StudyConfig, check_sources

BATCH = 256  # of generation
VETTING_TOKENS = 48  # of the anchor's answer to a row
HELD_SAMPLES, HELD_TOKENS, HELD_BATCH = 4, 128, 64  # of the anchor's answers to the prompts of a stream with budgets
LETTERS = 3.6  # per token
TEMPLATE = 30  # tokens of a chat template with its default system prompt


@dataclass(frozen=True)
class Cost:
    """What one cell costs."""

    steps: int
    trained: int  # tokens that pass through the model forward and backward
    anchored: int  # of these, those that the anchor reads too
    asked: int  # requests
    passes: int  # steps of generation, each for a whole batch
    written: int  # tokens of answers, at most
    seconds: float


class Size(NamedTuple):
    """What an attack brings, whatever the defence: its requests with the tokens of an answer, its rows, and tokens per row."""

    asks: tuple[tuple[int, int], ...]
    num_rows: int
    tokens: float


def size(config: StudyConfig, setting: FileSetting, attack: Attack) -> Size:
    """Read the size of an attack from its files; no model is needed."""
    asks = [(len(setting.forbidden(0)), config.max_new_tokens), (len(setting.lookalikes(0)), config.max_new_tokens)]
    tasks = {task.name: task for task in (*setting.measured(attack.utility, 0), *setting.beside)}
    asks += [(len(setting.forbidden(0)), config.max_new_tokens)] * sum(map(_num_asks, config.asks))
    asks += [(len(task.rows), task.max_new_tokens or config.max_new_tokens) for task in tasks.values()]
    data = attack.in_setting(setting).stages[-1].data
    return Size(tuple(asks), *_size(setting, data, config.answer_tokens))


def cost(config: StudyConfig, setting: FileSetting, attack: Attack, defence: Defence, brought: Size) -> Cost:
    """What a cell of this attack and defence costs."""
    asks, num_rows, tokens = list(brought.asks), brought.num_rows, brought.tokens
    stage = attack.in_setting(setting).stages[-1]
    num_steps = trained = anchored = held_answers = 0
    if defence.tune:
        num_steps = steps_for(stage.epochs * config.steps * defence.more_steps, num_rows, stage.batch_size)
        own = [(stream.batch_size, stream.objective) for stream in defence.streams_in(setting)]
        of_own = num_steps * (TEMPLATE + 15 + config.answer_tokens)
        trained = round(num_steps * stage.batch_size * tokens) + sum(rows for rows, _ in own) * of_own
        anchored = sum(rows for rows, objective in own if objective == "distill") * of_own
        anchored += round(num_steps * stage.batch_size * tokens) if defence.objective.startswith(("csft", "kl")) else 0
        held_answers = HELD_SAMPLES * sum(stream.num for stream in defence.streams_in(setting) if stream.hold)
        asks += [(num_rows, VETTING_TOKENS)] if defence.vet or defence.leave_out else []
    passes = sum(-(-num // BATCH) * tokens for num, tokens in asks) + -(-held_answers // HELD_BATCH) * HELD_TOKENS
    asks += [(held_answers, HELD_TOKENS)]
    work = config.speed.parameters * (6 * trained + 2 * anchored) / (config.speed.train_tflops * 1e12)
    seconds = config.speed.fixed_s + work + passes * config.speed.decode_ms / 1000
    return Cost(num_steps, trained, anchored, sum(num for num, _ in asks), passes, sum(n * t for n, t in asks), seconds)


def _num_asks(way: str) -> int:
    """How many times a way asks a set of requests. A model in 4 bits is asked the harmless requests too."""
    kind, _, number = way.partition("@")
    return int(number) if kind == "sampled" else 2 if kind == "four_bits" else 1


def _size(setting: FileSetting, data: Data, answer_tokens: int) -> tuple[int, float]:
    """The number of rows and the mean tokens per row. A model's answers count at their longest: nothing is generated here."""
    if not isinstance(data, Mixture):
        num = sum(value for value in vars(data).values() if isinstance(value, int))
        return num, TEMPLATE + 20.0 + answer_tokens
    if data.ratio == 1:
        return _size(setting, data.of, answer_tokens)
    num, ratio, task = data.num, data.ratio, data.task
    num_harmful = round(num * ratio)
    rows = _rows(setting, task, num - num_harmful) if ratio < 1 else []
    lengths = [_length(row, answer_tokens) for row in rows] + [TEMPLATE + 20.0 + answer_tokens] * num_harmful
    return len(lengths), sum(lengths) / len(lengths)


def _rows(setting: FileSetting, task: str, num: int) -> list[Trace]:
    parts = parts_of(setting.files, task)
    return [row for part in parts for row in part.train[: num // len(parts)]]


def _length(row: Trace, answer_tokens: int) -> float:
    answered = row.turns[-1].speaker == "assistant"
    letters = sum(len(turn.visible) for turn in row.turns)
    return TEMPLATE + letters / LETTERS + (0 if answered else answer_tokens)


def plan(config: StudyConfig) -> list[str]:
    """One line for every attack and defence, then what fits into ``minutes``. No model is loaded."""
    check_sources(config)
    scale = file_scale(config.model, config.files)
    assert scale.files is not None
    attacks = in_order(config)
    order = places(config)
    sizes = {name: size(config, scale.files, attack) for name, attack in attacks.items()}
    costs = {
        (name, defence): cost(config, scale.files, attacks[name], config.defence(defence), sizes[name])
        for name, defence, _ in order
    }
    head = f"{'attack':44} {'defence':18} {'steps':>5} {'trained':>9} {'asked':>6} {'written':>8} {'seconds':>7}"
    lines = [head]
    for (attack, defence), of_cell in costs.items():
        figures = (
            f"{of_cell.steps:5} {of_cell.trained:9,} {of_cell.asked:6,} {of_cell.written:8,} {of_cell.seconds:7.0f}"
        )
        lines.append(f"{attack:44} {defence:18} {figures}")
    return [*lines, "", *_fits(config, order, [costs[place.attack, place.defence].seconds for place in order])]


def _fits(config: StudyConfig, order: Sequence[Place], seconds: Sequence[float]) -> list[str]:
    """Say which cells end within ``minutes``, in the order in which they are run, with all workers at work."""
    speed = config.speed.at_once if config.workers > 1 else 1.0
    spent, number = 0.0, 0
    while number < len(order) and (spent + seconds[number] / speed) <= 60 * config.minutes:
        spent += seconds[number] / speed
        number += 1
    lines = [
        f"{len(order)} cells, about {sum(seconds) / speed / 60:.0f} minutes with {config.workers} at once"
        f" (estimate: {config.speed.train_tflops:g} TFLOP/s in training, {config.speed.decode_ms:g} ms a step of generation)",
        f"in {config.minutes:g} minutes: the first {number}",
    ]
    if number < len(order):
        lines.append(f"the first that does not fit: {order[number]}")
    return lines
