"""Embedded tasks with exact oracles. Data and oracles only: no models."""

from holdfast.worlds.naming import world_traces
from holdfast.worlds.safety import SafetyWorld

__all__ = ["SafetyWorld", "world_traces"]
