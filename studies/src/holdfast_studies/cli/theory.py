"""`holdfast diagnose theory`: Appendix C of [004] recomputed, its errata, and how the three-logit model's gradients grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, write_json

LENGTHS = (8, 64, 512)


def theory(
    results: Annotated[
        Path | None, typer.Option(help="Write the page here, between its marks", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Every number of Appendix C beside the exact one, and what speaks against its claims."""
    from holdfast.data import write_between_marks
    from holdfast_studies.decisions.appendix_c import errata, table

    text = "\n".join(_page()) + "\n"
    if results is not None:
        write_between_marks(results, text, "theory")
    rows = [asdict(row) for row in table()]
    if not write_json(json, {"kind": "theory", "table": rows, "errata": [asdict(erratum) for erratum in errata()]}):
        typer.echo(text)


def _page() -> Iterator[str]:
    from holdfast_studies.decisions.appendix_c import errata, table

    yield "Written by `holdfast diagnose theory`."
    yield ""
    yield "| | paper | exact |"
    yield "|---|---|---|"
    for row in table():
        yield f"| {row.name} | {row.paper:+.4f} | {row.exact:+.6f} |"
    yield ""
    for erratum in errata():
        figures = "; ".join(f"{name} {value:+.4f}" for name, value in erratum.figures.items())
        yield f'- "{erratum.claim}": {erratum.found} ({figures}).'
    yield ""
    yield "Gradient of the KL at Appendix C's point, |s| / |dW|, exact, by length of an attempt:"
    yield ""
    yield "| KL | " + " | ".join(f"L = {length}" for length in LENGTHS) + " |"
    yield "|---|" + "---|" * len(LENGTHS)
    yield from _growth()


def _growth() -> Iterator[str]:
    from holdfast_studies.decisions.appendix_c import REFERENCE, THETA
    from holdfast_studies.decisions.three_logits import loss_kl_gradient, reward_kl_gradient

    reward = [reward_kl_gradient(THETA, REFERENCE, length=length) for length in LENGTHS]
    yield "| k1 in the reward | " + " | ".join(f"{abs(gradient.s / gradient.dW):.1f}" for gradient in reward) + " |"
    for estimator in ("k2", "k3"):
        loss = [loss_kl_gradient(THETA, REFERENCE, estimator=estimator, length=length) for length in LENGTHS]
        yield (
            f"| {estimator} in the loss | "
            + " | ".join(f"{abs(gradient.s / gradient.dW):.1f}" for gradient in loss)
            + " |"
        )
