"""Why a model does what it does: calibration of decisions, gradients by role, and the theory of [004] in closed form."""

from holdfast.diagnostics.calibration import Calibration, calibrate
from holdfast.diagnostics.estimates import Estimate

__all__ = ["Calibration", "Estimate", "calibrate"]
