"""YAML + dotted overrides -> a frozen model; every mistake is one line with file, line and field.

``data: !required your rows`` in a file is a value that the command line has to give: ``streams.0.data=rows.jsonl``.
``include: FILE`` takes the settings of another file, found beside this one, which this one's settings replace or add to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.config.base import Settings
from holdfast.config.errors import FieldError, InputError, nearest_or_all
from holdfast.config.recipes import shown_path

SettingsType = TypeVar("SettingsType", bound=Settings)
FieldPath = tuple[str | int, ...]
INCLUDE = "include"
EXPECTED = {
    "tuple_type": "expected a list",
    "model_type": "expected settings by name, key: value",
    "int_from_float": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "string_type": "expected a text",
    "too_short": "expected at least one",
}
"""Plain words for pydantic's types of mistakes."""


def load_config(kind: type[SettingsType], path: str | Path, overrides: Sequence[str] = ()) -> SettingsType:
    """Read ``path``, apply ``key.sub=value`` overrides, validate."""
    path = Path(path)
    tree, places = _read_with_included(path, ())
    _refuse_given_twice(overrides)
    for override in overrides:
        _apply_override(tree, override)
    overridden = _overridden(overrides)
    if missing := [_explain_required(*required, places) for required in _required_values(tree, ())]:
        unknown = [detail for detail in _faults(kind, tree) if detail["type"] == "extra_forbidden"]
        raise InputError("\n".join([*(_explain(kind, fault, path, places, overridden) for fault in unknown), *missing]))
    return validated(kind, tree, path, places, overridden)


def has_section(path: str | Path, name: str) -> bool:
    """Whether a file, or one that it includes, has this section. No value is checked; False if it cannot be read."""
    try:
        return name in _read_with_included(Path(path), ())[0]
    except InputError:
        return False


def _faults(kind: type[SettingsType], tree: Mapping[str, Any]) -> list[ErrorDetails]:
    try:
        kind.model_validate(tree)
    except ValidationError as error:
        return error.errors()
    return []


@contextmanager
def naming_place(path: str | Path, overrides: Sequence[str] = ()) -> Iterator[None]:
    """Add file and line to a ``FieldError`` raised inside, as ``load_config`` does for a wrong value."""
    try:
        yield
    except FieldError as error:
        at = tuple(int(part) if part.isdigit() else part for part in error.field.split("."))
        _, places = _read_with_included(Path(path), ())
        raise InputError(f"{_place(at, Path(path), places, _overridden(overrides))}: {error}") from None


def _refuse_given_twice(overrides: Sequence[str]) -> None:
    """A setting given twice, or one that a later override would replace as a part of its section or list."""
    keys = [override.partition("=")[0] for override in overrides]
    for number, later in enumerate(keys):
        for earlier, other in zip(keys[:number], overrides, strict=False):
            if f"{earlier}.".startswith(f"{later}."):
                raise InputError(
                    f"command line: '{other}' and '{overrides[number]}' set the same; leave one of them out"
                )


def _overridden(overrides: Sequence[str]) -> set[str]:
    return {override.partition("=")[0] for override in overrides}


def validated(
    kind: type[SettingsType],
    tree: Mapping[str, Any],
    where: str | Path,
    places: Mapping[FieldPath, str] | None = None,
    overridden: Collection[str] = (),
) -> SettingsType:
    """The settings, or an ``InputError`` that names every wrong field. ``places``: file and line of each, else ``where``."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(fault_lines(kind, error, where, places, overridden)) from None


def fault_lines(
    kind: type[Settings],
    error: ValidationError,
    where: str | Path,
    places: Mapping[FieldPath, str] | None = None,
    overridden: Collection[str] = (),
) -> str:
    """A line for every wrong field, in our words."""
    details = error.errors()
    parents = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    # A list with a wrong item counts as too short for pydantic, which passes the item over.
    wrong = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in parents]
    return "\n".join(_explain(kind, detail, where, places or {}, overridden) for detail in wrong)


def dump_config(config: Settings) -> str:
    """The YAML that loads back to ``config``, defaults written out."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads 1e-5 as a number (YAML 1.1 calls it a string) and refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "expected a name before the colon", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key.value}' stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # 2026-13-01 looks like a date, and a number may have too many digits
            raise yaml.constructor.ConstructorError(
                None, None, f"{error}; a text needs quotes", node.start_mark
            ) from None


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


class _Required(NamedTuple):
    """A value that is still to be given; ``about`` says what it is."""

    about: str


def _required(loader: yaml.SafeLoader, node: yaml.Node) -> _Required:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.constructor.ConstructorError(None, None, "!required takes a sentence", node.start_mark)
    return _Required(str(loader.construct_scalar(node)))


_Loader.add_constructor("!required", _required)


def _required_values(tree: Any, at: FieldPath) -> Iterator[tuple[FieldPath, _Required]]:
    if isinstance(tree, _Required):
        yield at, tree
    elif isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _required_values(value, (*at, key))


def _explain_required(at: FieldPath, required: _Required, places: Mapping[FieldPath, str]) -> str:
    field = ".".join(map(str, at))
    return f"{places[at]}: field '{field}': add {field}=VALUE to the command, {required.about}"


def _read_with_included(path: Path, including: tuple[Path, ...]) -> tuple[dict[str, Any], dict[FieldPath, str]]:
    """The settings of a file over those of the file that it includes, and where each stands."""
    tree, lines = _read_yaml(path)
    places = {at: f"{shown_path(path)}:{line}" for at, line in lines.items()}
    if INCLUDE not in tree:
        return tree, places
    other = tree.pop(INCLUDE)
    if not isinstance(other, str):
        raise InputError(f"{places[INCLUDE,]}: field '{INCLUDE}': expected the name of a file, got {other!r}")
    beside = (path.parent / other).resolve()
    if beside in (*including, path.resolve()):
        raise InputError(f"{places[INCLUDE,]}: field '{INCLUDE}': {other} includes itself")
    below, places_below = _read_with_included(beside, (*including, path.resolve()))
    return _over(below, tree), {**places_below, **places}


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above``'s values replace ``below``'s; mappings are put together, lists are not."""
    merged = dict(below)
    for key, value in above.items():
        there = merged.get(key)
        merged[key] = _over(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return merged


def _read_yaml(path: Path) -> tuple[dict[str, Any], dict[FieldPath, int]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    try:
        tree = yaml.load(text, _Loader)
        node = yaml.compose(text, _Loader)
    except RecursionError:
        raise InputError(f"{path}: not valid YAML: nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{where}: not valid YAML: {_yaml_problem(error)}") from None
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping of settings at the top")
    return tree, dict(_line_numbers(node, ()))


def _yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong, for somebody who does not know YAML's grammar."""
    problem = str(getattr(error, "problem", error))
    if isinstance(error, yaml.constructor.ConstructorError):
        return problem  # our own words
    if "'\\t'" in problem:
        return "a tab stands here; indent with spaces"
    if problem == "found unexpected end of stream":
        return "a quote is opened and not closed"
    if isinstance(error, yaml.parser.ParserError) or problem.startswith(("mapping values", "could not find expected")):
        return "the indentation or a bracket is wrong here or just before; a value with ': ' in it needs quotes"
    return problem


def _line_numbers(node: yaml.Node, at: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*at, key.value), key.start_mark.line + 1
            yield from _line_numbers(value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*at, index), value.start_mark.line + 1
            yield from _line_numbers(value, (*at, index))


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(f"override '{override}': expected key=value, for instance training.lr=1e-5")
    *parents, last = key.split(".")
    target: Any = tree
    for depth, part in enumerate(parents):
        target = _descend(target, part, ".".join(parents[: depth + 1]), override)
    parsed = _parsed(value, override)
    if isinstance(target, list):
        target[_index(target, last, override)] = parsed
    else:
        target[last] = parsed


def _parsed(value: str, override: str) -> Any:
    """The value as YAML, but for comments: on a command line ' #2' is part of a name."""
    try:
        node = yaml.compose(value, _Loader)
        is_bare = node is None or (isinstance(node, yaml.ScalarNode) and node.style is None)
        end = node.end_mark.index if node else 0
        if is_bare and value[end:].strip():
            return value
        return yaml.load(value, _Loader)
    except (yaml.YAMLError, RecursionError):
        raise InputError(
            f"override '{override}': the value is not valid YAML; a text with special signs needs quotes"
        ) from None


def _descend(target: Any, part: str, name: str, override: str) -> Any:
    if isinstance(target, list):
        return target[_index(target, part, override)]
    child = target.setdefault(part, {})
    if child is None:
        child = target[part] = {}
    if not isinstance(child, dict | list):
        raise InputError(f"override '{override}': '{name}' is a single value and has no fields")
    return child


def _index(items: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(items):
        expected = f"an index from 0 to {len(items) - 1}" if items else "no index, since the list is empty"
        raise InputError(f"override '{override}': expected {expected}, got '{part}'")
    return int(part)


def _explain(
    kind: type[Settings],
    detail: ErrorDetails,
    path: str | Path,
    places: Mapping[FieldPath, str],
    overridden: Collection[str],
) -> str:
    at = tuple(part for part in detail["loc"] if not _is_union_tag(part))
    field = ".".join(map(str, at))
    where = _place(at, path, places, overridden)
    message = EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        known = _fields_at(kind, at[:-1])
        hint = _elsewhere(kind, at) or nearest_or_all(str(at[-1]), known)
        return f"{where}: field '{field}': unknown{hint}"
    if detail["type"] == "missing":
        return f"{where}: field '{field}': missing"
    line = f"{where}: field '{field}': {message}" if field else f"{where}: {message}"
    # A check of several fields at once gets them all; the message says which ones it means.
    return line if isinstance(detail["input"], dict) else f"{line}, got {_shown(detail['input'], path)}"


def _shown(value: Any, path: str | Path) -> str:
    """As whoever wrote it has written it: in Python, or in YAML, where None is null and True is true."""
    if isinstance(path, Path) and (value is None or isinstance(value, bool)):
        return "null" if value is None else str(value).lower()
    return repr(value)


def _place(at: FieldPath, path: str | Path, places: Mapping[FieldPath, str], overridden: Collection[str]) -> str:
    """Where a field was set: it, a part of it, or what it is part of."""
    inside = ".".join(map(str, at)) + "."
    if at not in places and any(key.startswith(inside) for key in overridden):
        return "command line"
    parts = [at[:length] for length in range(len(at), 0, -1)]
    if any(".".join(map(str, part)) in overridden for part in parts):
        return "command line"
    for part in parts:
        if part in places:
            return places[part]
    return shown_path(path) if isinstance(path, Path) else path


def _elsewhere(kind: type[Settings], at: FieldPath) -> str:
    """``lr`` at the top means ``training.lr``: the right name in the wrong place."""
    for field, info in kind.model_fields.items() if len(at) == 1 else ():
        if any(at[0] in model.model_fields for model in _models_in(info.annotation)):
            inside = f"{field}.0" if get_origin(info.annotation) is tuple else field
            return f"; did you mean '{inside}.{at[0]}'?"
    return ""


def _is_union_tag(part: str | int) -> bool:
    return isinstance(part, str) and (part[:1].isupper() or "[" in part or part in {"str", "int", "float", "bool"})


def _fields_at(kind: type[BaseModel], at: FieldPath) -> list[str]:
    """Names of the fields that may stand at ``at``, found by walking the models' annotations."""
    models: list[type[BaseModel]] = [kind]
    for part in at:
        if isinstance(part, int):
            continue
        models = [
            inner
            for model in models
            if part in model.model_fields
            for inner in _models_in(model.model_fields[part].annotation)
        ]
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
