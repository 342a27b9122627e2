"""The arithmetic studies' figures for [004]'s tables: read from what `holdfast diagnose decisions ... --json` wrote.

Training those models takes longer than a study of the ledger may, so the ledger reads their results instead of making them
anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast_studies.papers.study import ClaimVerdict, Figures, verdict_of

RESULTS = Path("docs/results/decisions")
RL, SFT, PLAIN, DFT, BASE = "grpo", "sft_reflection", "sft_plain", "dft_reflection", "base"
OWN = "sft_own"
"""SFT on the base model's own right responses: the control that tells the objective from the data."""
CHECKING = "checking"
"""The study on a pretrained model: `python -m holdfast_studies.decisions run ... report=docs/results/decisions/checking.json`."""
STUDIES = ("micro", "fused", "beside", "h200")
"""Every study that trains RL and SFT from one base model."""
TRAINED = {"h200": ("4x5", "5x4")}
"""The sizes that post-training sees, where they are not 4x1 and 5x1 (`studies/configs/arithmetic/`)."""
LEARNED = 0.5
"""An SFT that is right less often than this at its own training size did not learn: there is nothing to compare RL with."""
RATES = ("observed", "observed_stopped", "p_s", "p_dC", "p_dW", "echo", "wrong_to_right")


def read_runs(*names: str, folder: Path | None = None) -> Figures:
    """For every study that is there its sizes; for each model and size the rates, their intervals and the seeds one by one."""
    paths = {name: (folder or RESULTS) / f"{name}.json" for name in names}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    if not found:
        first = names[0]
        raise InputError(
            f"{paths[first]}: not there; make it with `holdfast diagnose decisions"
            f" studies/configs/arithmetic/{first}.yaml --json FILE`"
        )
    return {name: _short(name, report["cells"], report.get("trained")) for name, report in found.items()}


def _short(name: str, cells: Iterable[dict[str, Any]], trained: list[str] | None) -> dict[str, Any]:
    models: dict[str, dict[str, Any]] = {}
    for cell in cells:
        row: dict[str, Any] = {name: _rounded(cell[name]) for name in RATES}
        row["by_seed"] = [round(value, 4) for value in cell["accuracy_by_seed"]]
        row["held_out_error"] = None if cell["held_out_error"] is None else round(cell["held_out_error"], 4)
        models.setdefault(cell["model"], {})[cell["size"]] = row
    sizes = list(next(iter(models.values())))
    return {"sizes": sizes, "trained": trained or list(TRAINED.get(name, ("4x1", "5x1"))), "models": models}


def _rounded(estimate: dict[str, Any]) -> list[float] | None:
    """[value, low, high], or None where the data cannot say it."""
    if estimate["value"] is None:
        return None
    return [round(estimate.get(name, estimate["value"]), 4) for name in ("value", "low", "high")]


def rate(study: dict[str, Any], model: str, size: str, name: str = "observed") -> float | None:
    """One value of a study; None where the data cannot say it."""
    figure = study["models"][model][size][name]
    return None if figure is None else float(figure[0])


def shown(study: dict[str, Any], model: str, name: str = "observed") -> str:
    """Per cent by size: '96, 49, 0'."""
    values = [rate(study, model, size, name) for size in study["sizes"]]
    return ", ".join("-" if value is None else f"{100 * value:.0f}" for value in values)


def opponent(study: dict[str, Any]) -> str:
    """The SFT on reflecting responses that RL is compared with: of several settings the best at the hardest size."""
    settings: list[str] = [model for model in study["models"] if model not in (RL, PLAIN, DFT, BASE)]
    return max(settings, key=lambda model: rate(study, model, study["sizes"][-1]) or 0.0)


def unseen(study: dict[str, Any]) -> list[str]:
    """The sizes that post-training did not see: out of distribution."""
    return [size for size in study["sizes"] if size not in study["trained"]]


def fault(study: dict[str, Any]) -> str | None:
    """Why this study can say nothing about RL against SFT; None if it can.

    It can if a training size was evaluated, and there SFT has learned its task and RL is not below its base model.
    """
    seen = [size for size in study["trained"] if size in study["sizes"]]
    size, sft = (seen or study["sizes"])[0], opponent(study)
    theirs, ours, base = (rate(study, model, size) or 0.0 for model in (sft, RL, BASE))
    if not seen:
        trained = ", ".join(study["trained"])
        return f"its training sizes {trained} were not evaluated (at {size} SFT {theirs:.0%}, RL {ours:.0%}, base {base:.0%})"
    if theirs < LEARNED:
        return f"{sft} did not learn its training size ({theirs:.0%} at {size})"
    if ours < base:
        return f"RL is below its base model at its training size ({ours:.0%} against {base:.0%} at {size})"
    return None


def control_fault(study: dict[str, Any]) -> str | None:
    """Why this study can say nothing about RL against the control; None if it can.

    It can if a training size was evaluated, and neither RL nor the control is broken there (right on nothing) or below the base.
    """
    seen = [size for size in study["trained"] if size in study["sizes"]]
    if not seen:
        return f"its training sizes {', '.join(study['trained'])} were not evaluated"
    means = {model: sum(rate(study, model, size) or 0.0 for size in seen) / len(seen) for model in (BASE, RL, OWN)}
    for model in (RL, OWN):
        if means[model] == 0:
            return f"{model} is broken: right on nothing at its training sizes"
        if means[model] < means[BASE]:
            return (
                f"{model} is below its base model at its training sizes ({means[model]:.0%} against {means[BASE]:.0%})"
            )
    return None


def judged(
    figures: Figures,
    rule: Callable[[dict[str, Any]], bool | None],
    words: Callable[[dict[str, Any]], str],
    need: str,
    check: Callable[[dict[str, Any]], str | None] = fault,
) -> tuple[ClaimVerdict, str]:
    """The verdict over all studies and a sentence that tells each study's own.

    Holds if the rule does in every study that can say, in part if in some. A study that ``check`` finds at fault is named and
    left out; ``rule`` may return None where a rate is not known. If none is left, ``need`` says what would be needed.
    """
    answers, clauses = [], []
    for name, study in figures.items():
        problem = check(study)
        answer = None if problem else rule(study)
        if problem:
            clauses.append(f"{name} is left out: {problem}")
        else:
            own = "cannot say" if answer is None else "holds" if answer else "does not hold"
            clauses.append(f"{name} ({own}): {words(study)}")
        answers += [] if answer is None else [answer]
    text = "; ".join(clauses)
    if not answers:
        return "not testable here", f"needed: {need}; {text}"
    return verdict_of(answers), text


def last_sound(figures: Figures) -> dict[str, Any] | None:
    """The last study that is not at fault, for the figure beside the sentence."""
    sound = [study for study in figures.values() if fault(study) is None]
    return sound[-1] if sound else None
