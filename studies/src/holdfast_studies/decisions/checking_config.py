"""Settings of a study of checking oneself on a pretrained model: arms, products, how settings are chosen, and the costs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from holdfast.config import GrpoSettings, Settings
from holdfast_studies.decisions.config import PhaseSettings
from holdfast_studies.worlds.arithmetic import Size

BASE, SFT, OWN, DFT, RL, RL_REWARD = "base", "sft_reflection", "sft_own", "dft_reflection", "grpo", "grpo_kl_reward"
TITLES = {
    BASE: "base",
    SFT: "SFT on traces",
    OWN: "SFT on own right samples",
    DFT: "DFT on traces",
    RL: "GRPO, KL in the loss",
    RL_REWARD: "GRPO, KL in the reward",
}
RULE = """\
Settings are chosen before a test problem is asked, arm by arm: of the learning rates in `lrs`, all tried with the first seed, the
one with the highest accuracy on the validation problems (training sizes, other products) after its last step; of equal ones the
lower rate. The other seeds take that rate."""


class ArmSettings(Settings):
    """One way to train: GRPO, or rows to imitate (traces written by rule, or the base model's own right responses).

    ``lrs``: the learning rates that the rule chooses from.
    """

    lrs: tuple[float, ...] = Field(min_length=1)
    rows: Literal["traces", "own"] = "traces"
    objective: Literal["sft", "dft"] = "sft"
    phase: PhaseSettings | None = None
    grpo: GrpoSettings | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ArmSettings:
        if (self.phase is None) == (self.grpo is None):
            raise ValueError("expected either phase: (supervised) or grpo:")
        if self.grpo is not None and self.grpo.steps is None:
            raise ValueError("grpo.steps: say how many")
        return self

    @property
    def steps(self) -> int:
        """The steps of one training."""
        if self.phase is not None:
            return self.phase.steps
        assert self.grpo is not None
        assert self.grpo.steps is not None
        return self.grpo.steps

    @property
    def rollouts(self) -> int:
        """The responses that one GRPO training draws; 0 for other arms."""
        if self.grpo is None:
            return 0
        return self.steps // self.grpo.updates * self.grpo.prompts_per_step * self.grpo.group


class OwnSettings(Settings):
    """How the base model is asked for its own right responses. With as many responses as GRPO draws it is a fair control."""

    num_problems: int = Field(default=400, gt=0)
    num_samples: int = Field(default=8, gt=0)
    least: int = Field(default=32, gt=0)  # right responses: with fewer the arm is not trained


class CurveSettings(Settings):
    """What is measured along training, at equal distances; the last point is the end."""

    points: int = Field(default=4, gt=0)
    num_problems: int = Field(default=64, gt=0)  # for validation, of the training sizes
    gradient_problems: int = Field(default=8, ge=0)  # of these; 0: no gradients
    gradient_samples: int = Field(default=4, gt=1)  # responses to each, one group as in GRPO
    objectives: tuple[str, ...] = ("reward", "kl_reward", "kl_loss_k3", "sft")
    parameters: tuple[str, ...] = ("*.layers.[0-9].*",)  # whose gradients are split by role: names, * and [0-9] allowed


class CostSettings(Settings):
    """For the estimate alone."""

    parameters: float = Field(default=4.9e8, gt=0)
    step_ms: float = Field(default=8.0, gt=0)  # a step of generation for a whole batch
    tflops: float = Field(default=150.0, gt=0)  # reached while training
    prompt_tokens: int = Field(default=340, gt=0)
    response_tokens: int = Field(default=150, gt=0)
    overhead_s: float = Field(default=8.0, ge=0)  # loading and saving, per training
    gradients_s: float = Field(default=5.0, ge=0)  # gradients by role, per point
    at_once: float = Field(default=1.5, ge=1)  # how much quicker several workers are than one


class CheckingConfig(Settings):
    """One study: the base model and every arm, over seeds and sizes."""

    run: str
    title: str
    model: str  # a .gguf file, a folder or a hub id
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    train_sizes: tuple[str, ...] = Field(min_length=1)
    eval_sizes: tuple[str, ...] = Field(min_length=1)  # from easiest to hardest; the training sizes are among them
    arms: dict[str, ArmSettings]
    form: PhaseSettings | None = (
        None  # first teach the model how attempts, checks and decisions are written; all arms start there
    )
    form_sizes: tuple[str, ...] = Field(
        default=("2x1",), min_length=1
    )  # of the traces that teach it: smaller than train_sizes
    corrective: float = Field(default=0.5, ge=0, le=1)  # share of traces that begin with an error
    own: OwnSettings = OwnSettings()
    curve: CurveSettings = CurveSettings()
    num_test: int = Field(default=100, gt=1)  # products per size and seed
    max_new_tokens: int = Field(default=512, gt=0)  # of a response to a test problem
    max_train_tokens: int = Field(
        default=256, gt=0
    )  # of one to a problem of a training size: GRPO, own samples, validation
    temperature: float = Field(default=1.0, gt=0)
    eval_batch: int = Field(default=512, gt=0)
    device: str = "auto"
    workers: int = Field(default=1, gt=0)  # jobs at a time, each a process of its own
    cost: CostSettings = CostSettings()

    @field_validator("train_sizes", "eval_sizes", "form_sizes")
    @classmethod
    def _are_sizes(cls, sizes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(Size.read(size)) for size in sizes)

    @model_validator(mode="after")
    def _fits(self) -> CheckingConfig:
        if missing := [size for size in self.train_sizes if size not in self.eval_sizes]:
            raise ValueError(
                f"eval_sizes: the training size {missing[0]} is not among them: every arm is tested there too"
            )
        if self.form is not None and set(self.form_sizes) & set(self.eval_sizes):
            raise ValueError("form_sizes: the form is taught on sizes that are neither trained on nor tested")
        if strange := [name for name in self.arms if name not in TITLES or name == BASE]:
            raise ValueError(f"arms: '{strange[0]}' is none of {', '.join(name for name in TITLES if name != BASE)}")
        return self

    @property
    def sizes(self) -> list[Size]:
        """The sizes that are trained on."""
        return [Size.read(size) for size in self.train_sizes]


class Cost(NamedTuple):
    """One line of the plan, over all seeds."""

    what: str
    trainings: int
    trained_tokens: int
    drawn_tokens: int  # at most
    seconds: float


def costs(config: CheckingConfig) -> list[Cost]:
    """What every arm costs. The first seed tries every learning rate. Every response counts at its longest."""
    num_seeds = len(config.seeds)
    own = config.own.num_problems * config.own.num_samples if OWN in config.arms else 0
    form = config.form.steps * config.form.batch_size if config.form else 0  # rows
    lines = [_line(config, BASE, int(form > 0), form, [config.curve.num_problems, *[own] * num_seeds])]
    for name, arm in config.arms.items():
        trainings = len(arm.lrs) + num_seeds - 1
        batches = arm.steps // arm.grpo.updates if arm.grpo else 0
        rows = arm.rollouts if arm.phase is None else arm.steps * arm.phase.batch_size
        draws = [config.curve.num_problems] * (len(arm.lrs) * config.curve.points)
        draws += [arm.rollouts // batches] * (batches * trainings) if batches else []
        lines.append(_line(config, name, trainings, trainings * rows, draws))
    return lines


def _line(config: CheckingConfig, name: str, trainings: int, rows: int, draws: list[int]) -> Cost:
    """The line of one arm. ``draws``: numbers of responses to problems of training sizes; the test is added to them."""
    how, arm = config.cost, config.arms.get(name)
    tests = [config.num_test * len(config.eval_sizes)] * len(config.seeds)
    parts = ((draws, config.max_train_tokens), (tests, config.max_new_tokens))
    generation_steps = sum(-(-num // config.eval_batch) * length for nums, length in parts for num in nums)
    drawn = sum(sum(nums) * length for nums, length in parts)
    tokens = rows * (how.prompt_tokens + how.response_tokens)
    forwards = 5 if arm is not None and arm.grpo is not None else 3  # forward and backward; GRPO: reference, old policy
    train_s = forwards * 2 * how.parameters * tokens / (how.tflops * 1e12)
    points = 1 if arm is None else len(arm.lrs) * config.curve.points
    gradients_s = points * how.gradients_s if config.curve.gradient_problems else 0.0
    seconds = generation_steps * how.step_ms / 1000 + train_s + gradients_s + max(1, trainings) * how.overhead_s
    return Cost(name, trainings, tokens, drawn, seconds)


def plan(config: CheckingConfig) -> list[str]:
    """The costs as lines for a terminal, the total, and the rule of choice."""
    rows, how = costs(config), config.cost
    lines = [f"{'arm':16} {'trainings':>9} {'tokens trained':>15} {'tokens drawn':>13} {'seconds':>8}"]
    for row in rows:
        numbers = f"{row.trainings:9} {row.trained_tokens:15,} {row.drawn_tokens:13,} {row.seconds:8.0f}"
        lines.append(f"{row.what:16} {numbers}")
    speed = how.at_once if config.workers > 1 else 1.0
    lines.append(
        f"about {sum(row.seconds for row in rows) / speed:.0f} s of a GPU for {len(config.seeds)} seeds, {config.workers} jobs at"
        f" once (estimate: {how.step_ms:g} ms a step of generation, {how.tflops:g} TFLOP/s while training, {how.overhead_s:g} s"
        f" to load and save, {how.gradients_s:g} s for gradients at a point, {speed:g} times as quick as one at a time)"
    )
    return [*lines, RULE]
