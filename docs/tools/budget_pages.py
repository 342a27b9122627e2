"""Tables and pictures of weights against budgets, from the cells: `python docs/tools/budget_pages.py`. Nothing is trained.

It writes the table of docs/objectives/budget.md, the tables of docs/results/budget.md, and two pictures beside the latter.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from budget import ARMS, CHEAPER, CHOSEN_FROM, DEFAULT, HARMFUL, LONGER, MAIN, ROWS, SLOWER, TRIED, read_cells
from budget_plane import plane
from budget_real import table as real_table

from holdfast.stats import wilson

DOCS = Path(__file__).parents[1]
COST = DOCS / "results" / "budget-cost.json"
PICTURE = DOCS / "results" / "budget-bound.svg"
PLANE = DOCS / "results" / "budget-plane.svg"
BEGIN, END = "<!-- {}:begin -->\n", "<!-- {}:end -->"
KINDS = {
    "safety": ("requests of the held kind, kept back", "#1f5fa8", "circle"),
    "keep": ("harmless prompts of the held kind, kept back", "#2a8a4a", "square"),
    "asked": ("forbidden requests of the test half, about things that no held prompt names", "#c04a1a", "diamond"),
}
Cells = Sequence[dict[str, Any]]


def of(cells: Cells, part: str, rows: str, arm: str) -> list[dict[str, Any]]:
    """The seeds of one arm."""
    return [cell for cell in cells if (cell["part"], cell["rows"], cell["arm"]) == (part, rows, arm)]


def first_seed(cells: Cells) -> list[dict[str, Any]]:
    """The runs with the seed that most arms were tried with. A few arms have more seeds, for the table of ``longer``."""
    return [cell for cell in cells if cell["seed"] == 100]


def share(cells: Cells, name: str) -> float:
    """A share over all seeds together."""
    return float(sum(cell[name] for cell in cells) / sum(cell["num"] for cell in cells))


def mean(cells: Cells, kind: str, name: str) -> float:
    """A figure of the drift: its mean over the seeds."""
    return float(sum(cell["drift"][kind][name] for cell in cells) / len(cells))


def nats_of(cells: Cells) -> str:
    """The drift of the safety prompts and of the keep prompts."""
    return ", ".join(f"{mean(cells, kind, 'early'):.3f}" for kind in ("safety", "keep"))


def told(cells: Cells, name: str) -> str:
    """A share with its interval; with several seeds also the least and the greatest."""
    estimate = wilson(sum(cell[name] for cell in cells), sum(cell["num"] for cell in cells))
    text = f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    shares = [100 * cell[name] / cell["num"] for cell in cells]
    return (
        text
        if len(cells) == 1 or max(shares) - min(shares) < 0.05
        else f"{text}, {min(shares):.1f} to {max(shares):.1f}"
    )


def table(cells: Cells) -> str:
    """The table of docs/objectives/budget.md: all seeds together, the drift in nats per answer."""
    lines = [
        "| rows | held by | answered | look-alikes refused | right | drift: safety, keep |",
        "|---|---|---|---|---|---|",
    ]
    for rows in ROWS:
        for arm in MAIN:
            if not (own := of(cells, "test", rows, arm)):
                continue
            shares = [f"{100 * share(own, name):.1f} %" for name in ("complied", "harmless_refused", "right")]
            drifts = nats_of(own)
            lines.append(f"| {rows} | {arm} | {' | '.join(shares)} | {drifts} |")
    return "\n".join(lines) + "\n"


def front(cells: Cells, part: str, rows: str) -> set[str]:
    """The arms that no other arm beats in *answered* or in *right* without losing in the other."""
    own = {arm: seeds for arm in ARMS if (seeds := of(cells, part, rows, arm))}
    places = {arm: (-share(seeds, "complied"), share(seeds, "right")) for arm, seeds in own.items()}

    def is_beaten(place: tuple[float, float]) -> bool:
        return any(
            other != place and all(a >= b for a, b in zip(other, place, strict=True)) for other in places.values()
        )

    return {arm for arm, place in places.items() if not is_beaten(place)}


def planes(cells: Cells) -> str:
    """The planes of docs/results/budget.md: safety and task for each kind of rows, and the bound beside what was lost."""
    parts = []
    for rows in ROWS:
        lines = [
            f"### {rows}\n",
            "| held by | seeds | answered | right | front | nats: safety, keep | refusals lost, at most | lost |",
            "|---|---|---|---|---|---|---|---|",
        ]
        best = front(cells, "test", rows)
        for arm in ARMS:
            if own := of(cells, "test", rows, arm):
                nats = nats_of(own)
                lost = [f"{100 * mean(own, 'safety', name):.1f} %" for name in ("most_lost", "lost")]
                shares = [told(own, name) for name in ("complied", "right")]
                seeds = str(len(own)) if len(own) > 1 else "**1**"
                lines.append(
                    f"| {arm} | {seeds} | {' | '.join(shares)} | {'x' if arm in best else ''} | {nats} | {' | '.join(lost)} |"
                )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def choice(cells: Cells) -> str:
    """What `hold: true` was chosen by: the validation cells and their costs."""
    lines = [
        "| held by | " + " | ".join(f"{rows}: answered, right" for rows in ROWS) + " | cost |",
        "|---|---|---|---|---|",
    ]
    for arm in CHOSEN_FROM:
        own = [of(first_seed(cells), "validation", rows, arm) for rows in ROWS]
        if all(own):
            shares = [f"{100 * share(seeds, 'complied'):.1f}, {100 * share(seeds, 'right'):.1f} %" for seeds in own]
            lines.append(f"| {arm} | {' | '.join(shares)} | {sum(map(cost, own)) / len(own):.3f} |")
    return "\n".join(lines) + "\n"


def cost(cells: Cells) -> float:
    """The cost, as in ``holdfast.attacks.chosen``."""
    return (
        share(cells, "complied")
        + share(cells, "harmless_refused")
        + share(cells, "harmless_missed")
        + 1
        - share(cells, "right")
    )


def tried(cells: Cells) -> str:
    """What else was tried, on the validation half: single runs."""
    return _side_by_side(first_seed(cells), (DEFAULT, *TRIED))


def longer(cells: Cells) -> str:
    """What more steps give, on the validation half: three seeds, on every kind of rows."""
    lines = [
        "| held by | " + " | ".join(f"{rows}: right; nats of safety, keep" for rows in ROWS) + " |",
        "|---|---|---|---|",
    ]
    for arm in ("sft", DEFAULT, *LONGER):
        places = []
        for rows in ROWS:
            own = of(cells, "validation", rows, arm)
            places.append(
                f"{100 * share(own, 'right'):.1f} %; {nats_of(own)}; answered {sum(c['complied'] for c in own)}"
            )
        lines.append(f"| {arm} | {' | '.join(places)} |")
    return "\n".join(lines) + "\n"


def real(_: Cells) -> str:
    """A model that refuses nothing, tuned by weights and by budgets."""
    return real_table("smollm2-135m.gguf")


def _side_by_side(cells: Cells, arms: Sequence[str], last: Callable[[str], str] | None = None, head: str = "") -> str:
    figures = "answered, right | nats: safety, keep"
    lines = [
        f"| held by | {SLOWER}: {figures} | {HARMFUL}: {figures} |{head}",
        "|---|---|---|---|---|" + "---|" * head.count("|"),
    ]
    for arm in arms:
        if not any(of(cells, "validation", rows, arm) for rows in (SLOWER, HARMFUL)):
            continue
        places = []
        for rows in (SLOWER, HARMFUL):
            own = of(cells, "validation", rows, arm)
            nats = nats_of(own) if own else ""
            shares = f"{100 * share(own, 'complied'):.1f}, {100 * share(own, 'right'):.1f} %" if own else "not run"
            places += [shares, nats]
        lines.append(f"| {arm} | {' | '.join(places)} |" + (last(arm) if last else ""))
    return "\n".join(lines) + "\n"


def cheaper(cells: Cells) -> str:
    """What a step costs against plain sft's, and the safety at that price."""
    seconds = json.loads(COST.read_text(encoding="utf-8"))

    def ratio(arm: str) -> str:
        name = "wide 30" if arm == DEFAULT else arm
        both = (name, f"{name}, exact cache")
        return "".join(f" {seconds[name] / seconds['sft']:.2f} |" if name in seconds else "  |" for name in both)

    head = " step, against sft's | with the exact cache |"
    return _side_by_side(first_seed(cells), (DEFAULT, *CHEAPER), ratio, head)


def picture(cells: Cells) -> str:
    """Measured lost answers against 1 - exp(-k), both axes from 0 to 100 %."""
    left, top, size, below = 70, 20, 520, 150

    def place(x: float, y: float) -> tuple[float, float]:
        return left + size * _stretched(x), top + size * (1 - _stretched(y))

    parts = [f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#888"/>']
    for tick in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0):
        (x, y), label = place(tick, tick), f"{100 * tick:g} %"
        parts.append(f'<path d="M{x:.1f} {top}V{top + size}M{left} {y:.1f}H{left + size}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + size + 18}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    (x0, y0), (x1, y1) = place(0, 0), place(1, 1)
    parts.append(f'<path d="M{x0} {y0}L{x1} {y1}" stroke="#444" stroke-dasharray="6 4"/>')
    parts.append(f'<text x="{x1 - 150}" y="{y1 + 60}" fill="#444">lost = bound</text>')
    for cell in cells:
        if cell["part"] == "test":
            for kind, (_, colour, shape) in KINDS.items():
                row = cell["drift"][kind]
                parts.append(_mark(*place(-math.expm1(-row["nats"]), row["lost"]), colour, shape))
    own = [cell["drift"]["safety"]["own"] for cell in cells if cell["part"] == "test"]
    _, y = place(0, sum(own) / len(own))
    parts.append(f'<path d="M{left} {y:.1f}H{left + size}" stroke="#444" stroke-dasharray="2 4"/>')
    parts.append(f'<text x="{left + size + 6}" y="{y + 4:.1f}" fill="#444">anchor itself</text>')
    bottom = top + size
    parts.append(_text(left + size / 2, bottom + 42, "bound: 1 - exp(-k), k measured on the same prompts", "middle"))
    turned = f'<g transform="translate(16 {top + size / 2}) rotate(-90)">'
    parts.append(turned + _text(0, 0, "lost: sampled answers with another outcome", "middle") + "</g>")
    for number, (text, colour, shape) in enumerate(KINDS.values()):
        y = bottom + 70 + 22 * number
        parts += [_mark(left + 6, y - 4, colour, shape), _text(left + 20, y, text)]
    note = "One mark: a trained model on 60 prompts, of which those count that the anchor surely refuses (answers)."
    parts.append(_text(left, bottom + 140, note))
    box = f'viewBox="0 0 {left + size + 100} {bottom + below}" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333">{text}</text>'


def _stretched(value: float) -> float:
    """The square root of a value, which gives small shares more room."""
    return math.sqrt(min(max(value, 0.0), 1.0))


def _mark(x: float, y: float, colour: str, shape: str) -> str:
    how = f'fill="{colour}" fill-opacity="0.55" stroke="{colour}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {how}/>'
    turned = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"{turned} {how}/>'


PAGES: dict[Path, dict[str, Callable[[Cells], str]]] = {
    DOCS / "objectives" / "budget.md": {"budget": table},
    DOCS / "results" / "budget.md": {
        "budget": planes,
        "choice": choice,
        "longer": longer,
        "real": real,
        "tried": tried,
        "cheaper": cheaper,
    },
}


def main() -> None:
    """Write the text between the marks, and the pictures."""
    cells = read_cells()
    for page, makers in PAGES.items():
        text = page.read_text(encoding="utf-8")
        for name, maker in makers.items():
            begin, end = BEGIN.format(name), END.format(name)
            before, rest = text.split(begin)
            text = before + begin + maker(cells) + end + rest.partition(end)[2]
        page.write_text(text, encoding="utf-8")
    PICTURE.write_text(picture(cells), encoding="utf-8")
    PLANE.write_text(plane(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
