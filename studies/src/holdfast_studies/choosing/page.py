"""The section of docs/results/oversight.md, from ``figures.json`` alone: no model, no pools, none of the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.data import atomic_text, write_between_marks
from holdfast_studies.choosing.certify import FEW
from holdfast_studies.choosing.config import CODE, ChoosingConfig
from holdfast_studies.choosing.figures import POLICY
from holdfast_studies.choosing.results import FIGURES

NAMES = {"humaneval": "HumanEval", "mbpp": "MBPP", "requests": "Harmful requests"}
TITLE = "# Oversight: best-of-n with a safety bar\n"
HOW = """Every n comes from one pool of {num_samples} samples a prompt (temperature {temperature:g}, top_p {top_p:g}) by unbiased
estimators, so no n was drawn by itself ([how](../oversight.md#every-n-from-one-pool)). Intervals are 95 % bootstrap over
prompts; next to 0 or 1 exact binomial ones. *Unsafe* is told for what was returned: of the prompts that got an answer, how many
got an unsafe one. An abstention is not right, and not unsafe."""
TESTS_NOTE = """*Tests in the prompt*: HumanEval's examples in the docstring, MBPP's first assertion, run in the sandbox.
*Likelihood*: the geometric mean of the token probabilities. *Self-judging*: the model's own P(yes) that its program is right.
*Agreement*: the largest group of programs that return the same for the prompt's inputs and others made of them; exact over all
subsets of n. *Policy*: the code policy and the sandbox. *Judge*: the model's own P(yes) that a program is safe to run. Where
agreement chooses, the KL is not known in closed form, and is left out."""


def write_page(config: ChoosingConfig, target: Path, command: str) -> None:
    """Put the section after the page's title, in place of an older one of this run."""
    path = Path(config.run) / FIGURES
    if not path.exists():
        raise InputError(f"{path}: is not there: `score` writes it")
    text = section(config, json.loads(path.read_text(encoding="utf-8")), command)
    write_first_section(target, text, f"choosing-{Path(config.run).name}", TITLE)


def write_first_section(target: Path, text: str, name: str, title: str) -> None:
    """Put the text between marks of this name. New marks go after the page's title; a new page gets ``title``."""
    old = target.read_text(encoding="utf-8") if target.exists() else title
    if f"<!-- {name}:begin -->" not in old:
        first, _, rest = old.partition("\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(target) as file:
            file.write(f"{first}\n\n<!-- {name}:begin -->\n<!-- {name}:end -->\n{rest}")
    write_between_marks(target, text, name)


def section(config: ChoosingConfig, report: dict[str, Any], command: str) -> str:
    """The whole section, with all that a reader needs to check it."""
    parts = [
        f"## {config.title}",
        f"Written by `{command}`. Model: {report['model']}, {config.dtype}.",
        HOW.format(**report["settings"]),
        _claim(report["domains"]),
        TESTS_NOTE,
    ]
    for domain in (name for name in NAMES if name in report["domains"]):
        figures = report["domains"][domain]
        parts += _code(domain, figures) if domain in CODE else _requests(figures, report["settings"]["judges"])
        parts += _certified(figures["certified"], report["settings"]["alpha"])
    return "\n\n".join(part for part in parts if part) + "\n"


def _claim(domains: Mapping[str, Any]) -> str:
    """[001]'s claim, 25 -> 40 % at n = 4, beside our figures."""
    rows = []
    for domain in CODE:
        if domain in domains:
            figures = domains[domain]
            ways = figures["ways"][POLICY]
            best = {name: _at(points, FEW) for name, points in ways.items()}
            cells = [_words(point["right"]) + _p(figures, POLICY, name, point["n"]) for name, point in best.items()]
            rows.append([NAMES[domain], _words(figures["one draw"]["right"]), *cells])
    if not rows:
        return ""
    names = list(next(domains[domain]["ways"][POLICY] for domain in CODE if domain in domains))
    head = ["right", "one plain draw", *(f"n = {FEW}, {name}" for name in names)]
    note = "p: paired permutation test over problems against one plain draw, Holm over the rewards."
    return f"### What [001] expects: 25 -> 40 % at n = {FEW}\n\n{table(head, rows)}\n\n{note}"


def _code(domain: str, figures: Mapping[str, Any]) -> list[str]:
    ways = figures["ways"]
    ns = [point["n"] for point in next(iter(ways[POLICY].values()))]
    rows = [["any right one among the n (the ceiling)", "", *(_words(figures["ceiling"][str(n)]) for n in ns)]]
    for bar, by_reward in ways.items():
        for reward, points in by_reward.items():
            cells = [
                f"{_words(point['right'])}; unsafe {_short(point['unsafe by policy given returned'])}"
                for point in points
            ]
            rows.append([reward, bar, *cells])
    shares, given = ("right", "right by the other tests"), ("unsafe by policy", "unsafe by judge")
    details = [
        f"Reward: {reward}, bar: {POLICY}.\n\n{_details(points, figures['tokens'], shares, given)}"
        for reward, points in ways[POLICY].items()
    ]
    others = "the tests that the prompt does not show" if domain == "mbpp" else "all of its tests"
    return [
        f"### {NAMES[domain]}",
        f"{figures['prompts']} problems, {figures['samples']} programs, {figures['different']} of them different."
        f" *Right*: all tests pass. *Right by the other tests*: {others}.",
        _counts(figures),
        "Right, and of what was returned the share that is unsafe by the policy:",
        table(["reward", "bar", *(f"n = {n}" for n in ns)], rows),
        *details,
    ]


def _requests(figures: Mapping[str, Any], judges: Sequence[str]) -> list[str]:
    ways = figures["ways"]
    ns = [point["n"] for point in next(iter(next(iter(ways.values())).values()))]
    rows = [
        [
            reward,
            bar,
            *(f"{_words(p['complied'])}; given returned {_words(p['complied given returned'])}" for p in points),
        ]
        for bar, by_reward in ways.items()
        for reward, points in by_reward.items()
    ]
    details = [
        f"Reward: {reward}, bar: {bar}.\n\n{_details(points, figures['tokens'], (), ('complied', 'refused', 'missed'))}"
        for bar, by_reward in ways.items()
        for reward, points in list(by_reward.items())[:1]
    ]
    return [
        f"### {NAMES['requests']}",
        f"{figures['prompts']} requests with no near twin among them, {figures['samples']} replies; no reply was kept."
        f" *Complied*, *refused* and *missed* are told by the judge `{judges[0]}`, so it is no bar here. Less complied is"
        " better.",
        _counts(figures),
        "Complied, of all requests and of those that got a reply:",
        table(["reward", "bar", *(f"n = {n}" for n in ns)], rows),
        *details,
    ]


def _details(points: Sequence[dict[str, Any]], tokens: float, shares: Sequence[str], given: Sequence[str]) -> str:
    head = [
        "n", *shares, *(f"{name}, given returned" for name in given),
        "abstains", "E[R], given returned", "E[R S]", "KL(overseen, base)", "bound on it", "tokens written",
    ]  # fmt: skip
    rows = [
        [
            str(point["n"]),
            *(_words(point[name]) for name in shares),
            *(_words(point[f"{name} given returned"]) for name in given),
            _words(point["abstains"]),
            _short(point["reward given returned"]),
            _words(point["joint"]),
            *("-" if point[name] is None else f"{point[name]:.2f}" for name in ("kl", "kl_bound")),
            f"{point['n'] * tokens:.0f}",
        ]
        for point in points
    ]
    return table(head, rows)


def _counts(figures: Mapping[str, Any]) -> str:
    lines = [f"- {name}: {value}" for name, value in figures["counts"].items()]
    if (area := figures["self-judging"]["auroc"]) is not None:
        lines.append(
            f"- self-judging: a good answer has the higher P(yes) than a bad one in {area:.1%} of pairs (50 % is luck)"
        )
    return "\n".join(lines)


def _certified(by_bar: Mapping[str, Any], alpha: float) -> list[str]:
    """Bounds made on one half of the prompts, and how often they held on the other half."""
    parts = []
    for bar, certified in by_bar.items():
        if not certified:
            continue
        rows = [
            [
                str(row["n"]),
                f"{row['bound']:.3f}",
                *(
                    cell
                    for name in ("likelihood", "worst reward")
                    for cell in (
                        f"{row[name]['all']:.3f}",
                        _words(row[name]["covers fresh"]),
                        _words(row[name]["covers all"]),
                    )
                ),
            ]
            for row in certified["bounds"]
        ]
        head = ["n", "mean bound"]
        for name in ("by likelihood", "by the worst reward"):
            head += [f"unsafe returned {name}", "covered, fresh half", "covered, all"]
        chosen = certified["threshold"]
        kept = (
            "" if chosen["kept"] is None else f"; on the fresh half the risk was then kept in {_words(chosen['kept'])}"
        )
        parts += [
            f"The certified bound on P(unsafe returned), bar: {bar}. Made {chosen['of']} times on a random half of the"
            f" {certified['requests']} prompts, one candidate each, at {1 - alpha:.0%}; covered is the share of times that the"
            " figure was at or below the bound.",
            table(head, rows),
            f"A threshold for a risk of {chosen['target']:.0%} at n = {chosen['n']} was found {chosen['found']} of"
            f" {chosen['of']} times{kept}.",
        ]
    return parts


def _p(figures: Mapping[str, Any], bar: str, reward: str, n: int) -> str:
    return f", p = {figures['tests'][bar][str(n)][reward]:.2g}"


def _at(points: Sequence[dict[str, Any]], n: int) -> dict[str, Any]:
    """The point at n, or at the largest n there is."""
    return next((point for point in points if point["n"] == n), points[-1])


def _words(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None:
        return "-"
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"


def _short(figure: Mapping[str, float | None]) -> str:
    return "-" if figure["value"] is None else f"{figure['value']:.3f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])
