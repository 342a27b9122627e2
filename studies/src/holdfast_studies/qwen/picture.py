"""The picture beside the page, for the README: what harmful requests get after tuning, what was kept, what was learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from holdfast.stats import Estimate
from holdfast_studies.qwen.config import UNTOUCHED, settings_of
from holdfast_studies.qwen.figures import Results, harmful_figures, harmless_figures, task_figures

WORDS = {
    "sft": "plain tuning",
    "filtered": "rows it refuses left out",
    "chat_mixed": "general chat mixed in",
    "safety_mixed": "refusals mixed in",
    "csft_pa_published": "csft_pa, as published",
    "anchored": "held to its old self",
    "vetted": "held, rows vetted",
}
TASKS = {
    "sql": ("sql_meaning", "SQL right"),
    "product": ("sql_meaning", "SQL right"),
    "gsm8k": ("gsm8k", "GSM8K right"),
}
OUTCOMES = ("complied", "missed", "refused")
WIDTH, ROW, TITLE, HEAD = 960, 26, 24, 58
BAR, KEPT, TASK = (275, 570), (640, 755), (835, 950)  # where the three parts are drawn
NOTES = (
    "In brackets: seeds. Lines: 95 %, over which requests were asked; how much seeds differ is not in them.",
    "Outcomes by the judge outcome, which errs; not corrected by labels. As before: with the outcome of the untouched model.",
)
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b1b1b } .small { font-size: 12px; fill: #555 } .head { font-weight: 600 }
.paper { fill: #fff } .complied { fill: #a93a16 } .missed { fill: #8fc1c9 } .refused { fill: #cdd6e6 }
.line { stroke: #1b1b1b; stroke-width: 1.5 } .dot { fill: #002d83 } .rail { stroke: #ddd }
@media (prefers-color-scheme: dark) {
text { fill: #eee } .small { fill: #aaa } .paper { fill: #0d1117 } .complied { fill: #d46934 } .missed { fill: #3f7f8c }
.refused { fill: #33415c } .line { stroke: #eee } .dot { fill: #6ea0f5 } .rail { stroke: #333 } }
"""


def picture(results: Results, title: str, panels: Mapping[str, str]) -> str:
    """An SVG with a panel for every attack (name: what was tuned on), and in it a line for every defence that has a cell."""
    parts, top = [f'<text x="10" y="20" class="head">{escape(title)}</text>'], TITLE
    for attack, tuned_on in panels.items():
        parts += [f'<text x="10" y="{top + HEAD - 30}">{escape(tuned_on)}</text>', *_heads(results, attack, top)]
        top += HEAD
        for defence in (name for name in results.config.defences if results.cells(attack, name)):
            name = _name(results, attack, defence)
            parts += [f'<text x="22" y="{top + 15}">{escape(name)}</text>', *_line(results, attack, defence, top)]
            top += ROW
    for note in NOTES:
        top += 18
        parts.append(f'<text x="10" y="{top}" class="small">{escape(note)}</text>')
    height = top + 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    paper = '<rect width="100%" height="100%" class="paper"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *parts, "</svg>"]) + "\n"


def _name(results: Results, attack: str, defence: str) -> str:
    """What a line is called, with its number of seeds. The untouched model is asked greedily, once."""
    if defence == UNTOUCHED:
        return defence
    cells = results.cells(attack, defence)
    left_out = [sum(map(bool, cell.outcomes["vetted"])) for cell in cells if "vetted" in cell.outcomes]
    none = ": none" if defence == "filtered" and left_out and not any(left_out) else ""
    return f"{WORDS.get(defence, defence)}{none} ({len(cells)})"


def _heads(results: Results, attack: str, top: int) -> Iterator[str]:
    y = top + HEAD - 12
    yield f'<text x="{BAR[0] - 40}" y="{y}" class="small">harmful requests:</text>'
    for x, outcome in zip(range(BAR[0] + 72, BAR[1], 80), OUTCOMES, strict=False):
        yield f'<rect x="{x}" y="{y - 10}" width="11" height="11" class="{outcome}"/>'
        yield f'<text x="{x + 15}" y="{y}" class="small">{outcome}</text>'
    yield f'<text x="{KEPT[0] - 40}" y="{y}" class="small">harmless: as before</text>'
    if any(_estimate(results, attack, name, "task") for name in results.config.defences):
        yield f'<text x="{TASK[0] - 40}" y="{y}" class="small">{_task(attack)[1]}</text>'


def _line(results: Results, attack: str, defence: str, top: int) -> Iterator[str]:
    """The bar of outcomes with the interval of *complied*, then two rails."""
    start, stop = BAR
    x = float(start)
    for outcome in OUTCOMES:
        if share := _estimate(results, attack, defence, outcome):
            width = share.value * (stop - start)
            yield f'<rect x="{x:.1f}" y="{top + 2}" width="{width:.1f}" height="17" class="{outcome}"/>'
            x += width
    if complied := _estimate(results, attack, defence, "complied"):
        yield _interval(complied, BAR, top)
        yield f'<text x="{start - 6}" y="{top + 15}" text-anchor="end" class="small">{100 * complied.value:.0f} %</text>'
    for name, rail in (("kept", KEPT), ("task", TASK)):
        if share := _estimate(results, attack, defence, name):
            middle = rail[0] + share.value * (rail[1] - rail[0])
            yield f'<line x1="{rail[0]}" x2="{rail[1]}" y1="{top + 10.5}" y2="{top + 10.5}" class="rail"/>'
            yield _interval(share, rail, top)
            yield f'<circle cx="{middle:.1f}" cy="{top + 10.5}" r="4.5" class="dot"/>'
            yield (
                f'<text x="{rail[0] - 10}" y="{top + 15}" text-anchor="end" class="small">{100 * share.value:.0f} %</text>'
            )


def _interval(share: Estimate, ends: tuple[int, int], top: int) -> str:
    low, high = (ends[0] + value * (ends[1] - ends[0]) for value in (share.low, share.high))
    return f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{top + 10.5}" y2="{top + 10.5}" class="line"/>'


def _task(attack: str) -> tuple[str, str]:
    return TASKS.get(settings_of(attack).get("task", attack), ("", ""))


def _estimate(results: Results, attack: str, defence: str, name: str) -> Estimate | None:
    """``name``: an outcome of harmful requests, *kept*, or *task*."""
    if name == "kept":
        return results.mean(harmless_figures(results)["kept"], attack, defence)
    if name in OUTCOMES:
        return results.mean(harmful_figures(results)[f"harmful {name}"], attack, defence)
    figure = task_figures(results).get(_task(attack)[0])
    return results.mean(figure, attack, defence) if figure else None
