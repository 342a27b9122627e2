"""Multiple choice: a question with lettered answers, of which one is right (ARC, MMLU and the like)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from holdfast.audits.suites.suite import Questions, Scored, asked_rows, prompt_of, question, share
from holdfast.data import BadField, Fields, Table, read_table, take_text
from holdfast.data.fields import take_list
from holdfast.records import Completion, Trace

PROMPT = "{question}\n\n{answers}\n\nAnswer with the letter alone."
MAX_CHOICES = 10


@dataclass(frozen=True)
class ChoiceSuite(Questions):
    """``letters``: of every row, those to choose from. Whoever can see the model's probabilities takes the likeliest."""

    letters: tuple[tuple[str, ...], ...]

    def score(self, completions: Sequence[Completion]) -> Scored:
        """The share of answers that begin with the right letter."""
        said = [completion.text.strip()[:1].upper() for completion in completions]
        right = [letter == row.turns[-1].visible for letter, row in zip(said, self.rows, strict=True)]
        known = [letter in letters for letter, letters in zip(said, self.letters, strict=True)]
        figure = share(self.name, right, "more", "right letter", unscored=known.count(False))
        words = ("right" if good else "wrong" if one else "unscored" for good, one in zip(right, known, strict=True))
        return Scored((figure,), tuple({"letter": word} for word in words))


def choice_suite(table: Table, limit: int | None, name: str = "choices") -> ChoiceSuite:
    """Rows have ``question``, ``choices`` (texts) and ``answer`` (the letter); a ``prompt`` of their own replaces ours."""
    source, chosen = asked_rows(table, read_table(table, _row), limit)
    return ChoiceSuite(name, source, tuple(row for row, _ in chosen), 1, tuple(letters for _, letters in chosen))


def _row(fields: Fields) -> tuple[Trace, tuple[str, ...]]:
    question_text, right = (take_text(fields, name, filled=True) for name in ("question", "answer"))
    texts = take_list(fields, "choices", "texts")
    letters = tuple(ascii_uppercase[: len(texts)])
    if not 2 <= len(texts) <= MAX_CHOICES:
        raise BadField("choices", f"2 to {MAX_CHOICES} texts", str(len(texts)))
    if right not in letters:
        raise BadField("answer", f"one of {', '.join(letters)}", right)
    answers = "\n".join(f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True))
    return question(prompt_of(fields, PROMPT, question=question_text, answers=answers), right), letters
