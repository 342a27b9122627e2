"""Ask an arm and measure it: responses to problems, figures along training, gradients by role."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.diagnostics import Judged, Transcript, attribute_transcripts, judge
from holdfast.generation import generate
from holdfast.models import LoadedModel, load
from holdfast.records import context
from holdfast_studies.decisions.checking_config import CheckingConfig
from holdfast_studies.decisions.products import split_words, stated
from holdfast_studies.worlds.arithmetic import Size
from holdfast_studies.worlds.arithmetic_text import checked_problems

Problem = tuple[str, str]
Row = dict[str, Any]
FORM = "form"
SHOWN = ("observed", "p_s", "p_s_pooled", "p_dC", "p_dW", "echo", "cut_off")


def start_of(config: CheckingConfig) -> str:
    """The model that every arm starts from: the pretrained one, or the one that was taught the form."""
    return config.model if config.form is None else str(Path(config.run) / FORM / "run" / "model")


class Readers:
    """Two copies of the base model in float32, loaded when needed. One never changes, the other takes an arm's weights."""

    def __init__(self, config: CheckingConfig) -> None:
        self.config = config

    @cached_property
    def base(self) -> LoadedModel:
        """The untouched model, the reference of every KL."""
        return load(start_of(self.config), dtype="float32", device=self.config.device)

    @cached_property
    def arm(self) -> LoadedModel:
        """The copy that takes the weights of a model in training. It has gradients for the parameters that the config names."""
        loaded = load(start_of(self.config), dtype="float32", device=self.config.device)
        patterns = self.config.curve.parameters
        for name, weights in loaded.model.named_parameters():
            weights.requires_grad_(any(fnmatchcase(name, pattern) for pattern in patterns))
        if not any(weights.requires_grad for weights in loaded.model.parameters()):
            raise InputError(f"curve.parameters: no parameter is called {' or '.join(patterns)}")
        return loaded

    def holding(self, model: Any) -> LoadedModel:
        """``arm`` with this model's weights."""
        self.arm.model.load_state_dict(model.state_dict())
        return self.arm


def ask(
    loaded: LoadedModel,
    problems: Sequence[Problem],
    config: CheckingConfig,
    max_new_tokens: int,
    *,
    num: int,
    seed: int,
) -> list[Row]:
    """Sample ``num`` responses to every problem, with the model's own chat template."""
    repeated = [problem for problem in problems for _ in range(num)]
    drawn = generate(
        loaded.model,
        loaded.tokenizer,
        [(context("user", request),) for request, _ in repeated],
        max_new_tokens=max_new_tokens,
        temperature=config.temperature,
        seed=seed,
        batch_size=config.eval_batch,
    )
    return [
        {"prompt": request, "response": reply.text, "answer": answer, "stopped": reply.finish_reason == "stop"}
        for (request, answer), reply in zip(repeated, drawn, strict=True)
    ]


def transcripts(rows: Sequence[Row]) -> list[Transcript]:
    """The rows as the diagnostics read them."""
    return [
        Transcript(row["prompt"], row["response"], row["answer"], row["stopped"], row.get("size", "")) for row in rows
    ]


def judged(rows: Sequence[Row]) -> Judged:
    """Judge every attempt of every response against the product."""
    return judge(transcripts(rows), split_words, stated)


def answer_test(config: CheckingConfig, seed: int, loaded: LoadedModel) -> list[Row]:
    """Sample responses to the test problems of every size, which are the same for all arms of a seed."""
    by_size = {
        size: checked_problems([Size.read(size)], config.num_test, "test", seed=f"{seed}/{size}")
        for size in config.eval_sizes
    }
    sizes = [size for size, problems in by_size.items() for _ in problems]
    problems = [problem for size in by_size for problem in by_size[size]]
    rows = ask(loaded, problems, config, config.max_new_tokens, num=1, seed=seed)
    return [{**row, "size": size} for row, size in zip(rows, sizes, strict=True)]


def point(config: CheckingConfig, readers: Readers, loaded: LoadedModel, step: int) -> Row:
    """Figures on the validation problems after so many steps, and gradients by role on the model's own responses."""
    how = config.curve
    problems = checked_problems(config.sizes, how.num_problems, "validation", seed="validation")
    figures = judged(ask(loaded, problems, config, config.max_train_tokens, num=1, seed=step)).calibrate(draws=200)
    shown = {name: getattr(figures, name).to_json() for name in SHOWN}
    return {"step": step, **shown, "gradients": _gradients(config, readers, loaded, problems, step)}


def _gradients(
    config: CheckingConfig, readers: Readers, loaded: LoadedModel, problems: Sequence[Problem], step: int
) -> Row:
    """For each objective the norms of the gradients from sampling and from deciding tokens, and their shares of the whole."""
    how = config.curve
    if not how.gradient_problems:
        return {}
    few = problems[: how.gradient_problems]
    rows = ask(loaded, few, config, config.max_train_tokens, num=how.gradient_samples, seed=step + 1)
    rows = [row for row in rows if row["response"].strip()]
    if not rows:
        return {}
    attributed = attribute_transcripts(
        loaded, transcripts(rows), anchor=readers.base, objectives=how.objectives, extract="words", growth=False
    )
    by_objective: Row = {}
    for part in attributed.attribution.rows:
        by_objective.setdefault(part.objective, {})[part.role] = {"norm": part.norm, "share": part.share}
    return by_objective
