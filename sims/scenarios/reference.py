"""The page that says what a scenario file may say, written from :mod:`sims.scenarios.schema`."""

from __future__ import annotations

import inspect as docstrings
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from overlay.errors import InvariantError
from sims.scenarios.schema import (
    Churn,
    Fault,
    Network,
    Promises,
    Records,
    Ring,
    Scenario,
    Units,
    Workload,
)

_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def page() -> str:
    """Return the tables of all keys, as Markdown."""
    lines = [
        "## The file",
        "",
        *_table(Scenario),
        "## `[ring]`",
        "",
        *_table(Ring),
        "## `[units]`",
        "",
        *_table(Units),
        "## `[records]`",
        "",
        *_table(Records),
        "## `[network]`",
        "",
        *_table(Network),
        "## `[[churn]]`",
        "",
    ]
    for kind in _kinds(Churn):
        lines += _section(kind)
    lines += ["## `[[faults]]`", ""]
    for kind in _kinds(Fault):
        lines += _section(kind)
    lines += ["## `[workload]`", "", *_table(Workload), "## `[promises]`", "", *_table(Promises)]
    return "\n".join(lines).rstrip() + "\n"


def _kinds(union: Any) -> list[type[msgspec.Struct]]:  # noqa: ANN401 - a union is no type to mypy
    kinds: list[type[msgspec.Struct]] = list(union.__args__)
    return kinds


def _section(kind: type[msgspec.Struct]) -> list[str]:
    return [f'### `kind = "{kind.__struct_config__.tag}"`', "", *_table(kind)]


def _table(kind: type[msgspec.Struct]) -> list[str]:
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise InvariantError(f"BUG: {kind} is not a struct")
    rows = [_row(field) for field in info.fields]
    about = docstrings.getdoc(kind) or ""
    head = ["| key | value | left out | meaning |", "|---|---|---|---|"]
    return [about, "", *head, *rows, ""]


def _row(field: inspect.Field) -> str:
    default = "required"
    if field.default is not msgspec.NODEFAULT:
        default = "" if isinstance(field.default, msgspec.Struct) else _value(field.default)
    allowed = ", ".join(_allowed(field.type))
    return f"| `{field.encode_name}` | {allowed} | {default} | {_meaning(field.type)} |"


def _value(value: object) -> str:
    if value is None or value in ("", ()):
        return ""
    text = msgspec.json.encode(value).decode()
    return f"`{text}`"


def _meaning(held: inspect.Type) -> str:
    if isinstance(held, inspect.Metadata) and held.extra_json_schema is not None:
        return str(held.extra_json_schema.get("description", ""))
    if isinstance(held, inspect.StructType):
        return "a table of its own"
    if isinstance(held, inspect.VarTupleType):
        return "any number of tables, each of a kind"
    return ""


def _allowed(held: inspect.Type) -> Iterator[str]:
    """Yield what a value may be, in words."""
    match held:
        case inspect.Metadata():
            yield from _allowed(held.type)
        case inspect.UnionType():
            for each in held.types:
                if not isinstance(each, inspect.NoneType):
                    yield from _allowed(each)
        case inspect.EnumType():
            yield " or ".join(f"`{member.value}`" for member in held.cls)
        case inspect.LiteralType():
            yield " or ".join(f"`{value}`" for value in held.values)
        case inspect.BoolType():
            yield "`true` or `false`"
        case inspect.IntType() | inspect.FloatType():
            yield "number" if isinstance(held, inspect.FloatType) else "whole number"
            for name, words in _BOUNDS.items():
                bound = getattr(held, name)
                if bound is not None:
                    yield f"{words} {bound:g}"
        case inspect.StrType():
            yield "text"
        case inspect.VarTupleType() if not isinstance(held.item_type, inspect.UnionType):
            yield "list of: " + " ".join(_allowed(held.item_type))
        case _:
            yield "table"
