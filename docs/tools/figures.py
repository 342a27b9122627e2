"""Figures of docs/results/ on other pages, and what follows from them: `python docs/tools/figures.py` writes both.

With `--check` nothing is written: exit code 1 names the pages that are stale. Tables stand between `<!-- NAME:begin -->` and
`<!-- NAME:end -->`; what stands around them is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import Figures, Results, read_results

DOCS = Path(__file__).parents[1]
HOLDS = 0.5  # a cost above it: more than half of what can go wrong did
CLOSE = 0.05  # costs that differ by less are as good as each other
NOT_TUNED = "untouched"
ONE_STREAM = ("sft", "csft", "csft_pa", "kl_sft", "dft", "first_k_masked")
AFTERWARDS = ("interpolate", "repair")


@dataclass(frozen=True)
class Situation:
    """What one knows before tuning, and where it was measured. Without ``attacks``: all of the page."""

    words: str
    page: str
    attacks: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    attacker_picks: bool = False


SITUATIONS = (
    Situation("rows of your own that nobody tampered with; you fear drift", "matrix", ("benign_drift",)),
    Situation("rows from strangers: some may answer what should be refused", "matrix", ("harmful_examples",)),
    Situation("rows that may teach another identity", "matrix", ("identity_shift",)),
    Situation("rows that may hide a trigger", "matrix", ("backdoor",)),
    Situation("you cannot tell which of these four", "matrix"),
    Situation("as the second, and the attacker sets the learning rate too", "adaptive", attacker_picks=True),
    Situation("the model is tuned again and again", "chains"),
    Situation("any of the four, with no prompts to hold it on", "matrix", only=ONE_STREAM),
    Situation("any of the four, and the tuning is already done", "matrix", only=AFTERWARDS),
    Situation("a real model of 135M, any attack measured", "smollm2"),
)


def worst(page: Results, defence: str, situation: Situation) -> tuple[str, Figures] | None:
    """The attack that is worst for a defence: by cost, or by what the attacker wants if the choice is his."""
    attacks = situation.attacks or page.attacks
    found = [(attack, figures) for attack in attacks if (figures := page.figures(attack, defence))]
    if len(found) < len(attacks):
        return None
    return max(found, key=lambda each: each[1].asr.value if situation.attacker_picks else each[1].cost)


def ranked(page: Results, situation: Situation) -> list[tuple[str, str, Figures]]:
    """Defences measured under all attacks of the situation. Of those as good as the best, the safest is first."""
    names = [name for name in page.defences if name != NOT_TUNED and _base(name) in (situation.only or (_base(name),))]
    found = [(name, *at) for name in names if (at := worst(page, name, situation))]
    least = min((figures.cost for _, _, figures in found), default=0.0)

    def place(each: tuple[str, str, Figures]) -> tuple[bool, float, float]:
        figures = each[2]
        is_close = figures.cost - least <= CLOSE
        return not is_close, figures.asr.value if is_close else figures.cost, figures.cost

    return sorted(found, key=place)


def _base(name: str) -> str:
    return name.partition("@")[0]


def choosing(pages: dict[str, Results]) -> str:
    """The decision table."""
    head = ["what you know", "try", "answered", "look-alikes refused", "right", "cost", "as good", "next", "from"]
    rows = [row for situation in SITUATIONS if (row := _choice(pages.get(situation.page), situation))]
    return _table(head, rows)


def _choice(page: Results | None, situation: Situation) -> list[str] | None:
    order = ranked(page, situation) if page else []
    if page is None or not order:
        return None
    (name, attack, figures), *others = order
    least = min(each[2].cost for each in order)
    close = [other for other in others if other[2].cost - least <= CLOSE]
    rest = [other for other in others if other not in close]
    tried = _linked(name) if figures.cost <= HOLDS else f"nothing holds; least bad: {_linked(name)}"
    return [
        situation.words,
        tried,
        figures.asr.text,
        figures.over_refusal.text,
        figures.utility.text if figures.utility else "",
        f"{figures.cost:.2f}",
        ", ".join(f"{_linked(other)} {cost.cost:.2f}" for other, _, cost in close),
        f"{_linked(rest[0][0])} {rest[0][2].cost:.2f}" if rest else "",
        f"[{situation.page}](results/{situation.page}.md), `{attack}`",
    ]


def _linked(defence: str) -> str:
    base = _base(defence)
    return f"[`{defence}`](objectives/{base}.md)" if (DOCS / "objectives" / f"{base}.md").exists() else f"`{defence}`"


def measured(objective: str, pages: dict[str, Results]) -> str:
    """What an objective's own page says of it, beside plain sft."""
    rows = []
    for name, page in pages.items():
        for attack in page.attacks:
            figures, plain = page.figures(attack, objective), page.figures(attack, "sft")
            if figures and plain:
                rows.append([f"[{name}](../results/{name}.md)", f"`{attack}`", *_three(figures), _beside(plain)])
    if not rows:
        return "No page of results has it as a defence of its own yet."
    return _table(["from", "attack", "answered", "look-alikes refused", "right", "sft: answered, right"], rows)


def _three(figures: Figures) -> list[str]:
    return [figures.asr.text, figures.over_refusal.text, figures.utility.text if figures.utility else ""]


def _beside(plain: Figures) -> str:
    rates = [plain.asr, *([plain.utility] if plain.utility else [])]
    return ", ".join(rate.text.partition(" ")[0] for rate in rates)


def undo(folder: Path) -> str:
    """sft and masked_sft on the same backtrack traces, as the page of that study has them."""
    head, *rows = Results(folder / "undo.md").tables["At the end of training"]
    wanted = ("sampled answers with an error", "forced error corrected", "right, sampled")
    return _table(["", *head[1:]], [row for row in rows if row[0] in wanted])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def parts(docs: Path) -> Iterator[tuple[Path, str, str]]:
    """Page, name of the part, text."""
    pages = read_results(docs / "results")
    yield docs / "choosing.md", "choosing", choosing(pages)
    yield docs / "choosing.md", "undo", undo(docs / "results")
    for path in sorted((docs / "objectives").glob("*.md")):
        if path.stem == "masked_sft":
            yield path, "measured", undo(docs / "results")
        else:
            yield path, "measured", measured(path.stem, pages)


def main(arguments: Sequence[str]) -> int:
    """Write, or with ``--check`` only compare; another folder than ours may be named."""
    check = "--check" in arguments
    folders = [Path(each) for each in arguments if each != "--check"]
    stale = []
    for path, name, text in parts(folders[0] if folders else DOCS):
        old = path.read_text(encoding="utf-8")
        begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
        new, found = re.subn(f"{begin}.*?{end}", lambda _, t=f"{begin}{text}{end}": t, old, flags=re.DOTALL)  # type: ignore[misc]
        if not found:
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
