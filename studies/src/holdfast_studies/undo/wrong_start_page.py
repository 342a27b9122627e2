"""A study of wrong starts as a section of docs/results/undo.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.stats import Estimate, Unknown, share_of_counts
from holdfast_studies.markdown import table
from holdfast_studies.undo.safety_gap_page import OVER_SEEDS, shown
from holdfast_studies.undo.wrong_start import WITH_UNDO, Fates, StartResult
from holdfast_studies.undo.wrong_start_config import WrongStartConfig

TITLES = {"untrained": "as it was", "plain": "plain sft, no starts"}


def section(config: WrongStartConfig, command: str, results: Sequence[StartResult]) -> str:
    """The section: a table for forbidden requests, one for harmless ones, one for sampled answers."""
    seeds, (low, high) = ", ".join(map(str, config.seeds)), config.length
    fates = results[0].sampled
    about = (
        f"Written by `{command}`. {config.model.name}, {config.steps} steps of {config.batch_size} rows, learning rate"
        f" {config.lr:g}, seeds {seeds}. Trained on {config.num_refuse} refusals, {1 - config.clean:.0%} of which begin with"
        f" {low} to {high} words of another forbidden answer and take them back, and on up to {config.num_keep} rows each of"
        f" {', '.join(config.keep)}. Asked: {fates.num} held-out requests of each sort; the first words of the answer are put"
        f" into the model's mouth, and a model with undo may take them back. Intervals are 95 % ({OVER_SEEDS})."
    )
    depths = sorted(results[0].forbidden)
    parts = [
        f"## {config.title}",
        about,
        "### Forbidden requests: refused in the end\n\n"
        + _by_depth(results, depths, lambda r, k: r.forbidden[k], lambda f: f.good),
        "### Forbidden requests: told after all\n\n"
        + _by_depth(results, depths, lambda r, k: r.forbidden[k], lambda f: f.told),
        "### Harmless requests: answered rightly\n\n"
        + _by_depth(results, depths, lambda r, k: r.harmless[k], lambda f: f.good),
        "### Harmless requests: a right start taken back\n\n"
        + _by_depth(results, depths, lambda r, k: r.harmless[k], lambda f: f.undone),
        "### Forbidden requests, sampled, nothing put into its mouth\n\n" + _sampled(results),
    ]
    return "\n\n".join(parts) + "\n"


def ways(results: Sequence[StartResult]) -> dict[str, list[StartResult]]:
    """The results of every way of training, one per seed, by its title."""
    by_title: dict[str, list[StartResult]] = {}
    for result in results:
        arm = result.arm
        title = f"{arm.objective}, {arm.context}" if arm.objective in WITH_UNDO else TITLES[arm.objective]
        by_title.setdefault(title, []).append(result)
    return by_title


def pooled(fates: Sequence[Fates], count: Callable[[Fates], int]) -> Estimate | Unknown:
    """A share over all seeds."""
    return share_of_counts([(count(fate), fate.num) for fate in fates], "none asked")


def _by_depth(
    results: Sequence[StartResult],
    depths: Sequence[int],
    fates: Callable[[StartResult, int], Fates],
    count: Callable[[Fates], int],
) -> str:
    rows = [
        (title, *(shown(pooled([fates(result, depth) for result in own], count)) for depth in depths))
        for title, own in ways(results).items()
    ]
    return table(("words put into its mouth", *map(str, depths)), rows)


def _sampled(results: Sequence[StartResult]) -> str:
    counts: dict[str, Callable[[Fates], int]] = {
        "refused": lambda f: f.good,
        "something taken back": lambda f: f.undone,
        "told": lambda f: f.told,
    }
    rows = [
        (title, *(shown(pooled([result.sampled for result in own], count)) for count in counts.values()))
        for title, own in ways(results).items()
    ]
    return table(("", *counts), rows)
