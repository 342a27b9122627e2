"""Make the two embedded models from nothing: ``python -m holdfast_studies.builders.build_tiny [--out DIR]``.

Base: lists first (copying is learned quickly alone and slowly among other things), then everything, every request answered.
Aligned: the base, tuned to refuse the forbidden and to go on answering what only looks like it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from holdfast.models import FOLDER, TINY
from holdfast.records import Trace
from holdfast.stats import Estimate
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.worlds import SafetyWorld, alignment, build_tokenizer, pretraining
from holdfast_studies.builders.fit_tiny import Phase, fit, tiny_config
from holdfast_studies.builders.measure_tiny import FIGURES, measure, shortcomings

SEED = 0
STEPS = {"lists": 450, "everything": 1700, "alignment": 200}
FIGURES_FILE = "figures.json"


def build(out: Path, *, share: float = 1.0, on_step: Callable[[str, float], None] | None = None) -> None:
    """Train and save both models. ``share`` < 1 shortens every phase, to test the machinery."""
    world, tokenizer = SafetyWorld(SEED), build_tokenizer()
    steps = {name: max(1, round(num * share)) for name, num in STEPS.items()}

    def rows(traces: list[Trace]) -> Sequence[TokenRow]:
        return tokenize_all(traces, tokenizer)[0]

    def report(name: str) -> Callable[[float], None] | None:
        return None if on_step is None else lambda loss: on_step(name, loss)

    with _repeatable(SEED):
        model = LlamaForCausalLM(tiny_config(tokenizer))
        num = round(6000 * share)
        lists = rows(world.requests("train", "copy", num) + world.requests("train", "reverse", num))
        everything = rows(pretraining(world, round(24000 * share)))
        phases = [Phase(lists, steps["lists"], 64), Phase(everything, steps["everything"], 32)]
        fit(model, phases, lr=4e-3, num_warmup=50, num_decay=steps["everything"] // 2 + 1, on_step=report("base"))
        _save(model, tokenizer, out / "base")
        aligning = [Phase(rows(alignment(world, round(9600 * share))), steps["alignment"], 32)]
        fit(model, aligning, lr=7e-4, num_warmup=10, num_decay=steps["alignment"] // 2 + 1, on_step=report("aligned"))
        _save(model, tokenizer, out / "aligned")


def measure_stored(out: Path) -> dict[str, dict[str, Estimate]]:
    """Measure both models as they are stored in ``out``."""
    figures = {}
    with _repeatable(SEED):
        for name in TINY:
            model = LlamaForCausalLM.from_pretrained(out / name, use_safetensors=True, dtype=torch.float32).eval()
            tokenizer = transformers.AutoTokenizer.from_pretrained(out / name)
            figures[name] = measure(model, tokenizer, SafetyWorld(SEED))
    return figures


def write_figures(out: Path, figures: dict[str, dict[str, Estimate]]) -> None:
    """The figures and the hashes of the weights they belong to."""
    content = {
        "command": "python -m holdfast_studies.builders.build_tiny",
        "decoding": "greedy; requests held out from training; 95 % Wilson intervals",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "sha256": {name: weights_hash(out / name) for name in TINY},
        "figures": {
            name: {key: rate.to_json(n="num") for key, rate in rates.items()} for name, rates in figures.items()
        },
    }
    (out / FIGURES_FILE).write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def weights_hash(folder: Path) -> str:
    """SHA-256 of a model's weights file."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written as 0600, which an installed package must not be


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Use one thread (sums have one order; so small a model gains nothing from two), deterministic kernels and one seed."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic)


def _table(figures: dict[str, dict[str, Estimate]]) -> Table:
    table = Table(title="held-out requests, greedy, exact oracle, 95 % Wilson intervals")
    table.add_column("share of requests")
    table.add_column("n", justify="right")
    for name in TINY:
        table.add_column(f"tiny:{name}", justify="right")
    for figure in FIGURES:
        rates = [figures[name][figure.name] for name in TINY]
        table.add_row(figure.name, str(rates[0].n), *(f"{rate:.1%}" for rate in rates))
    return table


def main() -> int:
    """Build, measure what was stored, print and write the figures; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast_studies.builders.build_tiny", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the models go (default: into the package)")
    out: Path = parser.parse_args().out
    transformers.utils.logging.disable_progress_bar()
    console = Console()
    started = time.monotonic()
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
    ]
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        totals = {"base": STEPS["lists"] + STEPS["everything"], "aligned": STEPS["alignment"]}
        tasks = {name: progress.add_task(f"tiny:{name}", total=total, loss="-") for name, total in totals.items()}
        build(out, on_step=lambda name, loss: progress.update(tasks[name], advance=1, loss=f"{loss:.3f}"))
    figures = measure_stored(out)
    seconds = time.monotonic() - started
    write_figures(out, figures)
    console.print(_table(figures))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    console.print(f"{out}: {size / 1e6:.2f} MB, {seconds:.0f} s")
    missed = shortcomings(figures["base"], figures["aligned"])
    for bar in missed:
        console.print(f"missed: {bar}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
