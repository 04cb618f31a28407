"""Reads a scenario file; every mistake is named with its key, and with what is allowed there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from overlay.errors import ConfigError
from sims.scenarios.laws import Sessions
from sims.scenarios.schema import Partition, Scenario, SessionChurn
from sims.scenarios.units import mistakes

MAX_FILE_BYTES = 1024 * 1024

_LISTS = ("churn", "faults")
_AT = re.compile(r"(?P<what>.*?)(?: - at `\$?\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`$")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`$")
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A scenario, and where it was written."""

    name: str  #: of the file without ``.toml``
    text: str
    folder: Path  #: relative paths in it start here


def read(path: Path) -> ScenarioFile:
    """Read a file, not looking into it yet.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} has {len(data)} bytes, {MAX_FILE_BYTES} are allowed")
    try:
        return ScenarioFile(path.stem, data.decode("utf-8-sig"), path.parent)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8") from None


def parse(file: ScenarioFile, changes: Iterable[str] = ()) -> Scenario:
    """Return the scenario; ``changes`` are ``key=value`` with dots, as in ``faults.0.share=0.2``.

    Raises:
        ConfigError: it is no TOML, or says what no scenario can; the text names file and key.
    """
    name, tables = f"{file.name}.toml", tables_of(file, changes)
    try:
        scenario = msgspec.convert(tables, Scenario)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_in_words(str(error), tables)}") from None
    for key, mistake in _mistakes(scenario):
        raise ConfigError(f"{name}: {key}: {mistake}")
    return scenario


def _mistakes(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values make no sense together, and why."""
    for number, churn in enumerate(scenario.churn):
        if isinstance(churn, SessionChurn):
            try:
                Sessions(churn.law, churn.mean_s, churn.shape)
            except ConfigError as error:
                yield f"churn[{number}]", str(error)
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, Partition) and sum(fault.groups) > 1 + 1e-9:
            whole = f"{sum(fault.groups):g}"
            yield f"faults[{number}].groups", f"they add up to {whole}, and 1 is all brokers"
    yield from mistakes(scenario)


def tables_of(file: ScenarioFile, changes: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a file says, with changes, not knowing yet whether it makes sense.

    Raises:
        ConfigError: it is no TOML, or a change is none.
    """
    try:
        tables = tomllib.loads(file.text)
    except ValueError as error:  # a number of too many digits is no TOMLDecodeError
        raise ConfigError(f"{file.name}.toml: {_uncapitalised(str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{file.name}.toml: lists within lists, too deep to be read") from None
    for change in changes:
        _change(tables, change)
    return tables


def _change(tables: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(f"--set {change!r}: give key=value, such as faults.0.share=0.2")
    here: Any = tables
    for at, step in enumerate(steps[:-1]):
        is_list = isinstance(here, list)
        if at == 0 and step in _LISTS and step not in here:
            raise ConfigError(
                f"--set {change!r}: the scenario has no {step}; a file of your own can have some"
            )
        here = _item(here, step, change) if is_list else here.setdefault(step, {})
        if not isinstance(here, dict | list):
            raise ConfigError(f"--set {change!r}: {'.'.join(steps[: at + 1])} is no table")
    if isinstance(here, list):
        here[here.index(_item(here, steps[-1], change))] = _value(text)
    else:
        here[steps[-1]] = _value(text)


def _item(items: list[Any], step: str, change: str) -> Any:  # noqa: ANN401 - as TOML has it
    if not step.isdecimal() or int(step) >= len(items):
        raise ConfigError(f"--set {change!r}: {step!r} must be a number below {len(items)}")
    return items[int(step)]


def _value(text: str) -> Any:  # noqa: ANN401 - as TOML has it
    """Return what stands right of the equals sign: a TOML value, or else a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


# ── mistakes in words ─────────────────────────────────────────────────────────────────────────


def _in_words(said: str, tables: Mapping[str, Any]) -> str:
    found = _AT.match(said)
    what, path = (found["what"], found["path"] or "") if found else (said, "")
    place = f"{path}: " if path else ""
    held = _type_at(path, tables)
    if unknown := _UNKNOWN.match(what):
        return f"{place}unknown key {unknown['key']!r}; {_nearest(unknown['key'], _keys(held))}"
    if missing := _MISSING.match(what):
        return f"{place}the key {missing['key']!r} is missing"
    if what.startswith("Invalid value") and path.endswith("kind"):
        kind = what.removeprefix("Invalid value ").strip("'")
        return f"{place}no kind {kind!r}; {_nearest(kind, _kinds(_type_at(_parent(path), {})))}"
    if what.startswith("Invalid enum value"):
        value = what.removeprefix("Invalid enum value ").strip("'")
        return f"{place}no {value!r}; {_nearest(value, _values(held))}"
    return f"{place}{_uncapitalised(what.replace('`', ''))}"


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _nearest(key: str, allowed: list[str]) -> str:
    there = f"there are: {', '.join(allowed)}"
    near = get_close_matches(key, allowed, n=1)
    return f"nearest is {near[0]!r}; {there}" if near else there


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _type_at(path: str, tables: Mapping[str, Any]) -> inspect.Type:
    """Return the type of what stands at ``path``; of a union, that of its kind in ``tables``."""
    held: inspect.Type = inspect.type_info(Scenario)
    value: Any = tables
    for step in _STEP.findall(path):
        held = _bare(held)
        if step.startswith("["):
            held = held.item_type if isinstance(held, inspect.VarTupleType) else held
            at = step.strip("[]")
            value = value[int(at)] if isinstance(value, list) and at.isdecimal() else None
        elif isinstance(held, inspect.StructType):
            held = next((f.type for f in held.fields if f.encode_name == step), held)
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, dict):
            held = _of_kind(held, value.get("kind"))
    return _bare(held)


def _bare(held: inspect.Type) -> inspect.Type:
    """Return what an annotation, or an optional one, is about."""
    while isinstance(held, inspect.Metadata):
        held = held.type
    if isinstance(held, inspect.UnionType):
        some = [each for each in held.types if not isinstance(each, inspect.NoneType)]
        if len(some) == 1:
            return _bare(some[0])
    return held


def _of_kind(held: inspect.Type, kind: object) -> inspect.Type:
    held = _bare(held)
    if isinstance(held, inspect.UnionType):
        for each in held.types:
            if isinstance(each, inspect.StructType) and each.tag == kind:
                return each
    return held


def _keys(held: inspect.Type) -> list[str]:
    if not isinstance(held, inspect.StructType):
        return []
    own = [held.tag_field] if held.tag_field is not None else []
    return [*own, *(field.encode_name for field in held.fields)]


def _kinds(held: inspect.Type) -> list[str]:
    held = _bare(held)
    types = held.types if isinstance(held, inspect.UnionType) else (held,)
    return [str(each.tag) for each in types if isinstance(each, inspect.StructType)]


def _values(held: inspect.Type) -> list[str]:
    if isinstance(held, inspect.EnumType):
        return [str(each.value) for each in held.cls]
    return [str(value) for value in held.values] if isinstance(held, inspect.LiteralType) else []
