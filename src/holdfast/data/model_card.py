"""The model card of a trained model: front matter that model hubs read, and the same facts as tables for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast._version import __version__
from holdfast.data.hub import is_hub_name
from holdfast.records import AuditResult, Change, Figure
from holdfast.records.audit_words import bar_lines, cautions
from holdfast.stats import Estimate
from holdfast.stats.estimate import finite_or_none

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData

NOT_KEPT = "not recorded"
_HUB_ID = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
_LAST_ROW = ("step", "epoch", "loss", "nll", "reward", "kl")


@dataclass(frozen=True)
class Training:
    """What a run says about itself. ``data`` and ``last`` are as in ``data.json`` and the last row of ``steps.jsonl``."""

    run: str
    model: str  # that the run began with
    config: str  # the YAML
    data: Sequence[Mapping[str, Any]]
    last: Mapping[str, Any]
    is_adapter: bool = False


@dataclass(frozen=True)
class Audited:
    """The audit of the trained model, and the audit before training if there is one.

    ``changes``: by figure, how much worse the trained model is, paired by request.
    """

    after: AuditResult
    before: AuditResult | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)


def card_text(training: Training, audited: Audited | None = None) -> str:
    """The whole README.md. ``huggingface_hub.ModelCard`` reads it back."""
    name = Path(training.run).name
    parts = [
        f"# {_safe(name)}",
        f"Trained with holdfast {__version__} from {_code(training.model)}.",
        "## Training",
        *(["The loss is weighted by objective; NLL is the plain one."] if "nll" in training.last else []),
        _table(("stream", "objective", "data", "rows", "sha256"), map(_stream_row, training.data)),
        _table(
            ("at the last step", ""),
            ([key, f"{training.last[key]:.6g}"] for key in _LAST_ROW if training.last.get(key) is not None),
        ),
        *(_audit_parts(audited) if audited else ["## Audit", "None yet: `holdfast audit` measures this model."]),
        "## Config",
        f"```yaml\n{training.config.rstrip()}\n```",
    ]
    front = _metadata(training, name, audited).to_yaml(line_break="\n")
    return f"---\n{front}\n---\n\n" + "\n\n".join(parts) + "\n"


def _metadata(training: Training, name: str, audited: Audited | None) -> ModelCardData:
    from huggingface_hub import ModelCardData

    is_local = training.model.startswith("tiny:") or Path(training.model).exists()
    base = None if is_local or not _HUB_ID.fullmatch(training.model) else training.model
    sources = [str(entry["source"]) for entry in training.data]
    hub = sorted({source.removeprefix("hf:").split(":")[0] for source in sources if is_hub_name(source)})
    results = eval_results(audited) if audited else None
    return ModelCardData(
        base_model=base,
        datasets=hub or None,
        eval_results=results,
        library_name="peft" if training.is_adapter else "transformers",
        metrics=list(dict.fromkeys(result.metric_type for result in results)) if results else None,
        model_name=name,
        pipeline_tag="text-generation",
        tags=["holdfast", *sorted({str(entry["objective"]) for entry in training.data})],
    )


def eval_results(audited: Audited) -> list[EvalResult]:
    """One result per figure: its interval, cases, judge and value before training stand in the metric's arguments."""
    return [_eval_result(figure, audited) for figure in audited.after.figures]


def _eval_result(figure: Figure, audited: Audited) -> EvalResult:
    from huggingface_hub import EvalResult

    after = audited.after
    source = figure.source or NOT_KEPT
    hashes = dict(zip(after.sources, after.fingerprints, strict=False))
    args = {**_numbers(figure.estimate), "better": figure.better, "judge": figure.judge or None}
    if figure.corrected is not None:
        args["corrected"] = {"value": figure.corrected.value, **_numbers(figure.corrected)}
    earlier = _before(figure, audited)
    if earlier is not None:
        args["before"] = {"value": earlier.value, **_numbers(earlier.estimate)}
    if figure.key in audited.changes:
        change = audited.changes[figure.key]
        args["worse_by"] = {"value": change.by.value, **_numbers(change.by), "p": change.p, "verdict": change.said}
    return EvalResult(
        task_type="text-generation",
        task_name="Text generation",
        dataset_type=source.rpartition(": ")[0] or source,  # a source ends in ": 20 rows"
        dataset_name=source,
        dataset_revision=hashes.get(source),  # the hub groups figures by it: no two suites share their rows
        metric_type=figure.name,
        metric_name=f"{figure.meaning}, judged by {figure.judge}" if figure.judge else figure.meaning,
        metric_value=figure.value,
        metric_args={key: value for key, value in args.items() if value is not None},
    )


def _numbers(estimate: Estimate) -> dict[str, Any]:
    ends = {"low": finite_or_none(estimate.low), "high": finite_or_none(estimate.high)}
    return {**ends, "n": estimate.n, "interval": f"95 %, {estimate.method}" if estimate.method else "95 %"}


def _before(figure: Figure, audited: Audited) -> Figure | None:
    earlier = audited.before.figures if audited.before else ()
    return next((candidate for candidate in earlier if candidate.key == figure.key), None)


def _audit_parts(audited: Audited) -> list[str]:
    after = audited.after
    said = f"{_code(after.model)} was asked; the interval behind every figure is a 95 % one."
    if audited.before:
        said += f" Before: {_code(audited.before.model)}, asked the same requests. Worse by: paired, above 0 is worse."
    head: tuple[str, ...] = ("figure", "judge", "cases", "before", "after", "worse by")
    if not audited.before:
        head = ("figure", "judge", "cases", "value")
    hashes = (digest[:16] for digest in after.fingerprints)
    sources = _table(("asked", "sha256 of the rows"), zip(after.sources, hashes, strict=False))
    bars = [f"- {_safe(line)}" for line in bar_lines(after)]
    notes = [f"- not measured: {_safe(note)}" for note in after.notes] + [
        f"- {_safe(line)}" for line in cautions(after)
    ]
    lists = ["\n".join(lines) for lines in (bars, notes) if lines]
    return ["## Audit", said, _table(head, (_figure_row(figure, audited) for figure in after.figures)), *lists, sources]


def _figure_row(figure: Figure, audited: Audited) -> list[str]:
    now = [f"{figure.name}: {figure.meaning}", figure.judge, str(figure.trials)]
    value = f"{figure.estimate:.3g}"
    value += f"; {figure.corrected:.3g} {figure.corrected.method}" if figure.corrected else ""
    if audited.before is None:
        return [*now, value]
    earlier, change = _before(figure, audited), audited.changes.get(figure.key)
    worse = "" if change is None else f"{change.by:.3g}: {change.said}"
    return [*now, "" if earlier is None else f"{earlier.estimate:.3g}", value, worse]


def _stream_row(entry: Mapping[str, Any]) -> list[str]:
    return [str(entry[key]) for key in ("stream", "objective", "source", "rows")] + [str(entry["fingerprint"])[:16]]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(map(_safe, head)), ["---"] * len(head), *(list(map(_safe, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _code(text: str) -> str:
    return f"`{_one_line(text).replace('`', chr(39))}`"


def _safe(text: str) -> str:
    """Names come from files and their owners: none of them is markup, and none ends a table's cell."""
    return re.sub(r"([\\|`*_\[\]<>#&])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
