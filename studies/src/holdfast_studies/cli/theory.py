"""`holdfast diagnose theory`: Appendix C of [004] recomputed, its errata, and how the three-logit model's gradients grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, write_json
from holdfast_studies.markdown import table

LENGTHS = (8, 64, 512)


def theory(
    results: Annotated[
        Path | None, typer.Option(help="Write the page here, between its marks", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Every number of Appendix C beside the exact one, and what speaks against its claims."""
    from holdfast.data import write_between_marks
    from holdfast_studies.decisions import appendix_c

    text = "\n".join(_page()) + "\n"
    if results is not None:
        write_between_marks(results, text, "theory")
    rows = [asdict(row) for row in appendix_c.table()]
    if not write_json(
        json, {"kind": "theory", "table": rows, "errata": [asdict(erratum) for erratum in appendix_c.errata()]}
    ):
        typer.echo(text)


def _page() -> Iterator[str]:
    from holdfast_studies.decisions import appendix_c

    yield "Written by `holdfast diagnose theory`."
    yield ""
    rows = ([row.name, f"{row.paper:+.4f}", f"{row.exact:+.6f}"] for row in appendix_c.table())
    yield table(["", "paper", "exact"], rows, tight=True)
    yield ""
    for erratum in appendix_c.errata():
        figures = "; ".join(f"{name} {value:+.4f}" for name, value in erratum.figures.items())
        yield f'- "{erratum.claim}": {erratum.found} ({figures}).'
    yield ""
    yield "Gradient of the KL at Appendix C's point, |s| / |dW|, exact, by length of an attempt:"
    yield ""
    yield table(["KL", *(f"L = {length}" for length in LENGTHS)], _growth(), tight=True)


def _growth() -> Iterator[list[str]]:
    """For each KL how many times the gradient of s is that of dW, by length."""
    from holdfast_studies.decisions.appendix_c import REFERENCE, THETA
    from holdfast_studies.decisions.three_logits import loss_kl_gradient, reward_kl_gradient

    reward = [reward_kl_gradient(THETA, REFERENCE, length=length) for length in LENGTHS]
    yield ["k1 in the reward", *(f"{abs(gradient.s / gradient.dW):.1f}" for gradient in reward)]
    for estimator in ("k2", "k3"):
        loss = [loss_kl_gradient(THETA, REFERENCE, estimator=estimator, length=length) for length in LENGTHS]
        yield [f"{estimator} in the loss", *(f"{abs(gradient.s / gradient.dW):.1f}" for gradient in loss)]
