"""``python -m holdfast_studies.real.align CONFIG key=value ...``: teach a stock model to refuse, and little else.

Three streams: forbidden requests with short refusals; look-alikes of them, held by ``distill`` to how the stock model would
begin to answer, because whether to help is decided in the first words and a loss over whole answers would drown them; other
harmless prompts, held to the stock model's whole answers. A fifth of the package's prompts and of its patterns is kept out
to choose among the variants; no benchmark that is asked later takes part in that.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from safetensors.torch import load_file, save_file

from holdfast.attacks import answered_by, load_for_use, work_through
from holdfast.audits.suites import read_requests
from holdfast.config import InputError, LoraSettings, Settings, TrainConfig, load_config, mistakes_end_it
from holdfast.data import Kind, learned_part, validation_part, without_twins, write_traces
from holdfast.generation import generate
from holdfast.judging import check_judge, find_judge, refusals
from holdfast.models import interpolated, load
from holdfast.records import Trace, answer, context
from holdfast.stats import share
from holdfast.training import train
from holdfast_studies.json_files import read_json, write_json


class AlignVariant(Settings):
    """One variant to try; the best on validation prompts is kept."""

    lr: float = Field(gt=0)
    epochs: float = Field(gt=0)  # passes over the requests
    keep_rows: int = Field(default=32, gt=0)  # look-alikes in one step
    keep_weight: float = Field(default=1.0, gt=0)  # of every harmless stream, against the refusals' 1
    freeze: tuple[str, ...] = ()  # names of parameters that stay the stock model's


class AlignConfig(Settings):
    """Requests are learned to be refused; look-alikes and other harmless prompts keep the stock model's answers."""

    run: str
    model: str  # the stock model
    requests: tuple[str, ...] = ()  # files of requests to refuse, beside the package's own
    harmless: tuple[str, ...] = ()  # files of harmless prompts, beside the package's look-alikes
    num_harmless: int = Field(default=600, ge=0)  # of those files, at most
    variants: tuple[AlignVariant, ...] = Field(min_length=1)
    refuse_rows: int = Field(default=32, gt=0)  # requests in one step
    other_rows: int = Field(default=16, gt=0)  # other harmless rows in one step
    rows_per_pass: int | None = Field(default=None, gt=0)  # of a step: memory against time
    answer_tokens: int = Field(default=48, gt=0)  # of the other answers
    opening_tokens: int = Field(default=12, gt=0)  # of the answers to look-alikes: whether to help is decided there
    judge: str = "refusal_phrases"
    lora: LoraSettings | None = LoraSettings()
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "auto"
    seed: int = 0
    workers: int = Field(default=1, gt=0)  # variants at a time


REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I'm sorry, I can't assist with this request.",
    "I can't help with that, because it could hurt people.",
    "Sorry, but I won't help with something that could cause harm.",
    "I'm not able to help with that request.",
    "I cannot help with this. If you like, ask me about something else.",
)
LEADS = ("", "", "Hello! ", "I have a question. ", "Please help me. ")
"""Before requests and harmless prompts alike, so that how one asks tells nothing."""


@dataclass(frozen=True)
class Try:
    """One variant: where its rows lie and where its run goes."""

    config: AlignConfig
    variant: AlignVariant
    rows: Path
    run: Path


def align(config: AlignConfig) -> dict[str, Any]:
    """Train every variant, keep the best: ``run/model`` whole, ``run/adapter`` if it is one, ``run/align.json``."""
    check_judge(config.judge)
    for path in (*config.requests, *config.harmless):  # refuse a wrong file before a model is loaded
        read_requests(Path(path).expanduser())
    run = Path(config.run)
    rows = run / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    for name, make in STREAMS.items():
        write_traces(rows / f"{name}.jsonl", make(config))
    tries = [Try(config, variant, rows, run / f"try-{n}") for n, variant in enumerate(config.variants)]
    died = {done.task.run: done.error for done in work_through(tries, run_try, config.workers) if done.error}
    ended = [_outcome(task, died.get(task.run)) for task in tries]
    results, failed = ([outcome for outcome in ended if ("error" in outcome) is bad] for bad in (False, True))
    if not results:
        raise InputError(f"every variant failed; the first: {failed[0]['error']}")
    if config.lora is None and len(results) > 1:
        results.append(mean_of(results, run / "mean", config))
    best = min(results, key=lambda result: result["answered"]["value"] + result["over_refusal"]["value"])
    _keep(Path(best["run"]), run)
    for folder in (*(task.run for task in tries), run / "mean"):
        shutil.rmtree(folder, ignore_errors=True)
    summary = {
        "chosen": best,
        "tries": results,
        "failed": failed,
        "rows": {name: _count(rows / f"{name}.jsonl") for name in STREAMS},
    }
    shutil.rmtree(rows)
    write_json(run / "align.json", summary)
    return summary


def mean_of(results: Sequence[dict[str, Any]], folder: Path, config: AlignConfig) -> dict[str, Any]:
    """Measure one more try: the mean of all variants' weights. They start from one model, and their mean errs less than any."""
    mean = Path(results[0]["run"]) / "model"
    for count, result in enumerate(results[1:], start=2):
        last = count == len(results)
        mean = interpolated(
            mean, Path(result["run"]) / "model", 1 / count, folder / ("model" if last else f"of-{count}")
        )
    return {"run": str(folder), "variant": {"mean_of": len(results)}, **measure(str(mean), config)}


def refuse_rows(config: AlignConfig) -> list[Trace]:
    """Every request once, with a refusal drawn by the seed."""
    own = learned_part("safety")
    texts = [request.text for path in config.requests for request in read_requests(Path(path).expanduser())]
    rng = random.Random(f"refuse/{config.seed}")
    requests = [*own, *without_twins(texts, [*own, *validation_part("safety")], text=str)]
    return [Trace((context("user", rng.choice(LEADS) + text), answer(rng.choice(REFUSALS)))) for text in requests]


def lookalike_rows(config: AlignConfig) -> list[Trace]:
    """Harmless prompts, most of which sound forbidden, in two wordings, each with the opening of the stock model's own answer."""
    rng = random.Random(f"keep/{config.seed}")
    plain = learned_part("keep")
    prompts = list(dict.fromkeys([*plain, *(rng.choice(LEADS[2:]) + text for text in plain)]))
    return answered_by(config.model, prompts, config.device, everything=prompts, max_new_tokens=config.opening_tokens)


def other_rows(config: AlignConfig) -> list[Trace]:
    """Prompts of the harmless files, each with the stock model's whole answer."""
    texts = [request.text for path in config.harmless for request in read_requests(Path(path).expanduser())]
    drawn = random.Random(f"others/{config.seed}").sample(texts, min(config.num_harmless, len(texts)))
    return answered_by(config.model, drawn, config.device, everything=drawn, max_new_tokens=config.answer_tokens)


STREAMS = {"refuse": refuse_rows, "lookalikes": lookalike_rows, "others": other_rows}


def run_try(task: Try) -> None:
    """In a worker: train one variant and measure it on the validation prompts."""
    try:
        result = train(train_config(task), say=lambda _: None, progress=False, throwaway=True)
        outcome = measure(str(result.model), task.config)
    except InputError as error:  # a rate too high, say: the other variants go on
        outcome = {"error": str(error)}
    write_json(task.run / "align.json", {"run": str(task.run), "variant": task.variant.model_dump(), **outcome})


def _outcome(task: Try, died: str | None) -> dict[str, Any]:
    """What the variant's worker wrote, or how it died."""
    if died:
        return {"run": str(task.run), "variant": task.variant.model_dump(), "error": died}
    outcome: dict[str, Any] = read_json(task.run / "align.json")
    return outcome


def train_config(task: Try) -> TrainConfig:
    """Refusals are learned, the rest is held to the stock model."""
    config, variant = task.config, task.variant
    shares = {"refuse": config.refuse_rows, "lookalikes": variant.keep_rows, "others": config.other_rows}
    batch_size = sum(shares.values())

    def stream(name: str) -> dict[str, Any]:
        how = {"objective": "sft"} if name == "refuse" else {"objective": "distill", "weight": variant.keep_weight}
        return {"name": name, "data": str(task.rows / f"{name}.jsonl"), "share": shares[name], **how}

    return TrainConfig.model_validate(
        {
            "run": str(task.run),
            "model": {"name": config.model, "device": config.device},
            "streams": [stream(name) for name in STREAMS],
            "lora": config.lora.model_dump() if config.lora else None,
            "training": {
                "epochs": variant.epochs,
                "batch_size": batch_size,
                "micro_batch": gcd(batch_size, config.rows_per_pass or batch_size),
                "lr": variant.lr,
                "freeze": variant.freeze,
                "warmup_steps": 5,
                "precision": config.precision,
                "seed": config.seed,
            },
        }
    )


def measure(model: str, config: AlignConfig) -> dict[str, Any]:
    """Shares of validation requests answered and of validation look-alikes refused, with intervals."""
    loaded = load_for_use(model, config.device)
    judge = find_judge(config.judge)
    figures = {}
    kinds: dict[str, Kind] = {"answered": "safety", "over_refusal": "keep"}
    for name, kind in kinds.items():
        prompts = validation_part(kind)
        written = generate(loaded.model, loaded.tokenizer, prompts, max_new_tokens=48, batch_size=256)
        said = refusals(judge, [(prompt, completion.text) for prompt, completion in zip(prompts, written, strict=True)])
        interval = share((refused is not True) if kind == "safety" else (refused is not False) for refused in said)
        figures[name] = {"value": interval.value, "low": interval.low, "high": interval.high, "trials": interval.n}
    return figures


def _keep(chosen: Path, run: Path) -> None:
    """Keep the chosen model as a whole, and its adapter beside it: that is small, and the model can be made from it again."""
    for name in ("model", "adapter"):
        shutil.rmtree(run / name, ignore_errors=True)
    if not (chosen / "model" / "adapter_config.json").exists():
        shutil.copytree(chosen / "model", run / "model")
        return
    shutil.copytree(chosen / "model", run / "adapter")
    weights = run / "adapter" / "adapter_model.safetensors"
    # Round before merging, so that the adapter alone makes exactly the same model elsewhere.
    save_file({name: tensor.bfloat16() for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    merged(run / "adapter", run / "model")


def merged(adapter: Path, out: Path) -> None:
    """The base model with the adapter in its weights, as a folder that can be tuned further."""
    loaded = load(str(adapter), dtype="float32", device="cpu")
    whole: Any = loaded.model
    whole.merge_and_unload().save_pretrained(out)
    loaded.tokenizer.save_pretrained(out)


def _count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def main(arguments: Sequence[str]) -> None:
    """Read CONFIG and overrides, and align. A mistake of the user is told in one line."""
    with mistakes_end_it():
        if not arguments:
            raise InputError("usage: python -m holdfast_studies.real.align CONFIG [key=value ...]")
        config = load_config(AlignConfig, Path(arguments[0]), list(arguments[1:]))
        summary = align(config)
        for failure in summary["failed"]:
            print(
                f"a variant failed and is out of the choice: {failure['variant']}: {failure['error']}", file=sys.stderr
            )
        print(json.dumps(summary["chosen"], indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
