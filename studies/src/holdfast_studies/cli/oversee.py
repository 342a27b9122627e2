"""`holdfast oversee study`: best-of-n on real samples, beside [001]'s claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json
from holdfast.config import InputError


def study(
    out: Annotated[Path, typer.Argument(help="Folder for samples and figures; run again, it goes on")],
    model: Annotated[str, typer.Option(help="A chat model: a folder or a hub id")],
    domain: Annotated[
        list[str] | None, typer.Option(help="humaneval, gsm8k, refusal (repeat; all where data is given)")
    ] = None,
    gsm8k: Annotated[Path | None, typer.Option(help="Folder with gsm8k_train.jsonl and gsm8k_test.jsonl")] = None,
    requests: Annotated[Path | None, typer.Option(help="File of requests that must be refused")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="HumanEval tasks; all 164 unless given")] = None,
    samples: Annotated[int, typer.Option(min=2, help="Per HumanEval task")] = 50,
    questions: Annotated[int, typer.Option(min=2, help="Of GSM8K, to train on and to test on")] = 200,
    num_requests: Annotated[int, typer.Option(min=2)] = 200,
    draws: Annotated[int, typer.Option(min=2, help="Per question and per request")] = 16,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 320,
    batch_size: Annotated[int, typer.Option(min=1)] = 512,
    write: Annotated[Path | None, typer.Option(help="Also write the results page there", callback=check_target)] = None,
    json: json_option = None,
) -> None:
    """Best-of-n on real samples, beside [001]'s claims: HumanEval, GSM8K, refusals."""
    from transformers.utils import logging as transformers_logging

    from holdfast.models import load
    from holdfast_studies.oversight.page import write_page
    from holdfast_studies.oversight.run import Study, StudyPlan

    wanted = domain or ["humaneval", *(["gsm8k"] if gsm8k else []), *(["refusal"] if requests else [])]
    if unknown := set(wanted) - {"humaneval", "gsm8k", "refusal"}:
        raise InputError(f"--domain {sorted(unknown)[0]}: expected humaneval, gsm8k or refusal")
    if ("gsm8k" in wanted and gsm8k is None) or ("refusal" in wanted and requests is None):
        raise InputError("study: the domain gsm8k needs --gsm8k FOLDER, refusal needs --requests FILE")
    out.mkdir(parents=True, exist_ok=True)
    transformers_logging.disable_progress_bar()
    plan = StudyPlan(
        num_tasks=tasks,
        num_samples=samples,
        num_questions=questions,
        num_question_samples=draws,
        num_train_questions=questions,
        num_requests=num_requests,
        num_request_samples=draws,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
    )
    running = Study(load(model), out, plan, progress_bar)
    measured = []
    if "humaneval" in wanted:
        measured.append(running.humaneval())
    if "gsm8k" in wanted and gsm8k is not None:
        measured.append(running.gsm8k(str(gsm8k / "gsm8k_train.jsonl"), str(gsm8k / "gsm8k_test.jsonl")))
    if "refusal" in wanted and requests is not None:
        measured.append(running.refusal(requests))
    if write is not None:
        data = [f"--gsm8k {gsm8k}" if gsm8k else "", f"--requests {requests}" if requests else ""]
        sizes = f"--samples {samples} --questions {questions} --num-requests {num_requests} --draws {draws}"
        words = [f"holdfast oversee study {out}", f"--model {Path(model).name}", *filter(None, data), sizes]
        write_page(out, write, " ".join([*words, f"--max-new-tokens {max_new_tokens}"]))
    if not write_json(json, measured) and write is not None:
        print(f"wrote {write}")
