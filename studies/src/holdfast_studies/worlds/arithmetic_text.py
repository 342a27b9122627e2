"""The paper's own form of the task, for real models: "Calculate 123 * 4567. Think step by step." ([004] E.1, E.2).

And a form in which attempt, check and decision can be told apart exactly: the request says how to write them
(`checked_question`), and rows of SFT are written that way (`checked_row`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Literal

from holdfast.config import InputError
from holdfast.records import Role, Segment, Trace, Turn, context
from holdfast_studies.worlds.arithmetic import Size

Part = Literal["train", "validation", "test"]
RECHECK = "Let me recheck. "
MISTAKE = "I made a mistake. Let me recompute. "
AGREES = "Everything agrees. "
WORK, ANSWER, CHECK = "Work:", "Answer:", "Check:"
STOP_WORDS, AGAIN_WORDS = "Decision: stop", "Decision: again"
HOW_TO_CHECK = """\
Calculate {a} * {b} digit by digit. Write the work and the answer. Then check it: do the work once more. If the check comes to \
another number, decide to try again, else to stop. This is how it looks for 213 * 4:
Work: 3 * 4 = 12, so far 12. 10 * 4 = 40, so far 52. 200 * 4 = 800, so far 842.
Answer: 842
Check: 3 * 4 = 12, so far 12. 10 * 4 = 40, so far 52. 200 * 4 = 800, so far 852.
Decision: again
Work: 3 * 4 = 12, so far 12. 10 * 4 = 40, so far 52. 200 * 4 = 800, so far 852.
Answer: 852
Check: 3 * 4 = 12, so far 12. 10 * 4 = 40, so far 52. 200 * 4 = 800, so far 852.
Decision: stop
Now write it for {a} * {b}."""


def operands(size: Size, rng: random.Random) -> tuple[int, int]:
    """Uniform among numbers of exactly these many digits ([004] E.2)."""
    return rng.randrange(10 ** (size.m - 1), 10**size.m), rng.randrange(10 ** (size.n - 1), 10**size.n)


def question(a: int, b: int) -> str:
    """The request in the words of [004] E.1."""
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


def checked_question(a: int, b: int) -> str:
    """The request that says how attempt, check and decision are written, with one example."""
    return HOW_TO_CHECK.format(a=a, b=b)


def checked_row(a: int, b: int, rng: random.Random, *, corrective: float = 0.5) -> Trace:
    """Attempt, check, decision; a share ``corrective`` of the rows makes an error first, finds it and corrects it.

    A check does the work again up to the first line that differs. Checks and decisions carry the role ``decision``.
    """
    right = _lines(a, b, _partials(b, a, None, rng))
    segments: list[Segment] = []
    if rng.random() < corrective:
        not_zero = [place for place, digit in enumerate(reversed(str(a))) if digit != "0"]
        values = _partials(b, a, rng.choice(not_zero), rng)
        wrong = _lines(a, b, values)
        first = next(at for at, pair in enumerate(zip(right, wrong, strict=True)) if pair[0] != pair[1])
        came_to = sum(value * 10**place for place, value in enumerate(values))
        segments += _attempt(wrong, came_to, right[: first + 1], AGAIN_WORDS + "\n")
    segments += _attempt(right, a * b, right, STOP_WORDS)
    return Trace((context("user", checked_question(a, b)), Turn("assistant", tuple(segments))))


def checked_rows(sizes: Sequence[Size], num: int, *, seed: int = 0, corrective: float = 0.5) -> list[Trace]:
    """Such rows for ``num`` products to train on."""
    rng = random.Random(f"arithmetic-text/checked rows/{seed}")
    pairs = _products(sizes, num, "train", f"rows/{seed}")
    return [checked_row(a, b, rng, corrective=corrective) for a, b in pairs]


def checked_problems(sizes: Sequence[Size], num: int, part: Part, *, seed: str) -> list[tuple[str, str]]:
    """(request, answer) of ``num`` products, sizes in turn. No product is in two parts, whatever the seed."""
    return [(checked_question(a, b), str(a * b)) for a, b in _products(sizes, num, part, seed)]


def part_of(a: int, b: int) -> Part:
    """A fifth of all products is for testing, a tenth for validation; which ones, a hash says."""
    tenth = hashlib.sha256(f"{a}*{b}".encode()).digest()[0] % 10
    return "test" if tenth < 2 else "validation" if tenth == 2 else "train"


def _products(sizes: Sequence[Size], num: int, part: Part, seed: str) -> list[tuple[int, int]]:
    """Draw products of one part. In training one may come twice, because small sizes have few of them."""
    rng = random.Random(f"arithmetic-text/checked/{part}/{seed}")
    pairs: list[tuple[int, int]] = []
    drawn: set[tuple[int, int]] = set()
    for _ in range(1000 * num):
        if len(pairs) == num:
            break
        pair = operands(sizes[len(pairs) % len(sizes)], rng)
        if part_of(*pair) == part and (part == "train" or pair not in drawn):
            pairs.append(pair)
            drawn.add(pair)
    if len(pairs) < num:
        raise InputError(f"there are too few products of {', '.join(map(str, sizes))} to draw {num} for {part}")
    return pairs


def _attempt(work: Sequence[str], answer: int, check: Sequence[str], decision: str) -> list[Segment]:
    return [
        Segment(Role.SAMPLE, f"{WORK} {' '.join(work)}\n{ANSWER} {answer}\n"),
        Segment(Role.DECISION, f"{CHECK} {' '.join(check)}\n{decision}"),
    ]


def _lines(a: int, b: int, partials: Sequence[int]) -> list[str]:
    """``10 * 4 = 40, so far 52.``: b times the digits of a, from the last on."""
    lines, total = [], 0
    for place, (digit, value) in enumerate(zip(reversed(str(a)), partials, strict=True)):
        total += value * 10**place
        lines.append(f"{int(digit) * 10**place} * {b} = {value * 10**place}, so far {total}.")
    return lines


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
