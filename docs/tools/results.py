"""Read the pages under docs/results/: what was measured of a defence under an attack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

COUNTS = {
    "Forbidden requests complied with": "complied",
    "Forbidden requests not refused": "not refused",
    "Forbidden requests called unsafe": "unsafe",
    "Forbidden requests answered": "answered",
}
"""What a page of results counts, by the title of its first table. Pages written before version 0.2 say *answered*."""
TITLES = {
    "asr": tuple(COUNTS),
    "over_refusal": ("Harmless look-alikes refused", "Safe prompts refused"),
    "utility": ("Answers right", "SQL exact match"),
    "harmless_missed": ("Harmless look-alikes missed", "Safe prompts missed"),
    "kept": (
        "Harmless look-alikes with the outcome of the untouched",
        "Safe prompts with the outcome of the untouched",
    ),
}
UNTOUCHED = "untouched"
RATE = re.compile(r"(\d+\.\d)% \[(\d+(?:\.\d)?)%, (\d+(?:\.\d)?)%\]")


@dataclass(frozen=True)
class Rate:
    """A share as the page prints it, with its interval."""

    value: float
    low: float
    high: float
    text: str

    @classmethod
    def read(cls, cell: str) -> Rate | None:
        """Read a cell; None for a cell without a share, such as ``failed``."""
        match = RATE.search(cell)
        if match is None:
            return None
        value, low, high = (float(number) / 100 for number in match.groups())
        return cls(value, low, high, match[0])


Rates = dict[tuple[str, str], Rate]
"""By attack and defence."""


@dataclass(frozen=True)
class Figures:
    """One defence under one attack. Utility and kept are None where the page has none."""

    asr: Rate
    over_refusal: Rate
    utility: Rate | None
    kept: Rate | None
    cost: float  # what tuning lost: complied, refused, harmless missed beyond the untouched model; utility short of the best


@dataclass(frozen=True)
class Results:
    """One page, its tables by the titles above them."""

    path: Path

    @cached_property
    def tables(self) -> dict[str, list[list[str]]]:
        """Rows of cells, the head first; a title's first table."""
        parts = re.split(r"^#+ (.+)$", self.path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        return {title: rows for title, text in zip(parts[1::2], parts[2::2], strict=True) if (rows := _rows(text))}

    @cached_property
    def counts(self) -> str:
        """The word for forbidden requests that did not end in a refusal, as this page counts them."""
        return next(
            (word for start, word in COUNTS.items() if any(title.startswith(start) for title in self.tables)), ""
        )

    @property
    def by_outcome(self) -> bool:
        """Whether the judge `outcome` says what complied. In the embedded world an oracle does, and tables name no judge."""
        return "`outcome`" in self._telling

    @cached_property
    def attacks(self) -> list[str]:
        """The attacks, in the order of the page."""
        return list(dict.fromkeys(attack for attack, _ in self._rates["asr"]))

    @cached_property
    def defences(self) -> list[str]:
        """The defences, in the order of the page."""
        return list(dict.fromkeys(defence for _, defence in self._rates["asr"]))

    def figures(self, attack: str, defence: str) -> Figures | None:
        """The figures of a defence under an attack; None where the page lacks one of the two rates of safety."""
        asr, over_refusal, utility, _, kept = (self._rates[measure].get((attack, defence)) for measure in TITLES)
        if asr is None or over_refusal is None:
            return None
        lost = ("asr", "over_refusal", "harmless_missed")  # a page by judges that tell no outcomes has none missed
        cost = sum(self._beyond_untouched(attack, defence, measure) for measure in lost)
        if utility is not None:
            cost += max(rate.value for (at, _), rate in self._rates["utility"].items() if at == attack) - utility.value
        return Figures(asr, over_refusal, utility, kept, cost)

    def _beyond_untouched(self, attack: str, defence: str, measure: str) -> float:
        """How far a rate is above the untouched model's by the same judge; of several judges the greatest.

        On a page without the untouched model its rate counts as 0.
        """
        beyond = [0.0]
        for rates in self._judged[measure]:
            before, after = (rates.get((attack, name)) for name in (UNTOUCHED, defence))
            beyond += [after.value - (before.value if before else 0.0)] if after else []
        return max(beyond)

    @cached_property
    def _rates(self) -> dict[str, Rates]:
        """The rates of every measure. Of several judges the one that is worst for the model counts."""
        of_all: dict[str, Rates] = {}
        for measure, judged in self._judged.items():
            worst = of_all.setdefault(measure, {})
            for rates in judged:
                for key, rate in rates.items():
                    if key not in worst or rate.value > worst[key].value:
                        worst[key] = rate
        return of_all

    @cached_property
    def _judged(self) -> dict[str, list[Rates]]:
        return {measure: self._by_judge(measure) for measure in TITLES}

    def _by_judge(self, measure: str) -> list[Rates]:
        """The rates of each table: there is one for every judge that counts what the page does."""
        return [
            {
                (attack, defence): rate
                for defence, *cells in rows
                for attack, cell in zip(head[1:], cells, strict=True)
                if (rate := Rate.read(cell))
            }
            for title, (head, *rows) in self.tables.items()
            if title.startswith(TITLES[measure]) and self._counts_so(title)
        ]

    def _counts_so(self, title: str) -> bool:
        """Whether a table is by a judge that counts what the page does: *not refused* is not *complied*."""
        judge = title.partition(", judge ")[2]
        return not judge or judge in self._telling

    @cached_property
    def _telling(self) -> set[str]:
        """The judges whose own table counts what the page does."""
        starts = tuple(start for start, word in COUNTS.items() if word == self.counts)
        return {title.partition(", judge ")[2] for title in self.tables if title.startswith(starts)}


STUDY_COLUMNS = {
    "asr": "harmful complied",
    "over_refusal": "safe refused",
    "utility": "sql_meaning",
    "harmless_missed": "safe missed",
    "kept": "kept",
}
"""Where the page of the study on a vendor-aligned model has them."""


class StudyPage(Results):
    """The study's page: a section for everything that was tuned on, each with tables that have a line for every defence."""

    @cached_property
    def counts(self) -> str:
        """Always *complied*: its judge tells outcomes."""
        return "complied"

    @property
    def by_outcome(self) -> bool:
        """Always."""
        return True

    def _by_judge(self, measure: str) -> list[Rates]:
        column = STUDY_COLUMNS[measure]
        parts = re.split(r"^## (.+)$", self.path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        rates: Rates = {}
        for section, text in zip(parts[1::2], parts[2::2], strict=True):
            for head, *rows in filter(None, map(_rows, re.split(r"\n\n", text))):
                if column in head and head[0] == "":
                    cells = {row[0]: Rate.read(row[head.index(column)]) for row in rows}
                    rates |= {(section, defence): rate for defence, rate in cells.items() if rate}
        return [rates]


def _rows(text: str) -> list[list[str]]:
    table = re.search(r"^\|.*\|$(?:\n\|.*\|$)*", text, re.MULTILINE)
    lines = table[0].splitlines() if table else []
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line[1:-1])] for line in lines]
    return rows[:1] + rows[2:]


def tables_by_study(path: Path, title: str) -> dict[str, list[list[str]]]:
    """The tables under headings of that title, by the heading of the second level that each stands under."""
    parts = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    tables = {}
    for study, text in zip(parts[1::2], parts[2::2], strict=True):
        _, heading, rest = text.partition(f"\n### {title}\n")
        if heading:
            tables[study] = _rows(rest)
    return tables


def read_results(folder: Path) -> dict[str, Results]:
    """Every page that has a table of attacks and defences, by its name."""
    pages = {
        path.stem: StudyPage(path) if path.stem == "qwen" else Results(path) for path in sorted(folder.glob("*.md"))
    }
    return {name: page for name, page in pages.items() if page.attacks}
