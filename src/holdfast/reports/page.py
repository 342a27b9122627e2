"""The page put together: parts, data and assets in one file that runs nothing but its own script (by hash)."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files

import jinja2
from markupsafe import Markup

from holdfast.reports.attribution import attribution_part
from holdfast.reports.audit import audit_part
from holdfast.reports.decisions import decisions_part
from holdfast.reports.depth import depth_parts
from holdfast.reports.findings import findings
from holdfast.reports.heat import LEVELS, heat_rows
from holdfast.reports.measures import meanings_of, names_of
from holdfast.reports.microscope import FIGURES, microscope
from holdfast.reports.outcomes import WORDS, matrix_outcomes
from holdfast.reports.papers import papers_part
from holdfast.reports.plane import legend_mark, plane, plane_points, utility_limits
from holdfast.reports.pooling import Matrix, pool
from holdfast.reports.reading import RunData
from holdfast.reports.reinforced import reinforced_part
from holdfast.reports.text import shown
from holdfast.reports.training import compared_runs, trained_runs

MAX_CONFIG = 20_000


def render(data: RunData) -> str:
    """The whole page as text. The same run gives the same bytes."""
    notes = list(data.notes)
    matrix = pool(data.cells) if data.cells else None
    if matrix and matrix.num_repeated:
        notes.append(f"matrix.jsonl: {matrix.num_repeated:,} rows repeat a cell; the last row of each cell counts.")
    planes = _planes(matrix) if matrix else []
    depth = depth_parts(data, matrix)
    compared, trained = compared_runs(data.curves), trained_runs(data.curves, notes)
    reinforced = reinforced_part(data.curves, notes)
    answers = microscope(data.answers, notes)
    is_left_out = {
        "The matrix and the safety-utility plane: no cells in matrix.jsonl.": matrix is None,
        "The safety-utility plane: no cell has both utility and attack success.": matrix and not planes,
        "KL by token position: neither depth.json nor a cell with kl_by_position.": not depth,
        "Training curves: no steps.jsonl with figures by role, here or one folder down.": not (trained or reinforced),
        "The token microscope: no answers in microscope.json.": answers is None,
        "The audit: no audit.json.": data.audit is None,
        "The configuration: no config.yaml.": data.config is None,
    }
    decided = decisions_part(data.decisions)
    drawn = [*(part.charts for part in depth), compared, *(run.charts for run in trained), decided]
    drawn += [run.charts for run in reinforced.runs] if reinforced else []
    charts = [chart for part in drawn for _, chart in part]
    payload = {"charts": {chart.key: chart.figures for chart in charts}, "microscope": answers}
    template = environment().get_template("page.html.j2")
    return template.render(
        run=data,
        matrix=matrix,
        rows=heat_rows(matrix) if matrix else [],
        replied=matrix_outcomes(matrix) if matrix else [],
        outcome_words=WORDS,
        names=names_of(matrix) if matrix else {},
        meanings=meanings_of(matrix) if matrix else {},
        levels=range(LEVELS + 1),
        planes=planes,
        legend=[(name, legend_mark(i)) for i, name in enumerate(matrix.defences)] if planes and matrix else [],
        depth=depth,
        compared=compared,
        trained=trained,
        reinforced=reinforced,
        decided=decided,
        attributed=None if data.attribution is None else attribution_part(data.attribution, notes),
        answers=answers,
        figures=FIGURES,
        audit=None if data.audit is None else audit_part(data.audit),
        papers=papers_part(data.papers) if data.papers else None,
        findings=findings(matrix) if matrix else None,
        config=None if data.config is None else shown(data.config, MAX_CONFIG),
        notes=notes,
        left_out=[line for line, is_true in is_left_out.items() if is_true],
        payload=embedded_json(payload),
        **_assets(),
    )


def embedded_json(value: object) -> Markup:
    """JSON for a script element: no character in it can end the element, begin a comment or end a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def environment(*more: jinja2.BaseLoader) -> jinja2.Environment:
    """Templates of the report, and those of ``more``. Every text in them is escaped, and a name that is not there is an error."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("holdfast.reports", "assets"), *more]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _assets() -> dict[str, Markup]:
    return {"style": Markup(asset("page.css")), "script": Markup(_script()), "policy": Markup(page_policy())}


def page_policy() -> str:
    """The policy that names style and script by their hashes: nothing else on the page may run or load."""
    policy = [
        "default-src 'none'",
        f"style-src '{_hash(asset('page.css'))}'",
        f"script-src '{_hash(_script())}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ]
    return "; ".join(policy)


def _script() -> str:
    return asset("shared.js") + asset("page.js")


def asset(name: str) -> str:
    """The text of a file of the page."""
    # Line endings as an HTML parser leaves them, or the hashes would not hold for a checkout with CRLF.
    return files("holdfast.reports").joinpath("assets", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _planes(matrix: Matrix) -> list[tuple[str, Markup]]:
    across = utility_limits(matrix)
    by_attack = [(attack, plane_points(matrix, attack)) for attack in matrix.attacks]
    return [(attack, plane(attack, points, across)) for attack, points in by_attack if points]
