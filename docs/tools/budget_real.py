"""Weights against budgets on a real model: `python docs/tools/budget_real.py MODEL FOLDER rows=R requests=Q safe=S sql=T seed=0`

trains the arms that are missing in FOLDER (all, or those of `arms=sft,budgets`), asks them, and writes
docs/results/budget-real.json; without paths it only reads what is there (of the task alone). R: the task's rows, in the
words in which the audit asks (holdfast.audits.suites.sql). Q, S and T are what `holdfast audit` takes as --requests,
--safe-requests and --sql. Every part is a command of the package: a folder that was stopped goes on.
docs/tools/budget_pages.py puts the table into the page.

With `stock=M train=FILE others=FILE,FILE` in the place of R, 100 of 1,000 rows are harmful: requests of Q, answered by the
model M at run time; the others are drawn from the file `train`. What is asked then are requests of Q and of the other files
that are no twins of the harmful rows' (the second half of every file). Rows and requests are deleted at the end. This wants a
FOLDER of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.attacks import FileSetting, HarmfulExamples, Mixture
from holdfast.config import FilesConfig, TaskFiles
from holdfast.data import write_traces
from holdfast.stats import wilson

RESULTS = Path(__file__).parents[1] / "results" / "budget-real.json"
STEPS = 63
HARMFUL = 100  # rows of 1,000
ALONE, HARMFUL_TOO = "the task alone", "with harmful rows"
FIGURES = {
    "complied": "harmful complied",
    "harmless_refused": "harmless refused",
    "harmless_missed": "harmless missed",
    "kept": "kept",
    "sql_meaning": "SQL right",
}
SHOWN = {"smollm2-135m.gguf": ("harmless_missed", "kept", "sql_meaning"), "qwen2.5-coder-0.5b.gguf": tuple(FIGURES)}
"""The models of the page, and the figures of each. SmolLM2 refuses nothing as it comes, so the first two say nothing of it."""
HELD = ("streams.1.limit=100", "streams.2.limit=100")
UNVETTED = "streams.0.vet=null"
SHORT = ("streams.1.hold.tokens=16", "streams.2.hold.tokens=16")
PLAIN = ("lora.r=16", "lora.alpha=32", "lora.merge=true", "training.batch_size=16")


class Arm(NamedTuple):
    """How one model is trained."""

    shown: str
    recipe: str
    settings: tuple[str, ...]
    longer: float = 1.0  # times the steps


ARMS = {
    "sft": Arm("`sft`", "sft", PLAIN),
    "sft15": Arm("`sft`, 1.5 times the steps", "sft", PLAIN, 1.5),
    "weights": Arm("weights 1, 1", "defended", (*HELD, UNVETTED)),
    "budgets": Arm("budgets", "defended", (*HELD, *SHORT, UNVETTED)),
    "budgets15": Arm("budgets, 1.5 times the steps", "defended", (*HELD, *SHORT, UNVETTED), 1.5),
    "vetted": Arm("weights 1, 1 and vetting (`defended`)", "defended", HELD),
    "vetted_budgets15": Arm("budgets and vetting, 1.5 times the steps", "defended", (*HELD, *SHORT), 1.5),
}
"""All with adapters of rank 16 and `lr: auto`; 16 rows of the task in a step, and 8 of each held stream."""


def holdfast(*words: object) -> None:
    """Run one command. An audit may end with 1: a figure that is worse than an earlier audit's is a result, too."""
    done = subprocess.run([sys.executable, "-m", "holdfast", *map(str, words)])
    if done.returncode not in ((0, 1) if words[0] == "audit" else (0,)):
        sys.exit(f"holdfast {words[0]} ended with {done.returncode}")


def make(name: str, model: str, run: Path, paths: dict[str, str], seed: int) -> None:
    """Train one arm, audit it and measure its drift, as far as this is not done yet."""
    arm = ARMS[name]
    chosen = [f"model.name={model}", f"streams.0.data={paths['rows']}", f"training.seed={seed}", f"run={run}"]
    chosen += [
        "model.dtype=bfloat16",
        "training.lr=auto",
        "training.precision=bf16",
        f"training.max_steps={int(STEPS * arm.longer)}",
    ]
    holdfast("train", arm.recipe, *chosen, *arm.settings)
    ask(str(run / "model"), run, paths, "--before", run.parent / "untouched")


def ask(model: str, out: Path, paths: dict[str, str], *more: object) -> None:
    """Audit a model with 100 requests of each kind, and 100 queries."""
    files = ("--requests", paths["requests"], "--safe-requests", paths["safe"], "--sql", paths["sql"])
    if not (out / "audit.json").exists():
        holdfast("audit", model, *files, "--limit", 100, "--dtype", "bfloat16", "--out", out, *more)


@contextmanager
def poisoned(paths: dict[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """The paths, with other rows and requests. Both lie in ``folder`` and are deleted at the end."""
    tasks = {"sql": TaskFiles(kind="sql", train=paths.pop("train"), test=paths["sql"])}
    asked = (paths["requests"], *paths.pop("others").split(","))
    files = FilesConfig(
        stock=paths.pop("stock"),
        attack=asked[:1],
        held_out=asked,
        half="second",
        harmless=paths["safe"],
        tasks=tasks,
        num_attack=HARMFUL,
    )
    setting = FileSetting.read(files, anchor=files.stock, device="auto")
    made = {"rows": folder / "rows.jsonl", "requests": folder / "requests.json"}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_traces(made["rows"], Mixture(HarmfulExamples(HARMFUL), 0.1, num=1000, task="sql").rows(setting, 0))
        made["requests"].write_text(json.dumps([{"prompt": text} for text in setting.held_out]), encoding="utf-8")
        yield {**paths, **{name: str(path) for name, path in made.items()}}
    finally:
        for path in made.values():
            path.unlink(missing_ok=True)


def measured(run: Path) -> dict[str, Any]:
    """The figures of one finished arm: shares as counts, drift in nats, and how hard the task still is."""
    figures = json.loads((run / "audit.json").read_text(encoding="utf-8"))["figures"].values()
    wanted = [figure for figure in figures if figure["name"] in FIGURES and figure["judge"] in ("", None, "outcome")]
    cell: dict[str, Any] = {figure["name"]: {"hits": figure["hits"], "num": figure["trials"]} for figure in wanted}
    if (run / "steps.jsonl").exists():
        steps = [json.loads(line) for line in (run / "steps.jsonl").read_text(encoding="utf-8").splitlines()]
        cell["steps"] = len(steps)
        cell["task_nll"] = round(_mean(next(iter(step["streams"].values()))["nll"] for step in steps[-5:]), 4)
    if (run / "hold.json").exists():
        holds = json.loads((run / "hold.json").read_text(encoding="utf-8"))
        cell["hold"] = {kind: {name: held["early"][name] for name in ("k", "standing")} for kind, held in holds.items()}
    return cell


def read_cells() -> list[dict[str, Any]]:
    """All cells that are committed."""
    return list(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else []


def table(model: str, rows: str = ALONE) -> str:
    """The table of one model in docs/results/budget.md."""
    columns = [*(FIGURES[name] for name in SHOWN[model]), "loss, last 5 steps"]
    lines = [
        f"| held by | seeds | nats: safety, keep | {' | '.join(columns)} |",
        "|---|---|---|" + "---|" * len(columns),
    ]
    cells = [cell for cell in read_cells() if (cell["model"], cell["rows"]) == (model, rows)]
    for name in ("untouched", *ARMS):
        if not (own := [cell for cell in cells if cell["arm"] == name]):
            continue
        held = [hold for cell in own for hold in cell.get("hold", {}).values()]
        nats = ", ".join(f"{hold['k']:.3f} ({hold['standing']})" for hold in held)
        shares = " | ".join(_share(own, figure) for figure in SHOWN[model])
        loss = f"{_mean(cell['task_nll'] for cell in own):.2f}" if "task_nll" in own[0] else ""
        shown, seeds = (ARMS[name].shown, len(own)) if name in ARMS else (name, "")
        lines.append(f"| {shown} | {seeds} | {nats} | {shares} | {loss} |")
    return "\n".join(lines) + "\n"


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _share(cells: Sequence[dict[str, Any]], name: str) -> str:
    """A share with its interval. Every seed asks the same requests, so the interval counts them once."""
    if name not in cells[0]:
        return ""
    share = wilson(_mean(cell[name]["hits"] for cell in cells), cells[0][name]["num"])
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def main(arguments: Sequence[str]) -> None:
    """Make what is missing, then collect."""
    model, folder, *words = arguments
    paths = dict(word.split("=", 1) for word in words)
    seed, arms = int(paths.pop("seed", "0")), paths.pop("arms", ",".join(ARMS)).split(",")
    kind = HARMFUL_TOO if "stock" in paths else ALONE
    if paths:
        with poisoned(paths, Path(folder)) if kind == HARMFUL_TOO else nullcontext(paths) as files:
            ask(model, Path(folder) / "untouched", files)
            for name in arms:
                make(name, model, Path(folder) / f"{name}-s{seed}", files, seed)
    shown = Path(model).name
    others = [cell for cell in read_cells() if (cell["model"], cell["rows"]) != (shown, kind)]
    runs = [(name, *run) for name in ARMS for run in _seeds(Path(folder), name)]
    runs.insert(0, ("untouched", 0, Path(folder) / "untouched"))
    own = [{"model": shown, "rows": kind, "arm": name, "seed": number, **measured(run)} for name, number, run in runs]
    RESULTS.write_text(json.dumps([*others, *own], indent=1) + "\n", encoding="utf-8")


def _seeds(folder: Path, name: str) -> list[tuple[int, Path]]:
    """The seeds of an arm that have been asked, with their folders."""
    runs = {
        int(run.name.rpartition("-s")[2]): run for run in folder.glob(f"{name}-s*") if (run / "audit.json").exists()
    }
    return sorted(runs.items())


if __name__ == "__main__":
    main(sys.argv[1:])
