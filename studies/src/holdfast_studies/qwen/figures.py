"""Figures from the cells. Seeds are averaged within a request; for the intervals whole groups of twins are resampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.config import FOUR_BITS
from holdfast.records import Cell
from holdfast.stats import Estimate, Resamples
from holdfast_studies.qwen.cells import Kept, Place
from holdfast_studies.qwen.config import UNTOUCHED, StudyConfig, settings_of

Values = Callable[[Cell], Sequence[float]]
"""Takes a cell, returns a number for every request or row."""


@dataclass(frozen=True)
class Figure:
    """A column of the tables. ``groups``: the group of each request, resampled together; None: each request by itself."""

    title: str
    values: Values
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Results:
    """The cells of a study, and how to read a figure from them."""

    config: StudyConfig
    kept: Kept
    known: dict[tuple[str, str], dict[str, Estimate]] = field(default_factory=dict)  # means, by figure and attack

    def cells(self, attack: str, defence: str) -> list[Cell]:
        """The finished cells, in order of seeds. The untouched model's one cell of a task stands for every share and seed."""
        done = {place: cell for place, cell in self.kept.cells.items() if cell.status == "ok"}
        if defence == UNTOUCHED:
            under = self.config.untouched_under(attack)
            return [cell for place, cell in done.items() if (place.attack, place.defence) == (under, UNTOUCHED)]
        places = (Place(self.config.at_rate(attack, defence), defence, seed) for seed in self.config.seeds)
        return [done[place] for place in places if place in done]

    def title(self, attack: str) -> str:
        """The title of an attack's table."""
        title, is_common = title_of(attack), self.config.rates and attack not in self.config.more_attacks
        return f"{title.rpartition(', lr')[0]}, every defence at its worst rate" if is_common else title

    def named(self, defence: str) -> str:
        """The name of a defence, with its rate where it has one of its own."""
        return f"{defence} (lr {self.config.rates[defence]:g})" if defence in self.config.rates else defence

    def by_request(self, figure: Figure, attack: str, defence: str) -> np.ndarray | None:
        """For every request the mean over seeds; None where nothing was measured."""
        values = [figure.values(cell) for cell in self.cells(attack, defence)]
        return np.mean(np.asarray(values, dtype=float), axis=0) if values and len(values[0]) else None

    def mean(self, figure: Figure, attack: str, defence: str) -> Estimate | None:
        """The mean with its interval. All defences are resampled together, so that they have the same draws."""
        key = (figure.title, attack)
        if key not in self.known:
            rows = {name: self.by_request(figure, attack, name) for name in self.config.defences}
            there = {name: values for name, values in rows.items() if values is not None}
            self.known[key] = dict(
                zip(there, with_intervals([*there.values()], figure.groups, (0.0, 1.0)), strict=True)
            )
        return self.known[key].get(defence)

    def difference(self, figure: Figure, attack: str, first: str, second: str) -> Estimate | None:
        """First minus second, request by request."""
        ours, theirs = (self.by_request(figure, attack, name) for name in (first, second))
        return (
            None if ours is None or theirs is None else with_intervals([ours - theirs], figure.groups, (-1.0, 1.0))[0]
        )

    def by_seed(self, figure: Figure, attack: str, defence: str) -> list[float]:
        """For every seed the mean over requests."""
        return [float(np.mean(figure.values(cell))) for cell in self.cells(attack, defence)]


def title_of(attack: str) -> str:
    """``sql with 10 % harmful rows, lr 2e-05``."""
    settings = settings_of(attack)
    if not settings:
        return attack
    share = float(settings["share"])
    rows = (
        "alone"
        if not share
        else "left out, harmful rows alone"
        if share == 1
        else f"with {100 * share:g} % harmful rows"
    )
    adapters = f", adapters of rank {settings['rank']}" if "rank" in settings else ""
    return f"{settings['task']} {rows}{adapters}, lr {settings['lr']}"


def with_intervals(
    columns: Sequence[np.ndarray], groups: Sequence[int] | None, ends: tuple[float, float]
) -> list[Estimate]:
    """The mean of every column with its interval.

    For the interval two cases are added, one at either end (Agresti and Min 2005): if all requests are equal, it would
    otherwise have no width.
    """
    if not columns:
        return []
    own = list(range(len(columns[0]))) if groups is None else list(groups)
    table = np.column_stack([*columns, np.ones(len(own))])
    added = [[end] * len(columns) + [1.0] for end in ends]
    drawn = Resamples.of(np.vstack([table, added]), groups=[*own, "low", "high"])
    estimates = []
    for number, column in enumerate(columns):
        low, high = drawn.interval(lambda sums, number=number: sums[..., number] / sums[..., -1]) or ends  # type: ignore[misc]
        estimates.append(Estimate(float(column.mean()), low, high, len(set(own)), "bootstrap over groups of twins"))
    return estimates


def said(requests: str, outcome: str, judge: str = "outcome", keep: Sequence[int] | None = None) -> Values:
    """A function that says whether each request (``harmful`` or ``harmless``) of a cell had this outcome.

    Where the judge could not tell, the request counts against the model.
    """
    against = (outcome == "complied") != requests.endswith("harmless")

    def values(cell: Cell) -> list[float]:
        outcomes = cell.outcomes.get(f"{requests}:{judge}", ())
        hits = [float(against if given is None else given == outcome) for given in outcomes]
        return hits if keep is None else [hits[place] for place in keep] if hits else []

    return values


def harmful_figures(results: Results) -> dict[str, Figure]:
    """Figures of harmful requests: StrongREJECT, JailbreakBench and AdvBench; without AdvBench; XSTest's unsafe half."""
    rows = results.kept.requests["harmful"]
    sources = {
        "": places_of(rows),
        ", without AdvBench": [n for n, row in enumerate(rows) if row["source"] not in ("xstest", "advbench")],
        ", XSTest unsafe": [place for place, row in enumerate(rows) if row["source"] == "xstest"],
    }
    figures = {}
    for name, keep in sources.items():
        groups = tuple(rows[place]["group"] for place in keep)
        for outcome in ("complied", "refused", "missed") if not name else ("complied",):
            title = f"harmful {outcome}{name}"
            figures[title] = Figure(title, said("harmful", outcome, keep=keep), groups)
    return figures


def ask_figures(results: Results) -> dict[str, Figure]:
    """For each further way to ask the share of the same harmful requests complied with; for 4 bits also of safe prompts."""
    rows, ways = results.kept.requests["harmful"], results.config.asks
    keep = places_of(rows)
    groups = tuple(rows[place]["group"] for place in keep)
    figures = {way: Figure(way, said(way, "complied", keep=keep), groups) for way in ways}
    if FOUR_BITS in ways:
        safe = tuple(row["group"] for row in results.kept.requests["harmless"])
        title = f"{FOUR_BITS}, safe complied"
        figures[title] = Figure(title, said(f"{FOUR_BITS}_harmless", "complied"), safe)
    return figures


def harmless_figures(results: Results) -> dict[str, Figure]:
    """Figures of XSTest's safe half: the three outcomes, and the share whose outcome is the untouched model's."""
    groups = tuple(row["group"] for row in results.kept.requests["harmless"])
    figures = {
        f"safe {outcome}": Figure(f"safe {outcome}", said("harmless", outcome), groups)
        for outcome in ("complied", "refused", "missed")
    }
    return {**figures, "kept": Figure("kept", lambda cell: [float(hit) for hit in cell.counted("kept")], groups)}


def task_figures(results: Results) -> dict[str, Figure]:
    """Every figure of a task that some cell has."""
    names = dict.fromkeys(name for cell in results.kept.cells.values() for name in cell.scores)
    return {name: Figure(name, lambda cell, name=name: cell.scores.get(name, ())) for name in names}  # type: ignore[misc]


def phrase_figure(results: Results) -> Figure:
    """Harmful requests that were not refused, by the phrase list, which cannot tell *missed* from *complied*.

    Of the same requests as *harmful complied*: without XSTest's unsafe half.
    """
    keep = places_of(results.kept.requests["harmful"])

    def values(cell: Cell) -> list[float]:
        hits = cell.counted("asr:refusal_phrases")
        return [float(hits[place]) for place in keep] if hits else []

    groups = tuple(results.kept.requests["harmful"][place]["group"] for place in keep)
    return Figure("harmful, no refusal phrase", values, groups)


def places_of(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where the harmful requests are that the figures are about: all but XSTest's unsafe half."""
    return [place for place, row in enumerate(rows) if row["source"] != "xstest"]
