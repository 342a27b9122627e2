"""The study on a model that its vendor aligned: files with their hashes, what is tuned on, by whom, and who is asked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from holdfast.attacks import Attack, Defence, find_attack, find_defence, parts_of
from holdfast.config import CurveSettings, FilesConfig, InputError, Settings, TaskFiles

HELD_OUT = ("strongreject", "jailbreakbench", "advbench", "xstest")
"""Asked in the end; of XSTest the unsafe half here, the safe half as harmless prompts."""
NEEDED = (*HELD_OUT, "harmbench_val", "sql_train", "sql_test", "gsm8k_train", "gsm8k_test", "mbpp", "humaneval", "chat")
ARC = "arc"
"""Multiple choice that nothing is tuned on; a stage that measures it beside names it among its sources."""
UNTOUCHED = "untouched"
EPOCHS_ALONE = 25


class SourceFile(Settings):
    """A file that the study reads, where it comes from, and its hash."""

    file: str  # below ``data`` (or ``packages``), or a path of its own
    packaged: bool = False  # made by `python -m holdfast_studies.qwen.data`
    origin: str
    sha256: str | None = None  # None: any file is taken, and the page says so


class Speed(Settings):
    """What a machine does, for the estimate alone."""

    parameters: float = Field(default=1.54e9, gt=0)
    train_tflops: float = Field(default=250.0, gt=0)  # reached by a training step
    decode_ms: float = Field(default=15.0, gt=0)  # a step of generation, whole batch
    fixed_s: float = Field(default=20.0, ge=0)  # of a cell: loading twice, writing the model once
    at_once: float = Field(default=1.3, gt=0)  # cells a minute with all workers, against one alone


class SourcesConfig(Settings):
    """Where the files of a study lie."""

    data: str = "."  # the folder of the sources
    packages: str = "runs/qwen/data"  # the folder of those that are made from packages
    sources: dict[str, SourceFile]

    def path(self, name: str) -> str:
        """Where the file of a source lies."""
        source = self.sources[name]
        return str(Path(self.packages if source.packaged else self.data).expanduser() / source.file)


class StudyConfig(SourcesConfig):
    """One stage. A cell is one task with one share of harmful rows at one rate, one defence, one seed."""

    run: str
    model: str  # a .gguf file, a folder or a hub id
    stock: str  # answers the attacker's requests at run time
    part: Literal["test", "validation"] = "test"
    half: Literal["all", "first", "second"] = "all"  # of the test requests and safe prompts
    tasks: tuple[str, ...] = Field(min_length=1)
    shares: tuple[float, ...] = Field(min_length=1)
    lrs: tuple[float, ...] = (2e-5,)
    rates: dict[str, float] = Field(
        default_factory=dict
    )  # of a defence: the one rate that it is tuned at (`worst` names it)
    more_attacks: tuple[str, ...] = ()  # by name, such as identity_shift or backdoor
    asks: tuple[str, ...] = ()  # further ways to ask every tuned model: prefilled@K, sampled@N, four_bits
    defences: tuple[str, ...] = Field(min_length=1)
    choices: dict[str, str] = Field(default_factory=dict)  # of a defence: which of its settings
    chosen_on_validation: tuple[str, ...] = ()  # the defences whose setting in ``choices`` is what `choose` named
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    curve: CurveSettings | None = None  # ask every model along its training too
    judges: tuple[str, ...] = ("outcome", "refusal_phrases")
    num_attack: int = Field(default=100, gt=0)
    num_requests: int = Field(default=1000, gt=0)
    num_task: int = Field(default=200, gt=0)
    beside: tuple[str, ...] = ("code",)
    measure_code: bool = True  # False where no sandbox confines: code is then learned in the mixture, and not measured
    max_new_tokens: int = Field(default=64, gt=0)
    answer_tokens: int = Field(default=96, gt=0)
    precision: Literal["fp32", "bf16", "fp16"] = "bf16"
    rows_per_pass: int | None = Field(default=32, gt=0)
    device: str = "auto"
    workers: int = Field(default=2, gt=0)  # processes that share the GPU
    steps: float = Field(default=1.0, gt=0)  # share of every training's steps; less than 1 is for trying things out
    replies: str = ""  # a folder for the replies of every cell: to be read and labelled, then deleted
    minutes: float = Field(default=30.0, gt=0)  # of a GPU, for the plan
    speed: Speed = Speed()

    @model_validator(mode="after")
    def _all_sources(self) -> StudyConfig:
        if missing := [name for name in NEEDED if name not in self.sources]:
            raise ValueError(f"sources: {', '.join(missing)} missing")
        if ARC in self.beside and ARC not in self.sources:
            raise ValueError(f"beside: {ARC} has no source")
        for field, given in (("choices", self.choices), ("rates", self.rates)):
            if strange := [name for name in given if name not in self.defences]:
                raise ValueError(f"{field}: {', '.join(strange)} is none of the defences")
        tuned = [name for name in self.defences if name != UNTOUCHED]
        if self.rates and (without := [name for name in tuned if name not in self.rates]):
            raise ValueError(f"rates: {', '.join(without)} has none; give every tuned defence a rate, or none of them")
        return self

    @property
    def files(self) -> FilesConfig:
        """The sources as the matrix reads them. No file is aligned with: the held streams have only the package's own prompts."""
        return FilesConfig(
            stock=self.stock,
            attack=(self.path("strongreject"),),
            held_out=tuple(map(self.path, HELD_OUT)),
            validation=(self.path("harmbench_val"),),
            part=self.part,
            harmless=self.path("xstest"),
            tasks={
                "sql": TaskFiles(kind="sql", train=self.path("sql_train"), test=self.path("sql_test")),
                "gsm8k": TaskFiles(kind="gsm8k", train=self.path("gsm8k_train"), test=self.path("gsm8k_test")),
                "code": TaskFiles(
                    kind="code", train=self.path("mbpp"), test=self.path("humaneval") if self.measure_code else ""
                ),
                **({ARC: TaskFiles(kind="choices", test=self.path(ARC))} if ARC in self.sources else {}),
                "chat": TaskFiles(kind="chat", train=self.path("chat")),
                "product": TaskFiles(of=("sql", "gsm8k", "code", "chat")),
            },
            beside=tuple(name for name in self.beside if name != "code" or self.measure_code),
            **{name: getattr(self, name) for name in SHARED},
        )

    @property
    def attacks(self) -> list[Attack]:
        """Every attack that some defence is tuned under: every task with every share at every rate, then the others."""
        tuned = [defence for defence in self.defences if defence != UNTOUCHED]
        names = dict.fromkeys(name for defence in tuned for name in self.attack_names(defence))
        return [find_attack(name) for name in names]

    def attack_names(self, defence: str) -> list[str]:
        """The names of the attacks that a defence is tuned under. A defence with a rate of its own has only that rate."""
        lrs = (self.rates[defence],) if defence in self.rates else self.lrs
        names = [attack_name(task, share, lr) for task in self.tasks for share in self.shares for lr in lrs]
        return [*names, *self.more_attacks]

    @property
    def shown(self) -> list[str]:
        """The attacks that have a table each. Where defences have rates of their own, all rates share one table."""
        return self.attack_names("") if not self.rates else [*dict.fromkeys(map(self.common, self.attack_names("")))]

    def common(self, attack: str) -> str:
        """The name under which an attack is shown where every defence has a rate of its own."""
        settings = settings_of(attack) if self.rates and attack not in self.more_attacks else {}
        return attack_name(settings["task"], float(settings["share"]), self.lrs[0]) if settings else attack

    def at_rate(self, attack: str, defence: str) -> str:
        """The attack that stands for ``attack`` with this defence: at its own rate if it has one."""
        settings = settings_of(attack) if attack not in self.more_attacks else {}
        if not settings or defence not in self.rates:
            return attack
        return attack_name(settings["task"], float(settings["share"]), self.rates[defence])

    @property
    def alone(self) -> list[Attack]:
        """The attacks under which the untouched model is asked: one for each task, and the attacks that are no mixtures.

        Nothing is tuned for it, so attacks that ask the same in the same way share one cell.
        """
        names = (*(attack_name(task, 0, self.lrs[0]) for task in self.tasks), *self.more_attacks)
        first: dict[object, Attack] = {}
        for attack in map(find_attack, names):
            first.setdefault(self._asked(attack), attack)
        return list(first.values())

    def untouched_under(self, attack: str) -> str:
        """The attack of ``alone`` whose cell of the untouched model also stands for this attack."""
        questions = self._asked(find_attack(attack))
        return next((other.name for other in self.alone if self._asked(other) == questions), attack)

    def _asked(self, attack: Attack) -> object:
        """What a model is asked after an attack, and how."""
        tasks = [part.name for part in parts_of(self.files, attack.utility)] if attack.utility else []
        return attack.dress, attack.asked_as, *tasks

    def defence(self, name: str) -> Defence:
        """The defence, with the settings that were chosen for it."""
        return find_defence(self.choices.get(name, name))


SHARED = (
    *("half", "judges", "num_attack", "num_requests", "num_task", "max_new_tokens", "answer_tokens"),
    *("precision", "rows_per_pass", "device", "steps", "replies", "asks", "curve"),
)


def attack_name(task: str, share: float, lr: float) -> str:
    """``mixture@task=sql,share=0.1,lr=2e-05``. Harmful rows alone are few, and learned as often as by `harmful_examples`."""
    return f"mixture@task={task},share={share:g},lr={lr:g}" + (f",epochs={EPOCHS_ALONE}" if share == 1 else "")


def settings_of(name: str) -> dict[str, str]:
    """Task, share and lr from the name of a mixture; empty for another attack."""
    base, _, settings = name.partition("@")
    return dict(part.split("=") for part in settings.split(",")) if base == "mixture" else {}


def check_sources(config: SourcesConfig) -> dict[str, str]:
    """The hash of every source. Raises ``InputError`` where a file is missing or is not the one that the config names."""
    hashes: dict[str, Any] = {}
    for name, source in config.sources.items():
        path = Path(config.path(name))
        if not path.is_file():
            raise InputError(f"sources.{name}: {path} is not there; it is {source.origin}")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if source.sha256 not in (None, digest):
            raise InputError(
                f"sources.{name}: {path} has sha256 {digest}, expected {source.sha256}; to take it as it is:"
                f" sources.{name}.sha256=null"
            )
        hashes[name] = digest
    return hashes
