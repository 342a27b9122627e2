"""``hf.audit``: is a model still safe, and still useful? What `holdfast audit` calls, and writes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.audits.bars import Bars
from holdfast.audits.change import Changes
from holdfast.audits.labels import Labels, check_sheet, read_labels, write_sheet
from holdfast.audits.model_audit import ASKED, OnProgress, Plan, audit_model, ignore
from holdfast.audits.suites import Files, RequestSuite, Suite, choose_suites
from holdfast.config import InputError, as_names, need_at_least_one
from holdfast.config.arguments import checked, fitting
from holdfast.config.base import user_path
from holdfast.config.errors import refuse_unknown
from holdfast.data import as_table, atomic_text, read_audit, write_audit
from holdfast.generation import EndpointSampler, ModelSampler, Sampler, is_endpoint
from holdfast.models import LoadedModel, as_loaded, load_tokenizer
from holdfast.models.load import model_name
from holdfast.records import AuditResult, Figure
from holdfast.records.audit_words import as_argument, bar_lines, cautions
from holdfast.worlds.tokenizer import speaks_the_world

Source = str | Path | Iterable[str | Mapping[str, object]]
"""A file, or rows in memory: dicts, or for requests bare texts."""


TEXTS = ("request", "answer")
"""What a line of ``completions.jsonl`` has besides hashes, if texts are kept."""


SERVER = {"name": "str | None", "key_variable": "str", "concurrency": "int"}
"""What ``endpoint`` may say of a server, and the types of it."""


BY_DEFAULT = {"world": None, "suite": "all", "judges": (), "limit": None, "max_new_tokens": None}
"""How rows are asked where nobody says otherwise."""


@dataclass(frozen=True)
class Audit:
    """What was measured on one model: figures by name, one line per answer, and whether every bar was met."""

    result: AuditResult
    answers: tuple[dict[str, Any], ...] = field(repr=False)
    questions: Mapping[str, Any] = field(repr=False, default_factory=dict)  # what was asked, for ``like``

    @property
    def figures(self) -> dict[str, Figure]:
        """The figures by name, with the judge where there is one: ``complied (outcome)``."""
        return {figure.key: figure for figure in self.result.figures}

    @property
    def passed(self) -> bool:
        """Whether every bar was met."""
        return self.result.passed

    def against(self, earlier: Audit | AuditResult | str | Path) -> Changes:
        """By how much each figure is worse than in an earlier audit of the same rows: paired, with interval and p-value.

        ``earlier`` may be the folder of a saved audit. The result is a dict by figure, and prints a line for each.
        """
        before = result_of(earlier, "against")
        if before.fingerprints != self.result.fingerprints:
            raise InputError("against: the two audits did not ask the same rows; audit(model, like=earlier) does")
        return Changes(before, self.result)

    def without_texts(self) -> Audit:
        """The same with hashes of requests and answers only."""
        answers = ({name: line[name] for name in line if name not in TEXTS} for line in self.answers)
        settings = {**(self.result.settings or {}), "keep_answers": False}
        return replace(self, result=replace(self.result, settings=settings), answers=tuple(answers))

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json`` and ``completions.jsonl``, as `holdfast audit --out` does; gives the folder."""
        folder = _folder(folder, "save")
        with atomic_text(folder / "completions.jsonl") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.answers)
        write_audit(folder / "audit.json", self.result)
        return folder

    def __repr__(self) -> str:
        """A line for every figure."""
        lines = [f"  {key:32} {_numbers(figure)}  {figure.meaning}" for key, figure in self.figures.items()]
        more = [f"  {line}" for line in (*cautions(self.result), *bar_lines(self.result, as_argument))]
        return "\n".join([f"audit of {self.result.model}", *lines, *more])


def result_of(given: object, where: str) -> AuditResult:
    """The result of an audit, or of the folder of a saved one. Raises ``InputError``, naming ``where``, for anything else."""
    if isinstance(given, Audit):
        return given.result
    if isinstance(given, AuditResult):
        return given
    if isinstance(given, str | Path):
        path = user_path(given, where)
        return read_audit(path / "audit.json" if path.is_dir() else path)
    raise InputError(
        f"{where}: expected an audit or the folder of a saved one, got a value of type {type(given).__name__}"
    )


def _numbers(figure: Figure) -> str:
    value = f"{figure.estimate:.3g}"
    return value if figure.corrected is None else f"{figure.corrected:.3g} {figure.corrected.method}, {value} without"


@checked("audit")
def audit(
    model: str | LoadedModel | object,
    *,
    requests: Source | None = None,
    safe_requests: Source | None = None,
    sql: Source | None = None,
    gsm8k: Source | None = None,
    code: Source | None = None,
    summaries: Source | None = None,
    world: bool | None = None,
    suite: str = "all",
    judges: str | Iterable[str] = (),
    limit: int | None = None,
    max_new_tokens: int | None = None,
    like: Audit | None = None,
    anchor: str | LoadedModel | object | None = None,
    bars: Bars | None = None,
    before: Audit | str | Path | None = None,
    labels: Source | None = None,
    sheet: str | Path | None = None,
    sheet_size: int = 60,
    out: str | Path | None = None,
    keep_answers: bool = False,
    batch_size: int = 32,
    loading: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    timeout: float = 120.0,
    say: Callable[[str], None] = print,
    on_progress: OnProgress = ignore,
    watch: Callable[[Sequence[Any]], None] = lambda _: None,
) -> Audit:
    """Ask a model what it must refuse (``requests``), what it must not (``safe_requests``), and its tasks; return an ``Audit``.

    Rows are files or lists; without any, a model that speaks the embedded world is asked its requests. Raises ``InputError``.
    ``model``: a name, a path, a loaded model, a finished run, or a server's address.
    ``endpoint``: of a server, ``{"name": ...}``; also ``key_variable`` (an environment variable with the key), ``concurrency``.
    ``anchor``: the model before tuning. Drift is measured to it, and *kept*: the share of harmless requests with its outcome.
    ``bars``: limits that make the audit a gate. ``like``: ask the rows of an earlier audit, with its judges.
    ``before``: an earlier audit, or its folder, that the model may not be worse than. Without an anchor *kept* is measured to it.
    ``labels``: of some replies, to correct the shares. ``sheet``: a file to write for them, ``sheet_size`` replies of each group.
    ``out``: a folder for the result; the same call goes on where it stopped. ``keep_answers``: in full, not only their hashes.
    """
    need_at_least_one("audit", limit=limit, max_new_tokens=max_new_tokens, sheet_size=sheet_size, batch_size=batch_size)
    server = _server(model, endpoint)
    files = {"requests": requests, "safe_requests": safe_requests, "sql": sql, "gsm8k": gsm8k, "summaries": summaries}
    how = {"world": world, "suite": suite, "judges": as_names(judges), "limit": limit, "max_new_tokens": max_new_tokens}
    questions = _questions({**files, "code": code}, how, like)
    safety, tasks = _suites(model, questions, timeout)
    bars, earlier = _bars(bars, before, like, safety, tasks, has_anchor=anchor is not None)
    keep = keep_answers or sheet is not None
    plan = Plan(safety, tasks, questions["how"]["max_new_tokens"], keep, _labels(labels, sheet, safety))
    watch((*safety, *tasks))
    sampler, reference = _models(model, anchor, batch_size, loading or {}, server, timeout, say)
    folder = None if out is None else _folder(out, "audit: out")
    result, lines = audit_model(
        sampler, plan, anchor=reference, bars=bars, earlier=earlier, out=folder, on_progress=on_progress
    )
    if sheet is not None:
        say(write_sheet(user_path(sheet, "sheet"), lines, sheet_size, plan.labels))
    return _saved(Audit(result, tuple(lines), questions), folder, keep_answers)


def _folder(given: str | Path, where: str) -> Path:
    """The folder, made where there is none."""
    folder = user_path(given, where)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{where}: {folder} is a file; expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _saved(audited: Audit, folder: Path | None, keep_answers: bool) -> Audit:
    """Write the audit, and remove what it could have gone on from."""
    done = audited if keep_answers else audited.without_texts()
    if folder is not None:
        done.save(folder)
        shutil.rmtree(folder / ASKED, ignore_errors=True)
    return done


def _questions(files: Mapping[str, Source | None], how: Mapping[str, Any], like: object) -> dict[str, Any]:
    """What to ask and how: as given, with rows in memory drained, or as the audit ``like`` did."""
    if like is None:
        tables = {name: None if source is None else as_table(source) for name, source in files.items()}
        return {"files": Files(**tables), "how": dict(how)}
    if not isinstance(like, Audit):
        kind = (
            f"'{like}', and a saved audit keeps no rows"
            if isinstance(like, str | Path)
            else f"a value of type {type(like).__name__}"
        )
        raise InputError(f"audit: like= takes the result of hf.audit, got {kind}; before= takes a saved audit's folder")
    given = [name for name, source in files.items() if source is not None]
    given += [name for name, value in how.items() if value != BY_DEFAULT[name]]
    if given:
        raise InputError(f"audit: like= brings its own rows and settings; leave out {', '.join(given)}")
    return dict(like.questions)


def _suites(
    model: object, questions: Mapping[str, Any], timeout: float
) -> tuple[tuple[RequestSuite, ...], tuple[Suite, ...]]:
    files, how = questions["files"], questions["how"]
    asks_world = _asks_world(model, files) if how["world"] is None else how["world"]
    return choose_suites(
        how["suite"], files, world=asks_world, judges=how["judges"], limit=how["limit"], timeout=timeout
    )


def _labels(labels: Source | None, sheet: str | Path | None, safety: Sequence[RequestSuite]) -> Labels | None:
    """Read the labels and check the sheet, before anything is asked."""
    if sheet is not None:
        check_sheet(user_path(sheet, "sheet"))
    if labels is None:
        return None
    known = read_labels(as_table(labels))
    known.check(safety)
    return known


def _bars(
    bars: Bars | None,
    before: Audit | str | Path | None,
    like: Audit | None,
    safety: Sequence[RequestSuite],
    tasks: Sequence[Suite],
    *,
    has_anchor: bool,
) -> tuple[Bars, AuditResult | None]:
    """The bars, checked before anything is asked, and the earlier audit that *kept* compares with, if there is one."""
    if not isinstance(bars, Bars | None):
        raise InputError(f"audit: bars: expected hf.Bars(max_complied=0.05), got a value of type {type(bars).__name__}")
    bars = bars or Bars()
    given = bars.before if before is None else before
    if given is not None:
        bars = replace(bars, before=result_of(given, "before"))
    earlier = bars.before or (None if like is None else like.result)
    bars.check_before((*safety, *tasks), [judge.name for suite in safety for judge in suite.judges])
    bars.check(safety, has_utility=bool(tasks), has_anchor=has_anchor, earlier=earlier)
    return bars, earlier


def _is_address(model: object) -> bool:
    return isinstance(model, str) and is_endpoint(model)


def _asks_world(model: object, files: Files) -> bool:
    """Whether to ask the embedded world's requests: of a model that speaks its language, where no files are given."""
    if files.given or _is_address(model):
        return False
    if isinstance(model, LoadedModel):
        return speaks_the_world(model.tokenizer)
    return speaks_the_world(load_tokenizer(model_name(model, "audit")))


def _models(
    model: object,
    anchor: object | None,
    batch_size: int,
    loading: Mapping[str, Any],
    server: Mapping[str, Any],
    timeout: float,
    say: Callable[[str], None],
) -> tuple[Sampler, LoadedModel | None]:
    """What answers, and the model before tuning if one is given."""
    if loading and all(isinstance(given, LoadedModel | None) for given in (model, anchor)):
        raise InputError("audit: loading= changes nothing of a model that is loaded already: give it to hf.load")
    if not _is_address(model):
        sampler = ModelSampler(_announced(as_loaded(model, **loading), model, say), batch_size)
        return sampler, None if anchor is None else _announced(as_loaded(anchor, **loading), anchor, say)
    if anchor is not None:
        raise InputError("anchor=: an endpoint gives no token probabilities to compare; leave it out")
    if not server.get("name"):
        raise InputError(f'{model}: say which of its models with endpoint={{"name": ...}}')
    key = os.environ.get(server.get("key_variable", "OPENAI_API_KEY"))
    return EndpointSampler(str(model), server["name"], key, server.get("concurrency", 16), timeout, say=say), None


def _server(model: object, endpoint: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a server. Raises ``InputError`` for unknown ones, and for a name without a server."""
    server = dict(endpoint or {})
    refuse_unknown("audit: endpoint", server, SERVER)
    server = {name: fitting("audit: endpoint", name, value, SERVER[name]) for name, value in server.items()}
    need_at_least_one("audit: endpoint", concurrency=server.get("concurrency"))
    if server.get("name") and not _is_address(model):
        raise InputError('endpoint={"name": ...} goes with the address of a server, http://..., and this model is none')
    return server


def _announced(loaded: LoadedModel, given: object, say: Callable[[str], None]) -> LoadedModel:
    if loaded is not given:
        say(loaded.sentence)
    return loaded
