"""Builders of backtrack traces: align, perturb, random, and refusals that begin wrongly ([000], MATH §4)."""

from holdfast.traces.align import Align, departures
from holdfast.traces.choose import BuilderName, choose_builder
from holdfast.traces.errors import Budget, Builder, Error, RightAnswer, with_errors
from holdfast.traces.make import Made, make_traces, write_made
from holdfast.traces.perturb import Perturb
from holdfast.traces.refusals import BENIGN_STARTS, WrongStart
from holdfast.traces.tasks import TASKS, Task, read_references
from holdfast.traces.uniform import Uniform

__all__ = [
    "BENIGN_STARTS",
    "TASKS",
    "Align",
    "Budget",
    "Builder",
    "BuilderName",
    "Error",
    "Made",
    "Perturb",
    "RightAnswer",
    "Task",
    "Uniform",
    "WrongStart",
    "choose_builder",
    "departures",
    "make_traces",
    "read_references",
    "with_errors",
    "write_made",
]
