"""Why a model does what it does: calibration of decisions, gradients by role, and the theory of [004] in closed form."""

from holdfast.diagnostics.calibration import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
