"""`holdfast view`: a live page of runs, and a place to try a model. Needs the extra ``serve``."""

from holdfast.view.app import make_view
from holdfast.view.run import open_view

__all__ = ["make_view", "open_view"]
