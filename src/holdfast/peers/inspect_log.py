"""An audit as a log of inspect: `inspect view` shows it, and whatever reads such logs can go on from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast._version import __version__
from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.data import read_answer_lines, read_audit
from holdfast.records import AuditResult, Figure, suite_of

TASK = "holdfast_audit"


def write_inspect_log(audit: str | Path, log: str | Path) -> Path:
    """Write the audit in the folder ``audit`` to the file ``log`` (.eval or .json) and return its path.

    Every answer is a sample, every figure a scorer. Where the audit kept only hashes of requests and answers, these stand in
    their place. Raises ``InputError`` if the folder holds no audit, or inspect is not installed.
    """
    need_extra("inspect", "a log of inspect", "inspect_ai")
    folder, target = Path(audit), Path(log)
    if target.suffix not in (".eval", ".json"):
        raise InputError(f"{target}: expected a name that ends in .eval or .json")
    result = read_audit(folder / "audit.json")
    lines = read_answer_lines(folder / "completions.jsonl")
    ended = datetime.fromtimestamp((folder / "audit.json").stat().st_mtime, UTC)
    from inspect_ai.log import write_eval_log

    target.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(_log(result, lines, ended), str(target.absolute()))
    return target


def _log(result: AuditResult, lines: Sequence[Mapping[str, Any]], ended: datetime) -> Any:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalResults, EvalSpec, EvalStats

    samples = _samples(result, lines)
    identity = hashlib.sha256(json.dumps(result.to_json(), sort_keys=True).encode()).hexdigest()[:22]
    began = ended - timedelta(seconds=result.seconds)
    ids = [sample.id for sample in samples]
    spec = EvalSpec(
        eval_id=identity,
        run_id=identity,
        task_id=identity,
        created=began.isoformat(),
        task=TASK,
        dataset=EvalDataset(name="; ".join(result.sources) or None, samples=len(ids), sample_ids=ids),
        model=result.model,
        config=EvalConfig(),
        packages={"holdfast": __version__},
        metadata={"judges": list(result.judges), "anchor": result.anchor, "settings": result.settings},
    )
    scores = [_score(figure) for figure in result.figures]
    bars = [bar.to_json() for bar in result.bars]
    results = EvalResults(
        total_samples=len(ids),
        completed_samples=len(ids),
        scores=scores,
        metadata={"passed": result.passed, "bars": bars},
    )
    stats = EvalStats(started_at=began.isoformat(), completed_at=ended.isoformat())
    return EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)


def _score(figure: Figure) -> Any:
    """A figure with the ends of its interval, as three metrics of a scorer."""
    from inspect_ai.log import EvalMetric, EvalScore

    values = {"mean": figure.value, "low_95": figure.low, "high_95": figure.high}
    metrics = {name: EvalMetric(name=name, value=value) for name, value in values.items()}
    metadata = {"meaning": figure.meaning, "better": figure.better, "method": figure.estimate.method}
    scored, unscored = figure.trials - figure.unscored, figure.unscored
    return EvalScore(
        name=figure.key,
        scorer=figure.key,
        scored_samples=scored,
        unscored_samples=unscored,
        metrics=metrics,
        metadata=metadata,
    )


def _samples(result: AuditResult, lines: Sequence[Mapping[str, Any]]) -> list[Any]:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput

    by_suite: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_suite.setdefault(str(line["suite"]), []).append(line)
    samples = []
    for suite, answers in by_suite.items():
        of_suite = [figure for figure in result.figures if suite_of(figure.name, by_suite) == suite]
        scored = [(figure, scores) for figure in of_suite if len(scores := figure.by_row) == len(answers)]
        for number, line in enumerate(answers):
            request = str(line.get("request") or f"(request not kept; sha256 {line['request_sha256']})")
            reply = str(line.get("answer") or f"(answer not kept; sha256 {line['answer_sha256']})")
            samples.append(
                EvalSample(
                    id=f"{suite}/{number + 1:0{len(str(len(answers)))}d}",  # inspect sorts them as texts
                    epoch=1,
                    input=request,
                    target="",
                    messages=[
                        ChatMessageUser(content=request),
                        ChatMessageAssistant(content=reply, model=result.model),
                    ],
                    output=ModelOutput.from_content(result.model, reply),
                    scores=_sample_scores(scored, number, line.get("verdicts") or {}),
                    metadata={"suite": suite, "finish_reason": line.get("finish_reason")},
                )
            )
    return samples


def _sample_scores(
    scored: Sequence[tuple[Figure, Sequence[float]]], number: int, verdicts: Mapping[str, str]
) -> dict[str, Any]:
    from inspect_ai.scorer import Score

    return {
        figure.key: Score(
            value=scores[number],
            answer=verdicts.get(figure.judge) or ", ".join(verdicts.values()),
            explanation=figure.meaning,
            metadata={"better": figure.better},
        )
        for figure, scores in scored
    }
