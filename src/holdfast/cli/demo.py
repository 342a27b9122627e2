"""`holdfast demo`: the main job on the embedded world, in a few minutes: is a tuned model still safe, and what keeps it so?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import json_option

ATTACKS = ("harmful_examples", "identity_shift", "backdoor", "benign_drift")
DEFENCES = ("sft", "csft", "csft_pa", "anchored")


def demo(
    out: Annotated[Path, typer.Option(help="Where cells and report go; run it again to reuse them")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds")] = 3,
    num: Annotated[int, typer.Option(min=1, help="Requests per measurement")] = 200,
    json: json_option = None,
) -> None:
    """Four ways to tune an aligned model into trouble against four ways to tune it: table and report."""
    from holdfast.cli.matrix import run_and_show
    from holdfast.config.matrix import MatrixConfig

    config = MatrixConfig(run=str(out), attacks=ATTACKS, defences=DEFENCES, seeds=tuple(range(seeds)), num_requests=num)
    run_and_show(config, json)
