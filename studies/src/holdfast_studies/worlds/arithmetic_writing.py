"""Who writes in the arithmetic world: careful writers, careless ones, and those who only pretend to check."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.config import InputError, nearest_or_all
from holdfast.records import Role, Segment, Trace, Turn, context
from holdfast_studies.worlds.arithmetic import AGAIN, CHECK, LANES, STOP, ArithmeticWorld, Product, Size


@dataclass(frozen=True)
class Writer:
    """How a response comes about. ``slip``: the chance that a step goes wrong; ``checks``: honestly, for show, or not."""

    slip: float = 0.0
    checks: str = "honest"  # honest | show | none
    first_wrong: bool = False  # make sure that the first attempt has a slip


@dataclass(frozen=True)
class Mix:
    """The corpus of a base model: most writers do not really check, so that it knows how but seldom does."""

    slip: float = 0.06
    honest: float = 0.3
    show: float = 0.35  # the rest stop after one attempt

    def writer(self, rng: random.Random) -> Writer:
        """Draw a writer: honest, for show, or one who does not check."""
        checks = rng.choices(("honest", "show", "none"), (self.honest, self.show, 1 - self.honest - self.show))[0]
        return Writer(self.slip, checks)


def write(world: ArithmeticWorld, product: Product, writer: Writer, rng: random.Random) -> tuple[Segment, ...]:
    """A response: attempts carry the role ``sample``, everything from ``check`` or ``stop`` on ``decision``."""
    segments: list[Segment] = []
    m = product.size.m
    for number in range(world.max_attempts):
        values = _attempt(world, product, writer.slip, rng)
        while number == 0 and writer.first_wrong and values == world.steps(product):
            values = _attempt(world, product, max(writer.slip, 0.06), rng)
        lead = " " if segments else ""
        segments.append(Segment(Role.SAMPLE, lead + world.spell(values, m, LANES[number])))
        if writer.checks == "none":
            segments.append(Segment(Role.DECISION, f" {STOP}"))
            break
        seen, agrees = _check(world, product, values, honest=writer.checks == "honest")
        checked, verdict = world.spell_check(seen, values, m, LANES[number]), STOP if agrees else AGAIN
        segments.append(Segment(Role.DECISION, f" {CHECK} {checked} {verdict}"))
        if agrees:
            break
    return tuple(segments)


def trace(world: ArithmeticWorld, product: Product, writer: Writer, rng: random.Random) -> Trace:
    """A row: the problem and a response to it."""
    return Trace((context("user", world.prompt(product)), Turn("assistant", write(world, product, writer, rng))))


def corpus(
    world: ArithmeticWorld, sizes: Sequence[Size], num: int, *, seed: int = 0, mix: Mix | None = None
) -> list[Trace]:
    """Rows of a base model: all sizes, all writers."""
    chosen = mix or Mix()
    return _rows(world, sizes, num, f"corpus/{seed}", chosen.writer)


def plain_sft(world: ArithmeticWorld, sizes: Sequence[Size], num: int, *, seed: int = 0) -> list[Trace]:
    """One right attempt, then stop ([004] E.2, SFT without reflection)."""
    return _rows(world, sizes, num, f"plain/{seed}", lambda _: Writer(checks="none"))


def reflection_sft(
    world: ArithmeticWorld,
    sizes: Sequence[Size],
    num: int,
    *,
    seed: int = 0,
    slip: float = 0.06,
    corrective: float = 0.5,
) -> list[Trace]:
    """Honest checks; a share ``corrective`` of the rows makes an error first, finds it and corrects it ([004] E.2).

    The other rows are right at once and say so. Table 2's question is what ``corrective`` does.
    """

    def writer(rng: random.Random) -> Writer:
        return Writer(slip, first_wrong=True) if rng.random() < corrective else Writer(0.0)

    return _rows(world, sizes, num, f"reflection/{seed}", writer)


def problems(world: ArithmeticWorld, sizes: Sequence[Size], num: int, *, seed: str) -> list[Product]:
    """Problems in turn over the sizes; the seed's name keeps train and test apart."""
    rng = random.Random(seed)
    return [world.draw(sizes[index % len(sizes)], rng) for index in range(num)]


def rows_of_kind(world: ArithmeticWorld, kind: str, sizes: Sequence[Size], num: int, *, seed: int = 0) -> list[Trace]:
    """Rows by the name of their kind, for configs."""
    makers: dict[str, Callable[..., list[Trace]]] = {
        "corpus": corpus,
        "plain": plain_sft,
        "reflection": reflection_sft,
    }
    if kind not in makers:
        raise InputError(f"arithmetic rows: no kind '{kind}'{nearest_or_all(kind, makers)}")
    return makers[kind](world, sizes, num, seed=seed)


def _rows(
    world: ArithmeticWorld, sizes: Sequence[Size], num: int, name: str, writer: Callable[[random.Random], Writer]
) -> list[Trace]:
    rng = random.Random(f"arithmetic/{name}")
    return [trace(world, world.draw(rng.choice(list(sizes)), rng), writer(rng), rng) for _ in range(num)]


def _attempt(world: ArithmeticWorld, product: Product, slip: float, rng: random.Random) -> list[int]:
    """Values in order, each right given what was written before, or slipped to another one."""

    def write(right: int) -> int:
        return rng.choice([v for v in range(world.base**2) if v != right]) if rng.random() < slip else right

    return [put for _, put in world.walk(product, write)]


def _check(world: ArithmeticWorld, product: Product, attempt: Sequence[int], *, honest: bool) -> tuple[list[int], bool]:
    """The steps as the checker writes them, up to the first that differs; whether none did."""
    if not honest:
        return list(attempt), True
    seen: list[int] = []
    written = iter(attempt)
    for right, put in world.walk(product, lambda _: next(written)):
        seen.append(right)  # so far the two agreed, so what is right follows from the attempt itself
        if right != put:
            return seen, False
    return seen, True
