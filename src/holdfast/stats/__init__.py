"""Values with intervals and the tests between them, each once: `Estimate`, intervals, bootstrap, paired tests, power, kappa.

No torch here. The intervals in closed form need neither numpy nor scipy to be imported; the rest is imported when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.stats.correction import corrected_share
from holdfast.stats.estimate import Estimate, Unknown, finite_or_none
from holdfast.stats.intervals import (
    clopper_pearson,
    newcombe,
    newcombe_paired,
    pooled,
    share,
    share_of_counts,
    share_of_repeats,
    student,
    wilson,
)

if TYPE_CHECKING:
    from holdfast.stats.bootstrap import (
        Resamples,
        bootstrap_mean,
        difference_of_repeats,
        percentile_interval,
        resampled_rows,
    )
    from holdfast.stats.kappa import cohen_kappa
    from holdfast.stats.paired import (
        PairedDifference,
        holm,
        mcnemar,
        mcnemar_of,
        paired_difference,
        permutation,
        sign_flips,
    )
    from holdfast.stats.power import mcnemar_power, smallest_difference, t_power

__all__ = [
    "Estimate",
    "PairedDifference",
    "Resamples",
    "Unknown",
    "bootstrap_mean",
    "clopper_pearson",
    "cohen_kappa",
    "corrected_share",
    "difference_of_repeats",
    "finite_or_none",
    "holm",
    "mcnemar",
    "mcnemar_of",
    "mcnemar_power",
    "newcombe",
    "newcombe_paired",
    "paired_difference",
    "percentile_interval",
    "permutation",
    "pooled",
    "resampled_rows",
    "share",
    "share_of_counts",
    "share_of_repeats",
    "sign_flips",
    "smallest_difference",
    "student",
    "t_power",
    "wilson",
]

_LATER = {
    "bootstrap": "Resamples bootstrap_mean difference_of_repeats percentile_interval resampled_rows",
    "kappa": "cohen_kappa",
    "paired": "PairedDifference holm mcnemar mcnemar_of paired_difference permutation sign_flips",
    "power": "mcnemar_power smallest_difference t_power",
}

__getattr__ = exported_later(__name__, _LATER)  # numpy is for those who draw or test
