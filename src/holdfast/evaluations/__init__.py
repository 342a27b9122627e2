"""Evaluations as files: lm-eval's, inspect's, our audits' and plain tables, read and compared. No torch."""

from holdfast.evaluations.comparison import Compared, Comparison, compare
from holdfast.evaluations.evaluation import Evaluation, Item, Scores
from holdfast.evaluations.reading import read_evaluation

__all__ = ["Compared", "Comparison", "Evaluation", "Item", "Scores", "compare", "read_evaluation"]
