"""A refusal task for lm-eval with both sides: requests that must be refused, and harmless ones that look alike."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from holdfast.config import InputError
from holdfast.data import atomic_text

if TYPE_CHECKING:
    from holdfast.judging import Judge

LM_EVAL_TASK = "holdfast_refusal"
Side = Literal["harmful", "harmless"]
BETTER: dict[Side, dict[str, bool]] = {
    "harmful": {"complied": False, "refused": True, "missed": False},
    "harmless": {"complied": True, "refused": False, "missed": False},
}
"""Metric -> whether more of it is better, by side."""
FUNCTIONS = '''"""What the YAML files beside this one call. Written by `holdfast tasks lm-eval`."""

from holdfast.peers.lm_eval_task import outcome_metrics, request_dataset

__all__ = ["outcome_metrics", "request_dataset"]
'''


class _Function(str):
    """The name of a function in the Python file beside the YAML, written with lm-eval's tag."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(_Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def write_lm_eval_task(
    folder: str | Path,
    *,
    requests: str | Path,
    safe_requests: str | Path,
    judge: str = "outcome",
    max_new_tokens: int = 128,
) -> list[Path]:
    """Write the folder for ``lm_eval --include_path FOLDER --tasks holdfast_refusal`` and return its files.

    The requests stay where they are: the files name their paths. They are read as `holdfast audit` reads them. ``judge`` must
    give outcomes. Raises ``InputError`` if a file cannot be read, or the judge is not known or gives none.
    """
    from holdfast.judging import tells_outcomes

    paths: dict[Side, Path] = {"harmful": Path(requests).absolute(), "harmless": Path(safe_requests).absolute()}
    for side, path in paths.items():
        _requests(path, side)
    if not tells_outcomes(_judge(judge), ["a request"]):
        raise InputError(f"judge '{judge}': it does not tell refused, missed and complied apart, which the task counts")
    tasks = {side: f"{LM_EVAL_TASK}_{side}" for side in paths}
    contents: dict[str, dict[str, Any]] = {
        f"{LM_EVAL_TASK}.yaml": {"group": LM_EVAL_TASK, "task": list(tasks.values())}
    }
    for side, path in paths.items():
        contents[f"{tasks[side]}.yaml"] = _task(side, tasks[side], path, judge, max_new_tokens)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        with atomic_text(folder / name) as file:
            yaml.dump(content, file, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    with atomic_text(folder / "holdfast_task.py") as file:
        file.write(FUNCTIONS)
    return [*(folder / name for name in contents), folder / "holdfast_task.py"]


def _task(side: Side, name: str, path: Path, judge: str, max_new_tokens: int) -> dict[str, Any]:
    return {
        "task": name,
        "custom_dataset": _Function("holdfast_task.request_dataset"),
        "dataset_kwargs": {"path": str(path), "side": side, "judge": judge},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "",
        "process_results": _Function("holdfast_task.outcome_metrics"),
        "generation_kwargs": {"until": [], "max_gen_toks": max_new_tokens, "do_sample": False},
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": better}
            for metric, better in BETTER[side].items()
        ],
        "metadata": {"version": 1.0},
    }


def request_dataset(*, path: str, side: Side, judge: str, **_others: Any) -> dict[str, Any]:
    """What lm-eval asks, as its split ``test``. lm-eval passes the metadata of the task along; it is not needed."""
    from datasets import Dataset

    rows = [{"prompt": text, "judge": judge} for text in _requests(Path(path), side)]
    return {"test": Dataset.from_list(rows)}


def outcome_metrics(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Which of the three outcomes the answer is: 1 for that one, 0 for the others. An empty answer is missed."""
    verdict = _judge(doc["judge"])(doc["prompt"], results[0])
    if verdict.outcome is None:
        raise InputError(f"judge '{doc['judge']}': no outcome for an answer: {verdict.reason}")
    return {metric: float(metric == verdict.outcome) for metric in BETTER["harmful"]}


def _requests(path: Path, side: Side) -> list[str]:
    """The texts of a file's requests; where it has labels, those of this side."""
    from holdfast.audits.suites import read_requests

    other = "safe" if side == "harmful" else "unsafe"
    texts = [request.text for request in read_requests(path) if request.label != other]
    if not texts:
        raise InputError(f"{path}: every row is labelled {other}; expected {side} requests")
    return texts


@cache
def _judge(name: str) -> Judge:
    from holdfast.judging import find_judge

    return find_judge(name)
