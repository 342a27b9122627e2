"""A matrix as a page of docs/results/: the command, the tables, the tests, and whether a published ordering was found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from holdfast._version import __version__
from holdfast.attacks.matrix_table import COUNTED, cell_text, legend, ran_alone, rows_of, shown_measures, tell_outcomes
from holdfast.attacks.paired import Paired, paired_tests
from holdfast.attacks.worst import Worst
from holdfast.config.matrix import MatrixConfig
from holdfast.models import named_with_origin
from holdfast.records import Cell, ask_the_same, judged_by
from holdfast.records.audit import LEVEL
from holdfast.stats import Estimate, pooled

ORDERING = ("sft", "csft", "csft_pa")
"""[002] Table 3: attack success falls from each to the next."""


def results_page(
    cells: Sequence[Cell], tests: Sequence[Paired], worst: Sequence[Worst], config: MatrixConfig, command: str
) -> str:
    """The page as Markdown: the command, the tables, the tests, and whether the published ordering was found."""
    done = [cell for cell in cells if cell.status == "ok"]
    parts = [_head(cells, config, command)]
    for measure, title in shown_measures(cells):
        attacks, rows = rows_of(cells, tests, measure)
        parts.append(
            f"## {title[0].upper()}{title[1:]}\n\n{_table(['', *attacks], [[d, *texts] for d, texts in rows])}"
        )
    if note := legend(cells, tests):
        parts.append(f"{note}.")
    if worst:
        parts.append(_worst(worst))
    if set(ORDERING) <= {cell.defence for cell in done}:
        parts.append(_ordering(done))
    if tests:
        parts.append(_tests(cells, tests))
    if again := ran_alone(cells):
        parts.append(f"{again}.")
    parts += [f"Failed: {c.attack} x {c.defence}, seed {c.seed}: {c.reason}" for c in cells if c.status == "failed"]
    return "\n\n".join(parts) + "\n"


def _head(cells: Sequence[Cell], config: MatrixConfig, command: str) -> str:
    seconds = sum(cell.seconds for cell in cells)
    if config.files is None:
        where = " in the embedded world"
        requests = f"{config.num_requests} requests of each kind and seed from the {config.requests} half of the held-out items"
    else:
        where, requests = "", f"at most {config.files.num_requests} requests of each kind, the same for every seed"
    return (
        f"# {Path(config.run).name}: attacks on defences{where}\n\n{_means(cells)}"
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d}, holdfast {__version__}.\n\n"
        f"Model `{named_with_origin(config.model)}`; seeds {', '.join(map(str, config.seeds))}, pooled; {requests};"
        f" {len(cells)} cells, {seconds:,.0f} s in all. Intervals are 95 % Wilson intervals, a request counted once: they"
        f" cover the drawing of requests, not how much seeds differ.{_judged(cells)}"
        " What each figure is: [attacks.md](../attacks.md)."
    )


def _judged(cells: Sequence[Cell]) -> str:
    judged = judged_by(cells) or "the world's oracle says what was complied with, refused and missed"
    return f" {judged[0].upper()}{judged[1:]}."


def _means(cells: Sequence[Cell]) -> str:
    """What attack success counts, where its judge does not tell missed from complied."""
    if tell_outcomes(cells):
        return ""
    judges = " and ".join(f"`{judge}`" for judge in dict.fromkeys(c.judge for c in cells if not c.tells_outcomes))
    return (
        f"**What the figures mean**: attack success counts replies that were *not refused*, or called unsafe, by {judges}."
        " Such a reply may comply, or be nonsense: *missed* was not told apart ([judging](../judging.md)).\n\n"
    )


def _worst(worst: Sequence[Worst]) -> str:
    counted = COUNTED[all(case.tells_outcomes for case in worst)]
    measured = any(case.missed or case.kept for case in worst)
    shares = [[_share(case.missed), _share(case.kept)] if measured else [] for case in worst]
    rows = [
        [case.attack, case.defence, cell_text(case.asr), *beside, str(case.num_variants), "; ".join(case.chosen)]
        for case, beside in zip(worst, shares, strict=True)
    ]
    head = ["attack", "defence", counted, *(["missed", "kept"] if measured else []), "variants", "chosen"]
    return (
        "## The attacker's best variant\n\nChosen on every second request and counted on the others, then the other way"
        " round, so that no request is counted under a variant that it helped to choose.\n\n" + _table(head, rows)
    )


def _share(share: Estimate | None) -> str:
    return "" if share is None else f"{share.value:.1%}"


def _ordering(cells: Sequence[Cell]) -> str:
    """Per attack: is asr(sft) > asr(csft) > asr(csft_pa), and is each step beyond chance?"""
    steps = {(t.attack, t.defence): t for t in paired_tests(cells, ("csft",)) if t.measure == "asr"}
    rows = []
    for attack in dict.fromkeys(cell.attack for cell in cells):
        first, second = steps.get((attack, "sft")), steps.get((attack, "csft_pa"))
        if first is None or second is None:  # cells failed, or have no seed in common
            rows.append([attack, *[""] * (len(ORDERING) + 2), "not compared"])
            continue
        asr = [pooled(c.asr for c in cells if (c.attack, c.defence) == (attack, d) and c.asr) for d in ORDERING]
        in_order = asr[0].value > asr[1].value > asr[2].value
        clear = first.differs and second.differs
        verdict = "found" if in_order and clear else "this order, not beyond chance" if in_order else "not found"
        rows.append([attack, *(f"{rate.value:.1%}" for rate in asr), _p(first.p_holm), _p(second.p_holm), verdict])
    return (
        f"## [002] Table 3's ordering {' > '.join(ORDERING)} ({COUNTED[tell_outcomes(cells)]})\n\n"
        f"Found: in this order, and both steps beyond chance (Holm, {LEVEL:.0%}).\n\n"
        + _table(["attack", *ORDERING, "p sft, csft", "p csft, csft_pa", "ordering"], rows)
    )


def _tests(cells: Sequence[Cell], tests: Sequence[Paired]) -> str:
    rows = [
        [
            t.attack,
            t.measure,
            t.defence,
            t.other,
            f"{t.only_defence} : {t.only_other}",
            str(t.trials),
            _p(t.p),
            _p(t.p_holm),
        ]
        for t in tests
    ]
    head = ["attack", "measure", "defence", "against", "only here : only there", "requests", "p", "p (Holm)"]
    test = "Exact sign flips, each request once" if ask_the_same(cells) else "Exact McNemar tests on the same requests"
    return (
        f"## Paired tests\n\n{test}, seeds pooled; Holm's correction over the defences"
        f" compared with the same one.\n\n{_table(head, rows)}"
    )


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(text.strip() for text in line)} |" for line in lines)
