"""RL on products: prompts made by the arithmetic world, or the same problems in plain English (``task: arithmetic``)."""

from __future__ import annotations

from pydantic import Field, ValidationError

from holdfast.config import InputError, RlConfig, Settings
from holdfast.diagnostics import RlTask, find_extractor, lexical_splitter, matching
from holdfast.training import RlPrompt
from holdfast_studies.decisions.products import product_splitter, products
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_text import text_problems
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import problems
from holdfast_studies.worlds.slips import Slips


class ArithmeticPrompts(Settings):
    """The ``task_options`` of ``task: arithmetic``."""

    base: int = Field(default=5, ge=2)
    largest: str = "9x1"
    fused: bool = True
    beside: bool = False  # a check writes the attempt's value beside its own
    max_attempts: int = Field(default=4, gt=0, le=8)
    sizes: tuple[str, ...] = Field(default=("4x1", "5x1"), min_length=1)
    num: int = Field(default=2000, gt=0)
    slip: float = Field(default=0.0, ge=0, lt=1)  # chance that the environment changes a step of an attempt
    text: bool = False  # in plain English, for real models; then base is 10 and there are no slips


def arithmetic(config: RlConfig) -> RlTask:
    """The task of an RL config with ``task: arithmetic``."""
    try:
        made = ArithmeticPrompts.model_validate(config.task_options)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"field 'task_options.{'.'.join(map(str, first['loc']))}': {first['msg']}") from None
    if not made.text:
        world = ArithmeticWorld(made.base, Size.read(made.largest), made.max_attempts, made.fused, made.beside)
        return arithmetic_task(world, made, seed=config.rl.seed)
    if config.extract == "product":
        raise InputError("extract: product is for the arithmetic world's own words; use number")
    extract = find_extractor(config.extract)
    drawn = text_problems([Size.read(size) for size in made.sizes], made.num, seed=config.rl.seed)
    return matching([RlPrompt(*pair) for pair in drawn], lexical_splitter(extract), extract)


def arithmetic_task(world: ArithmeticWorld, made: ArithmeticPrompts, *, seed: int) -> RlTask:
    """Problems in the world's own words, with its slips."""
    drawn = problems(world, [Size.read(size) for size in made.sizes], made.num, seed=f"rl/{seed}")
    prompts = [RlPrompt(world.prompt(problem), str(world.value(problem))) for problem in drawn]
    environment = Slips(world, arithmetic_tokenizer(world), made.slip) if made.slip else None
    return matching(prompts, product_splitter(world.base), products, environment)
