"""``hf.attack``: attacks x defences x seeds on a model; what `holdfast attack` and `holdfast demo` call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.attacks.attack import Attack
from holdfast.attacks.checking import check_cells
from holdfast.attacks.defences import Defence, find_defence
from holdfast.attacks.file_setting import file_scale
from holdfast.attacks.matrix import OnCell, run_matrix
from holdfast.attacks.matrix_table import rows_of, shown_measures
from holdfast.attacks.paired import Paired, compare_defences, paired_tests
from holdfast.attacks.registry import find_attack
from holdfast.attacks.scale import Scale
from holdfast.attacks.search import OnTrial, Search, SearchResult, ignore_trial
from holdfast.attacks.variant import variants
from holdfast.attacks.worst import Worst, worst_cases
from holdfast.config import InputError, MatrixConfig, as_names, nearest_or_all, need_extra
from holdfast.config.arguments import checked
from holdfast.config.base import user_path
from holdfast.config.files import FilesConfig
from holdfast.config.loading import validated
from holdfast.data import atomic_text
from holdfast.evaluations import Comparison
from holdfast.models.load import model_name
from holdfast.records import BESIDE, MEASURES, Cell, Measure, ask_the_same, judged_by, pooled_cells
from holdfast.stats import Estimate


@dataclass(frozen=True)
class Matrix:
    """The result of an attack matrix: all cells, the paired tests between defences, and the worst case of attacks that adapt."""

    run: Path
    cells: tuple[Cell, ...]
    tests: tuple[Paired, ...]
    worst: tuple[Worst, ...]
    found: tuple[SearchResult, ...] = ()  # the worst of an attacker who searched

    @property
    def asks_again(self) -> bool:
        """Whether every seed asks the same requests."""
        return ask_the_same(self.cells)

    @property
    def failed(self) -> tuple[Cell, ...]:
        """Cells that have no figures; each says why. The same call runs them again."""
        return tuple(cell for cell in self.cells if cell.status == "failed")

    def estimate(self, attack: str, defence: str, measure: Measure = "asr") -> Estimate | None:
        """A share over all seeds; None where nothing was measured. Raises ``InputError`` for a name that the matrix lacks."""
        self._refuse_unknown("estimate", attack, (defence,))
        if measure not in MEASURES + BESIDE:
            raise InputError(f"estimate: no measure '{measure}'{nearest_or_all(measure, MEASURES + BESIDE)}")
        return pooled_cells([cell for cell in self.cells if (cell.attack, cell.defence) == (attack, defence)], measure)

    def compare(self, attack: str, first: str, second: str) -> Comparison:
        """Under one attack, every measure under the defence ``second`` minus that under ``first``: paired, with intervals.

        The result is that of ``hf.compare``. Holm's correction is for the measures. How much seeds differ is not in the interval.
        Raises ``InputError`` for a name that the matrix lacks.
        """
        self._refuse_unknown("compare", attack, (first, second))
        return compare_defences(self.cells, attack, first, second)

    def _refuse_unknown(self, where: str, attack: str, defences: Sequence[str]) -> None:
        for what, names in (("attack", (attack,)), ("defence", defences)):
            known = list(dict.fromkeys(getattr(cell, what) for cell in self.cells))
            for name in names:
                if name not in known:
                    raise InputError(f"{where}: {what} '{name}': not in this matrix{nearest_or_all(name, known)}")

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per cell, with the p-values of its attack and defence against the others."""
        against: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for test in self.tests:
            against.setdefault((test.attack, test.defence), {}).setdefault(test.other, {})[test.measure] = test.p_holm
        return [{**cell.row(), "p_against": against.get((cell.attack, cell.defence), {})} for cell in self.cells]

    def __repr__(self) -> str:
        """A table for every measure: defences down, attacks across; then why cells failed, each reason once."""
        parts = []
        for measure, title in shown_measures(self.cells):
            attacks, rows = rows_of(self.cells, self.tests, measure)
            lines = [f"  {defence:14} " + "  ".join(f"{text:24}" for text in texts) for defence, texts in rows]
            head = "  " + " " * 15 + "  ".join(f"{name:24}" for name in attacks)
            parts.append("\n".join([title, head, *lines]))
        why = {
            (cell.attack, cell.defence, cell.reason): f"failed: {failure_line(cell)}" for cell in reversed(self.failed)
        }
        return "\n".join([*parts, *filter(None, [judged_by(self.cells)]), *reversed(why.values())])


def failure_line(cell: Cell) -> str:
    """Which cell failed, and why."""
    return f"{cell.attack} x {cell.defence}, seed {cell.seed}: {cell.reason}"


@checked("hf.attack")
def attack(
    model: str | object = "tiny:aligned",
    *,
    attacks: str | Iterable[str],
    defences: str | Iterable[str],
    run: str | Path,
    setting: FilesConfig | Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 3,
    on_cell: OnCell | None = None,
    **more: Any,
) -> Matrix:
    """Tune the model in every attack's way under every defence, ask the results and compare them; return a ``Matrix``.

    Cells that ``run`` has already are kept, so the same call goes on with what is missing.

    ``run``: the folder for the cells.
    ``setting``: your requests and task rows (``hf.Files``); without it the embedded world, for ``tiny:*``.
    ``seeds``: how many, or a list of which.
    ``more``: settings of a matrix config (docs/attacks.md), such as ``adaptive={"lrs": [...]}``, ``num_requests=200``,
    ``workers=2``, ``engine="ray"``.

    Raises ``InputError`` for settings that cannot be used, and with the first cell's reason if every cell failed.
    """
    settings = {
        "run": str(user_path(run, "hf.attack: run")),
        "model": model_name(model, "hf.attack"),
        "attacks": _names("attacks", attacks),
        "defences": _names("defences", defences),
        "seeds": tuple(range(seeds)) if isinstance(seeds, int) else seeds,
        "files": setting,
        **more,
    }
    matrix = run_config(validated(MatrixConfig, settings, "hf.attack"), on_cell=on_cell)
    _refuse_without_figures(matrix)
    return matrix


def _names(field: str, given: str | Iterable[str]) -> tuple[str, ...]:
    names = as_names(given)
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"hf.attack: {field}: expected names, got a value of type {type(name).__name__};"
                f" register yours in holdfast.attacks.{field.upper()} by a name"
            )
    return names


def _refuse_without_figures(matrix: Matrix) -> None:
    if len(matrix.failed) < len(matrix.cells):
        return
    first = matrix.failed[0]
    count = "its only cell" if len(matrix.cells) == 1 else f"all {len(matrix.cells)} cells"
    raise InputError(f"hf.attack: {count} failed; {failure_line(first)}; the same call runs what failed again")


def run_config(config: MatrixConfig, *, on_cell: OnCell | None = None, on_trial: OnTrial = ignore_trial) -> Matrix:
    """As ``attack``, from a config. The tests are written beside the cells, for the report."""
    if config.search is not None:
        need_extra("search", "attack: search=")
    scale = scale_of(config)
    attacks, defences = attacks_of(config, scale), [find_defence(name) for name in config.defences]
    check_cells(attacks, defences, config.seeds[0], scale)
    cells = run_matrix(
        attacks,
        defences,
        config.seeds,
        config.run,
        scale=scale,
        num_workers=config.workers,
        engine=config.engine,
        on_cell=on_cell,
    )
    run = Path(config.run)
    tested = tuple(paired_tests(cells))
    searches = () if config.search is None else _search(config, scale, attacks, defences, on_trial)
    matrix = Matrix(run, tuple(cells), tested, tuple(worst_cases(cells)), searches)
    tests = [asdict(test) for test in matrix.tests]
    worst = [case.to_json() for case in matrix.worst]
    searched = [case.to_json() for case in matrix.found]
    for name, values in (("paired", tests), ("worst", worst), *([("search", searched)] if searched else [])):
        with atomic_text(run / f"{name}.json") as file:
            file.write(json.dumps(values, indent=2) + "\n")
    return matrix


def _search(
    config: MatrixConfig,
    scale: Scale,
    attacks: Sequence[Attack],
    defences: Sequence[Defence],
    on_trial: OnTrial,
) -> tuple[SearchResult, ...]:
    assert config.search is not None
    search = Search(
        folder=Path(config.run),
        scale=scale,
        seeds=config.seeds,
        num_trials=config.search.trials,
        max_loss=config.search.max_utility_loss,
        seed=config.search.seed,
        num_workers=config.workers,
        engine=config.engine,
        on_trial=on_trial,
    )
    return tuple(search(attacks, defences))


def scale_of(config: MatrixConfig) -> Scale:
    """Which model, how many requests, and where rows come from."""
    if config.files is not None:
        return file_scale(config.model, config.files)
    return Scale(model=config.model, num_requests=config.num_requests, part=config.requests)


def attacks_of(config: MatrixConfig, scale: Scale) -> list[Attack]:
    """The config's attacks; with ``adaptive``, every variant of each."""
    attacks = [find_attack(name) for name in config.attacks]
    if config.adaptive is None:
        return attacks
    lrs, epochs = config.adaptive.lrs, config.adaptive.epochs
    sized = [attack.in_setting(scale.setting) for attack in attacks]
    return [variant for attack in sized for variant in variants(attack, lrs=lrs, epochs=epochs)]
