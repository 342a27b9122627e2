"""The arithmetic world: multiplication digit by digit, in attempts that are rechecked, with decisions written as words.

A product of an m-digit and an n-digit number is m x n steps, least significant digit first: step (row j, column i) writes
``acc[i + j] + a[i] * b[j] + carry`` as one value below base squared, whose last digit stays and whose first is carried.
With n = 1 this is the n x 1 world of base 5; with base 10 it is schoolbook multiplication, m x n.

A response reads: the steps of an attempt; then ``stop``, or ``check`` and the steps once more, up to the first one that
differs from the attempt's (``again``, and the next attempt) or to the end (``stop``). Every step says where it stands, and
attempts differ by a letter, which their check shares: a plain transformer of this size then finds the digit that it needs,
and sees at once whether it has written the same word before.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.config import InputError

STOP, CHECK, AGAIN = "stop", "check", "again"
LANES = "abcdefgh"
Operation = tuple[str, int, int, int]
"""Lane, row, column, value."""

_STEP = re.compile(r"([a-z])(\d+)\.(\d+):(\d+)")
_PLACE = re.compile(r"([a-z])(\d+)\.(\d+)")


class Size(NamedTuple):
    """Digits of the two operands."""

    m: int
    n: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}"

    @classmethod
    def read(cls, text: str) -> Size:
        """Read ``4x5``."""
        match = re.fullmatch(r"(\d+)x(\d+)", text.strip())
        if match is None or "0" in (match[1], match[2]):
            raise InputError(f"size '{text}': expected digits of the operands, such as 4x5")
        return cls(int(match[1]), int(match[2]))


MICRO = Size(9, 1)


class Product(NamedTuple):
    """A problem: the operands' digits, least significant first."""

    a: tuple[int, ...]
    b: tuple[int, ...]

    @classmethod
    def read(cls, prompt: str) -> Product:
        """Read a problem from the words of a prompt."""
        a, b = (tuple(int(digit) for digit in re.findall(rf"\b{name}\d+:(\d+)", prompt)) for name in "xy")
        if not (a and b):
            raise InputError(
                f"no problem of the arithmetic world: {prompt[:60]!r}; expected such as 'x0:3 x1:2 m2 y0:4 n1'"
            )
        return cls(a, b)

    @property
    def size(self) -> Size:
        """How many digits the operands have."""
        return Size(len(self.a), len(self.b))


class Reading(NamedTuple):
    """A response as its attempts: the number that each came to (None: not a whole attempt), and whether it said stop."""

    answers: tuple[int | None, ...]
    stopped: bool


@dataclass(frozen=True)
class ArithmeticWorld:
    """Base, largest operands, and how many attempts a response may make. ``fused``: a step is one word, not two.

    ``beside``: a step of a check names the attempt's value and then its own, so that comparing is a matter of neighbours.
    """

    base: int = 5
    largest: Size = MICRO
    max_attempts: int = 4
    fused: bool = True
    beside: bool = False

    def __post_init__(self) -> None:
        if self.fused and self.beside:
            raise InputError(
                "beside: two values beside each other need values that are words of their own: fused: false"
            )

    def draw(self, size: Size, rng: random.Random) -> Product:
        """Operands of exactly these many digits; a single digit is at least 2, so that there is something to carry."""
        if size.m > self.largest.m or size.n > self.largest.n:
            raise InputError(f"size {size}: this world goes up to {self.largest}")
        return Product(self._digits(size.m, rng), self._digits(size.n, rng))

    def _digits(self, num: int, rng: random.Random) -> tuple[int, ...]:
        first = rng.randrange(2 if num == 1 else 1, self.base)
        return (*(rng.randrange(self.base) for _ in range(num - 1)), first)

    def steps(self, product: Product) -> list[int]:
        """The right values, row by row."""
        return [value for value, _ in self.walk(product, lambda value: value)]

    def walk(self, product: Product, write: Callable[[int], int]) -> Iterator[tuple[int, int]]:
        """For each step the value that is right after what was written before, and what ``write`` makes of it."""
        m, n = product.size
        acc = [0] * (m + n)
        for j in range(n):
            carry = 0
            for i in range(m):
                value = acc[i + j] + product.a[i] * product.b[j] + carry
                put = write(value)
                yield value, put
                acc[i + j], carry = put % self.base, put // self.base
            acc[j + m] = carry

    def answer(self, values: Sequence[int], size: Size) -> int:
        """The number that an attempt's values make."""
        m, n = size
        acc = [0] * (m + n)
        for j in range(n):
            for i in range(m):
                acc[i + j] = values[j * m + i] % self.base
            acc[j + m] = values[j * m + m - 1] // self.base
        return sum(digit * self.base**place for place, digit in enumerate(acc))

    def value(self, product: Product) -> int:
        """The right answer."""
        a, b = (int(sum(d * self.base**i for i, d in enumerate(digits))) for digits in product)
        return a * b

    # --- as words ---------------------------------------------------------------------------------------------------

    def prompt(self, product: Product) -> str:
        """The problem in words; ``m4`` after the first operand says how many digits it had."""
        first = " ".join(f"x{i}:{d}" for i, d in enumerate(product.a))
        second = " ".join(f"y{j}:{d}" for j, d in enumerate(product.b))
        return f"{first} m{len(product.a)} {second} n{len(product.b)}"

    def spell(self, values: Sequence[int], m: int, lane: str) -> str:
        """Steps as words: ``a0.3:17``, or ``a0.3 17`` in a world whose values stand apart."""
        between = ":" if self.fused else " "
        return " ".join(f"{lane}{k // m}.{k % m}{between}{value}" for k, value in enumerate(values))

    def spell_check(self, seen: Sequence[int], attempt: Sequence[int], m: int, lane: str) -> str:
        """The steps of a check as words: like those of an attempt, or ``a0.3 17 12`` with the attempt's value first."""
        if not self.beside:
            return self.spell(seen, m, lane)
        both = zip(attempt, seen, strict=False)
        return " ".join(f"{lane}{k // m}.{k % m} {put} {value}" for k, (put, value) in enumerate(both))

    def longest_response(self, size: Size) -> int:
        """The number of tokens of ``max_attempts`` attempts with whole checks, and the end."""
        step = 1 if self.fused else 2
        return self.max_attempts * (size.m * size.n * (2 * step + self.beside) + 2) + 1

    def read(self, response: str, size: Size | None = None) -> Reading:
        """Read the attempts and decisions of a response. With ``size``, an attempt of any other shape does not count."""
        attempts: list[list[Operation]] = [[]]
        checking = stopped = False
        for step in _steps(response.split()):
            if stopped := step == STOP:
                break
            checking = step == CHECK or (checking and step != AGAIN)
            if isinstance(step, tuple) and not checking:
                attempts[-1].append(step)
            elif attempts[-1] and step == AGAIN:
                attempts.append([])
        return Reading(tuple(self._read_attempt(run, size) for run in attempts if run), stopped)

    def _read_attempt(self, run: Sequence[Operation], size: Size | None) -> int | None:
        shape = size or Size(max(column for _, _, column, _ in run) + 1, max(row for _, row, _, _ in run) + 1)
        places = [(row, column) for _, row, column, _ in run]
        whole = places == [(j, i) for j in range(shape.n) for i in range(shape.m)]
        return self.answer([value for *_, value in run], shape) if whole else None

    def words(self) -> list[str]:
        """Every word of the world, in the order of the vocabulary."""
        m, n = self.largest
        lanes = LANES[: self.max_attempts]
        places = [f"{lane}{j}.{i}" for lane in lanes for j in range(n) for i in range(m)]
        values = [str(value) for value in range(self.base**2)]
        steps = [f"{place}:{value}" for place in places for value in values] if self.fused else [*places, *values]
        operands = [f"x{i}:{d}" for i in range(m) for d in range(self.base)]
        operands += [f"y{j}:{d}" for j in range(n) for d in range(self.base)]
        sizes = [f"m{i + 1}" for i in range(m)] + [f"n{j + 1}" for j in range(n)]
        return [STOP, CHECK, AGAIN, *operands, *sizes, *steps]


def _steps(words: Sequence[str]) -> list[str | Operation]:
    """Join the words of each step (one or two)."""
    steps: list[str | Operation] = []
    place: tuple[str, int, int] | None = None
    for word in words:
        if fused := _STEP.fullmatch(word):
            steps.append((fused[1], int(fused[2]), int(fused[3]), int(fused[4])))
        elif word.isdigit() and place is not None:
            steps.append((*place, int(word)))
        elif not _PLACE.fullmatch(word):
            steps.append(word)
        apart = _PLACE.fullmatch(word)
        place = (apart[1], int(apart[2]), int(apart[3])) if apart else None
    return steps
