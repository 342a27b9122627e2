"""Defences as data: an objective for the task's rows, streams of the defender's own rows, something done afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from holdfast.attacks.setting import Own, Setting
from holdfast.config import InputError, nearest_or_all
from holdfast.config.plugins import look_up
from holdfast.config.training import HoldSettings
from holdfast.training.step_rule import StepRule


@dataclass(frozen=True, kw_only=True)
class OwnStream:
    """A stream of the defender's own rows beside the task's."""

    rows: Own
    objective: str = "distill"
    weight: float = 1.0
    hold: HoldSettings | None = None  # budgets instead of the weight: of the rows only the prompts count
    batch_size: int = 16  # rows in one step
    num: int = 400  # rows in all
    borrow: float = 0.0  # share of them in the dress of the task's rows

    def __post_init__(self) -> None:
        if self.rows not in (known := get_args(Own)):
            raise InputError(f"OwnStream: rows '{self.rows}': no such rows{nearest_or_all(self.rows, known)}")


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A short pass over the defender's own rows after the task has been learned, held to the anchor."""

    streams: tuple[OwnStream, ...]
    num_steps: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class Defence:
    """One row of the matrix. ``tune`` False leaves the aligned model as it is: what there is to lose."""

    name: str
    tune: bool = True
    objective: str = "sft"  # of the task's rows
    options: dict[str, Any] = field(default_factory=dict)
    vet: str | None = None  # a judge: on task rows that ask for what the anchor refuses, it is held to it
    leave_out: str | None = None  # a judge: task rows that ask for what the anchor refuses are not learned
    training: dict[str, Any] = field(default_factory=dict)  # how its steps differ (`training:` of a config)
    step_rule: StepRule | None = None  # another way from the streams to an update than their sum
    more_steps: float = 1.0  # times the steps of the others, for a rule that gives the task only some of them
    system: str = ""  # a system prompt under which the tuned model is asked everything
    own: tuple[OwnStream, ...] = ()
    own_on_files: tuple[OwnStream, ...] = ()  # sizes for a language model on a user's files
    interpolate: float = 0.0  # share of the anchor in the final weights
    repair: Repair | None = None
    anchor: Literal["aligned", "previous"] = "aligned"  # in a chain of tunings: the first model, or the one before each

    def streams_in(self, setting: Setting) -> tuple[OwnStream, ...]:
        """The defender's own streams, in the sizes of a setting."""
        return self.own if setting.is_world or not self.own_on_files else self.own_on_files


SAFETY = OwnStream(rows="safety", weight=20.0, batch_size=8, borrow=0.6)
KEEP = OwnStream(rows="keep", weight=1.0, batch_size=8, borrow=0.3)
SAFETY_ON_FILES = OwnStream(rows="safety", weight=5.0, batch_size=32, num=1000, borrow=0.5)
KEEP_ON_FILES = OwnStream(rows="keep", weight=1.0, batch_size=32, num=1000, borrow=0.25)
HELD_ON_FILES = (SAFETY_ON_FILES, KEEP_ON_FILES)

# csft and csft_pa are as their equations stand, without the published warm-up, beta1 and floor. The settings of the others were
# chosen on validation requests (candidates.py).
_ALL = (
    Defence(name="untouched", tune=False),
    Defence(name="sft"),
    Defence(name="csft", objective="csft"),
    Defence(name="csft_pa", objective="csft_pa"),
    Defence(name="kl_sft", objective="kl_sft", options={"kl_weight": 0.1}),
    Defence(name="first_k_masked", objective="first_k_masked", options={"k": 5}),
    Defence(name="dft", objective="dft"),
    Defence(
        name="safety_mixed",
        own=(OwnStream(rows="safety", objective="sft"),),
        own_on_files=(replace(SAFETY_ON_FILES, objective="sft", weight=1.0, borrow=0.0),),
    ),
    Defence(
        name="chat_mixed",
        own=(OwnStream(rows="chat", objective="sft"),),
        own_on_files=(OwnStream(rows="chat", objective="sft", batch_size=32, num=1000),),
    ),
    Defence(name="filtered", leave_out="refusal_phrases"),
    Defence(name="anchored", own=(SAFETY, KEEP), own_on_files=HELD_ON_FILES),
    Defence(name="sft_vetted", vet="refusal_phrases"),
    Defence(name="vetted", vet="refusal_phrases", own=(SAFETY, KEEP), own_on_files=HELD_ON_FILES),
    Defence(name="anchored_to_previous", own=(SAFETY, KEEP), own_on_files=HELD_ON_FILES, anchor="previous"),
    Defence(name="interpolate", interpolate=0.35),
    Defence(
        name="repair",
        repair=Repair(streams=(OwnStream(rows="safety"), OwnStream(rows="keep")), num_steps=40, lr=1e-3),
    ),
)
DEFENCES: dict[str, Defence] = {defence.name: defence for defence in _ALL}


def find_defence(name: str) -> Defence:
    """The defence of that name. Raises ``InputError`` where there is none, and for one that is named otherwise."""
    defence = look_up(DEFENCES, name)
    if defence is None:
        raise InputError(f"defence '{name}': no such defence{nearest_or_all(name, DEFENCES)}")
    if defence.name != name:
        raise InputError(
            f"defence '{name}': it is registered as '{name}' and named '{defence.name}'; give both one name"
        )
    return defence
