"""Check before anything is trained that a matrix has its model, tasks, files, objectives, and enough requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.attacks.attack import Attack
from holdfast.attacks.defences import Defence, OwnStream
from holdfast.attacks.file_setting import FileSetting
from holdfast.attacks.scale import Scale
from holdfast.attacks.setting import Setting
from holdfast.config import InputError, naming_field
from holdfast.config.loading import validated
from holdfast.config.training import StreamSettings, TrainingSettings
from holdfast.judging import check_judge
from holdfast.models.load import check_there
from holdfast.records import Trace, answer, context
from holdfast.training.streams import bind_objective


class _Unanswered(FileSetting):
    """The same files, and no model is asked: every answer is a full stop."""

    def answered(self, model: str, prompts: Sequence[str], everything: Sequence[str]) -> list[Trace]:
        del model, everything
        return [Trace((context("user", prompt), answer("."))) for prompt in prompts]

    def reworded_rows(self, num: int, seed: int) -> list[Trace | None]:
        return list(self.attacker_rows(num, seed))

    def self_written_rows(self, num: int, seed: int) -> list[Trace]:
        return self.attacker_rows(num, seed)


def check_cells(attacks: Sequence[Attack], defences: Sequence[Defence], seed: int, scale: Scale) -> None:
    """Draw the rows of every attack and defence once, without asking a model. Raises ``InputError`` for what cannot be had."""
    check_there(scale.model)
    if scale.files is not None:
        with naming_field("files.stock"):
            check_there(scale.files.stock)
    setting = _without_answers(scale)
    tuned = [defence for defence in defences if defence.tune]
    utilities: set[str] = set()
    for attack in attacks:
        with _naming(f"attack '{attack.name}'"):
            if attack.utility and attack.utility not in utilities:
                setting.measured(attack.utility, seed)
                utilities.add(attack.utility)
            for stage in attack.in_setting(setting).stages if tuned else ():
                if type(stage.data).__module__.startswith("holdfast."):  # rows of the user's own may take long to make
                    stage.data.rows(setting, seed)
    for defence in tuned:
        with _naming(f"defence '{defence.name}'"):
            streams = (*defence.streams_in(setting), *(defence.repair.streams if defence.repair else ()))
            _check_settings(defence, streams)
            for stream in streams if scale.files else ():  # the embedded world has rows for every defence
                setting.own_rows(stream.rows, stream.num, seed)


def _check_settings(defence: Defence, streams: Sequence[OwnStream]) -> None:
    """The names and options that its trainings would refuse, cell by cell."""
    validated(TrainingSettings, defence.training, "training")
    for judge in filter(None, (defence.vet, defence.leave_out)):
        check_judge(judge)
    task = StreamSettings(data="rows", objective=defence.objective, options=defence.options)
    for number, stream in enumerate(
        (task, *(StreamSettings(data="rows", objective=own_stream.objective) for own_stream in streams))
    ):
        bind_objective(stream, number)


def _without_answers(scale: Scale) -> Setting:
    if scale.files is None:
        return scale.setting
    files = scale.files
    return _Unanswered(files.stock, files.anchor, files.device, files.files, files.contents)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
