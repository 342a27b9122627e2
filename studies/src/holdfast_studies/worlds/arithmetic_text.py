"""The paper's own form of the task, for real models: "Calculate 123 * 4567. Think step by step." ([004] E.1, E.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast_studies.worlds.arithmetic import Size

from holdfast.records import Role, Segment, Trace, Turn, context

RECHECK = "Let me recheck. "
MISTAKE = "I made a mistake. Let me recompute. "
AGREES = "Everything agrees. "


def operands(size: Size, rng: random.Random) -> tuple[int, int]:
    """Uniform among numbers of exactly these many digits ([004] E.2)."""
    return rng.randrange(10 ** (size.m - 1), 10**size.m), rng.randrange(10 ** (size.n - 1), 10**size.n)


def question(a: int, b: int) -> str:
    """[004] E.1."""
    return f"Calculate {a} * {b}. Think step by step."


def plain_row(a: int, b: int) -> Trace:
    """A chain of thought that leads straight to the answer (SFT without reflection)."""
    return _row(a, b, [Segment(Role.SAMPLE, _work(a, b, None) + _conclusion(a * b))])


def reflection_row(a: int, b: int, rng: random.Random, *, corrective: float = 0.5) -> Trace:
    """An attempt, a recheck, and, in a share ``corrective`` of the rows, an error that is found and corrected."""
    if rng.random() >= corrective:
        first = Segment(Role.SAMPLE, _work(a, b, None) + _conclusion(a * b))
        return _row(
            a, b, [first, Segment(Role.DECISION, f" {RECHECK}{AGREES}"), Segment(Role.SAMPLE, _conclusion(a * b))]
        )
    slip = rng.randrange(len(str(b)))
    wrong = _partials(a, b, slip, rng)
    first = Segment(Role.SAMPLE, _work(a, b, wrong) + _conclusion(sum(value * 10**j for j, value in enumerate(wrong))))
    again = Segment(Role.SAMPLE, _work(a, b, None) + _conclusion(a * b))
    return _row(a, b, [first, Segment(Role.DECISION, f" {RECHECK}{MISTAKE}"), again])


def text_rows(kind: str, sizes: Sequence[Size], num: int, *, seed: int = 0, corrective: float = 0.5) -> list[Trace]:
    """``plain`` or ``reflection`` rows, sizes in turn (the paper: 20,000 rows of 4x5 and 5x4)."""
    rng = random.Random(f"arithmetic-text/{kind}/{seed}")
    pairs = [operands(sizes[index % len(sizes)], rng) for index in range(num)]
    if kind == "plain":
        return [plain_row(a, b) for a, b in pairs]
    return [reflection_row(a, b, rng, corrective=corrective) for a, b in pairs]


def text_problems(sizes: Sequence[Size], num: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """(question, answer) for RL and for tests."""
    rng = random.Random(f"arithmetic-text/problems/{seed}")
    pairs = [operands(sizes[index % len(sizes)], rng) for index in range(num)]
    return [(question(a, b), str(a * b)) for a, b in pairs]


def _row(a: int, b: int, segments: Sequence[Segment]) -> Trace:
    return Trace((context("user", question(a, b)), Turn("assistant", tuple(segments))))


def _partials(a: int, b: int, slip: int | None, rng: random.Random) -> list[int]:
    """a times each digit of b, from the last; the one at ``slip`` is off in one digit."""
    values = [a * int(digit) for digit in reversed(str(b))]
    if slip is not None:
        values[slip] += rng.choice([-1, 1]) * 10 ** rng.randrange(len(str(a)))
    return values


def _work(a: int, b: int, partials: Sequence[int] | None) -> str:
    values = partials if partials is not None else [a * int(digit) for digit in reversed(str(b))]
    lines, total = [], 0
    for place, (digit, value) in enumerate(zip(reversed(str(b)), values, strict=True)):
        total += value * 10**place
        lines.append(f"{a} * {digit} = {value}, so far {total}. ")
    return "".join(lines)


def _conclusion(answer: int) -> str:
    return f"The answer is {answer}."
