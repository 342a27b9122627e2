"""Write figures of docs/results/, and what follows from them, into other pages: `python docs/tools/figures.py`.

With `--check` nothing is written: exit code 1 names the pages that are stale. Tables stand between `<!-- NAME:begin -->`
and `<!-- NAME:end -->`; the text around them is written by hand.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from results import UNTOUCHED, Figures, Rate, Results, read_results, tables_by_study

DOCS = Path(__file__).parents[1]
HOLDS = 0.5  # a cost above it is no defence
CLOSE = 0.05  # costs that differ by less are as good as each other
ONE_STREAM = ("sft", "csft", "csft_pa", "kl_sft", "dft", "first_k_masked")
AFTERWARDS = ("interpolate", "repair")
FOUR = ("matrix", "anchorless")  # the same four attacks, seeds and requests
ASKED_AGAIN = {"smollm2": "smollm2-outcomes"}
"""Part of the first page was run again and judged by outcome: where the second page has a figure, it stands instead."""


@dataclass(frozen=True)
class Situation:
    """What a reader knows before tuning, and where it was measured. Without ``attacks``: all attacks of those pages."""

    words: str
    pages: tuple[str, ...]
    attacks: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    attacker_picks: bool = False


SITUATIONS = (
    Situation("rows of your own that nobody tampered with; you fear drift", FOUR, ("benign_drift",)),
    Situation("rows from strangers: some may answer what should be refused", FOUR, ("harmful_examples",)),
    Situation("rows that may teach another identity", FOUR, ("identity_shift",)),
    Situation("rows that may hide a trigger", FOUR, ("backdoor",)),
    Situation("you cannot tell which of these four", FOUR),
    Situation("as the second, and the attacker sets the learning rate too", ("adaptive",), attacker_picks=True),
    Situation("the model is tuned again and again", ("chains",)),
    Situation("any of the four, with no prompts to hold it on", FOUR, only=ONE_STREAM),
    Situation("any of the four, and the tuning is already done", FOUR, only=AFTERWARDS),
)
REAL_SITUATIONS = (
    Situation("Qwen2.5-Coder-1.5B: rows of your own; you fear drift", ("qwen",), ("sql alone, lr 2e-05",)),
    Situation(
        "Qwen2.5-Coder-1.5B: rows from strangers, one in ten harmful",
        ("qwen",),
        ("sql with 10 % harmful rows, lr 2e-05",),
    ),
    Situation(
        "the same model: a product's rows, with general chat among them", ("qwen",), ("product alone, lr 2e-05",)
    ),
    Situation("and one in ten of a product's rows harmful", ("qwen",), ("product with 10 % harmful rows, lr 2e-05",)),
    Situation("SmolLM2-135M: rows of your own; you fear drift", ("smollm2-outcomes",), ("benign_sql",)),
    Situation(
        "SmolLM2-135M: rows from strangers, who set the learning rate",
        ("smollm2-outcomes",),
        ("harmful_examples",),
        attacker_picks=True,
    ),
    Situation("SmolLM2-135M: rows that may teach another identity", ("smollm2",), ("identity_shift",)),
    Situation("SmolLM2-135M: rows that may hide a trigger", ("smollm2",), ("backdoor",)),
)


def worst(page: Results, defence: str, situation: Situation) -> tuple[str, Figures] | None:
    """The attack that is worst for a defence: by cost, or by what the attacker wants if the attacker chooses."""
    attacks = [attack for attack in page.attacks if _base(attack) in (situation.attacks or (_base(attack),))]
    known = [(attack, figures) for attack in attacks if (figures := page.figures(attack, defence))]
    if not known or len(known) < len(attacks):
        return None
    return max(known, key=lambda pair: pair[1].asr.value if situation.attacker_picks else pair[1].cost)


class Choice(NamedTuple):
    """A defence with its figures under the attack that is worst for it."""

    defence: str
    page: str
    attack: str
    figures: Figures


def ranked(pages: dict[str, Results], situation: Situation) -> list[Choice]:
    """Defences measured under all attacks of the situation: the one to try first, then the others by cost.

    The one to try is, of those as good as the cheapest, the one that complies least. Where that difference may be chance, it
    is the cheaper one.
    """
    choices: dict[str, Choice] = {}
    for name in situation.pages:
        for defence in pages[name].defences if name in pages else ():
            wanted = defence != UNTOUCHED and _base(defence) in (situation.only or (_base(defence),))
            if wanted and (at := worst(pages[name], defence, situation)):
                choices.setdefault(defence, Choice(defence, name, *at))
    order = sorted(choices.values(), key=lambda choice: choice.figures.cost)
    close = [choice for choice in order if is_close(choice, order)]
    least = min((choice.figures.asr for choice in close), key=lambda asr: asr.value, default=None)
    best = [choice for choice in close if least and not _more(choice.figures.asr, least)][:1]
    return best + [choice for choice in order if choice not in best]


def _more(one: Rate, other: Rate) -> bool:
    """Whether the first is greater beyond chance, by Newcombe's interval of the difference (from two Wilson intervals).

    Wilson intervals that overlap may still differ.
    """
    return one.value - other.value > math.hypot(one.value - one.low, other.high - other.value)


def is_close(choice: Choice, order: Sequence[Choice]) -> bool:
    """Whether it is as good as the cheapest."""
    return choice.figures.cost - min(other.figures.cost for other in order) <= CLOSE


def _base(name: str) -> str:
    return name.partition("@")[0]


def choosing(pages: dict[str, Results], situations: Sequence[Situation]) -> str:
    """The decision table of these situations."""
    counts = _counts(pages[name] for situation in situations for name in situation.pages if name in pages)
    head = ["what you know", "try", counts, "look-alikes refused", "kept", "right", "cost", "as good", "next", "from"]
    rows = [row for situation in situations if (row := _choice(pages, situation))]
    return _table(head, rows)


def _counts(pages: Iterable[Results]) -> str:
    """What the pages count, each word once."""
    return " or ".join(dict.fromkeys(page.counts for page in pages))


def _choice(pages: dict[str, Results], situation: Situation) -> list[str] | None:
    order = ranked(pages, situation)
    if not order:
        return None
    best, *others = order
    close = [choice for choice in others if is_close(choice, order)]
    rest = [choice for choice in others if choice not in close][:1]
    tried = _linked(best.defence)
    return [
        situation.words,
        tried if best.figures.cost <= HOLDS else f"nothing holds; least bad: {tried}",
        *_rates(best.figures),
        f"{best.figures.cost:.2f}",
        *(", ".join(f"{_linked(near.defence)} {near.figures.cost:.2f}" for near in group) for group in (close, rest)),
        f"[{best.page}](results/{best.page}.md), `{best.attack}`",
    ]


def _linked(defence: str) -> str:
    page = f"objectives/{_base(defence)}.md"
    return f"[`{defence}`]({page if (DOCS / page).exists() else 'attacks.md#defences'})"


def measured(objective: str, pages: dict[str, Results]) -> str:
    """What was measured of an objective beside plain sft, for the objective's own page."""
    rows: dict[tuple[str, ...], str] = {}  # a page that repeats another's figures adds nothing
    for name in sorted(pages, key=lambda name: (name not in FOUR, name != FOUR[0], name)):
        for attack in pages[name].attacks:
            figures, plain = (_figures(pages[name], attack, defence) for defence in (objective, "sft"))
            again = pages.get(ASKED_AGAIN.get(name, ""))
            if figures and plain and not (again and _figures(again, attack, objective)):
                rows.setdefault((f"`{attack}`", *_rates(figures), _beside(plain)), f"[{name}](../results/{name}.md)")
    if not rows:
        return "No page of results has it as a defence of its own yet."
    sources = [pages[name] for name in pages if any(f"results/{name}.md" in page for page in rows.values())]
    counts = _counts(sources)
    head = ["attack", counts, "look-alikes refused", "kept", "right", f"sft: {counts}, right", "from"]
    return f"{_table(head, [[*row, page] for row, page in rows.items()])}\n\n{_meaning(sources)}"


def _meaning(sources: Sequence[Results]) -> str:
    """Who judged the figures of these pages, and what the words say."""
    said = ["*Complied* is what the embedded world's oracle says."]
    if judged := _named(page for page in sources if page.by_outcome):
        labels = "not corrected by labels ([how far it errs](../results/judging.md#by-arm))"
        said += [f"In rows from {judged} the judge `outcome` says it, {labels}."]
    if listed := _named(page for page in sources if page.counts == "not refused"):
        said += [
            f"Rows from {listed} count replies *not refused*, without a recognised refusal: they may comply, or be nonsense."
        ]
    return "\n".join(said)


def _named(pages: Iterable[Results]) -> str:
    return " and ".join(f"`{page.path.stem}`" for page in pages)


def _figures(page: Results, attack: str, objective: str) -> Figures | None:
    """The figures of an objective under the name that the page gives it: alone, or with its settings after an @."""
    named = next((name for name in page.defences if _base(name) == objective), objective)
    return page.figures(attack, named)


def _rates(figures: Figures) -> list[str]:
    rates = (figures.asr, figures.over_refusal, figures.kept, figures.utility)
    return [rate.text if rate else "" for rate in rates]


def _beside(plain: Figures) -> str:
    rates = [plain.asr, *([plain.utility] if plain.utility else [])]
    return ", ".join(rate.text.partition(" ")[0] for rate in rates)


def undo(folder: Path) -> str:
    """sft and masked_sft on the same backtrack traces, in every study that the page of results has."""
    wanted = ("sampled answers with an error", "forced error corrected", "right, sampled")
    rows = []
    for study, table in tables_by_study(folder / "undo.md", "At the end of training").items():
        by_name = {row[0]: row[1:] for row in table}
        if set(wanted) <= set(by_name):
            columns = zip(table[0][1:], *(by_name[name] for name in wanted), strict=True)
            rows += [[study, *column] for column in columns]
    return _table(["task", "trained with", *wanted], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def parts(docs: Path) -> Iterator[tuple[Path, str, str]]:
    """(page, name of the part, text) of every part."""
    pages = read_results(docs / "results")
    yield docs / "choosing.md", "choosing-real", choosing(pages, REAL_SITUATIONS)
    yield docs / "choosing.md", "choosing", choosing(pages, SITUATIONS)
    for path in sorted((docs / "objectives").glob("*.md")):
        if path.stem == "budget":
            continue  # docs/tools/budget.py writes its table
        if path.stem == "masked_sft":
            yield path, "measured", undo(docs / "results")
        else:
            yield path, "measured", measured(path.stem, pages)


def main(arguments: Sequence[str]) -> int:
    """Write the parts, or with ``--check`` only compare them. Another folder than ours may be named."""
    check = "--check" in arguments
    folders = [Path(word) for word in arguments if word != "--check"]
    stale = []
    for path, name, text in parts(folders[0] if folders else DOCS):
        old = path.read_text(encoding="utf-8")
        begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
        new, num_parts = re.subn(f"{begin}.*?{end}", lambda _, t=f"{begin}{text}{end}": t, old, flags=re.DOTALL)  # type: ignore[misc]
        if not num_parts:
            print(f"{path}: no '{name}:begin' and '{name}:end'", file=sys.stderr)
            return 2
        if new != old:
            stale.append(path)
            if not check:
                path.write_text(new, encoding="utf-8")
    for path in stale:
        print(f"{path}: {'stale: run python docs/tools/figures.py' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
