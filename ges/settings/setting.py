"""One setting: its key, its flag, its environment variable, and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_type_hints

import msgspec
from msgspec import Meta, inspect

PREFIX = "CHORDAL_"  #: of environment variables


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of the file."""


@dataclass(frozen=True, slots=True)
class Form:
    """How values are written that are neither plain text nor plain numbers."""

    wanted: str  #: what may be written, in words
    read: Callable[[Any], Any]  #: from what is written; raises ValueError or ConfigError
    write: Callable[[Any], Any]  #: and back
    is_list: bool = False
    alone: str | None = None  #: what its flag says without a value; None: it needs one


@dataclass(frozen=True, slots=True)
class About:
    """What a field of the schema says of its setting, beside its type."""

    flag: str  #: with two dashes
    env: str
    metavar: str
    form: Form | None
    reloads: bool  #: it can change while the broker runs


def setting(
    about: str,
    flag: str,
    metavar: str = "",
    *,
    form: Form | None = None,
    env: str = "",
    reloads: bool = False,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    pattern: str | None = None,
) -> Meta:
    """Describe one setting, for ``Annotated``.

    Args:
        about: what it is, one sentence for people.
        flag: of ``chordal serve``, with its dashes; the environment variable is named like it.
        metavar: what stands for the value in help.
        form: how it is written, where its type does not say that.
        env: name of the environment variable, if it is not named like the flag.
        reloads: it can change while the broker runs.
        ge: the least value.
        gt: a bound that is none of the values.
        le: the largest value.
        pattern: regular expression that a text must match.
    """
    name = env or PREFIX + flag.removeprefix("--").replace("-", "_").upper()
    extra = {"about": About(flag, name, metavar, form, reloads)}
    if pattern is not None:
        return Meta(description=about, pattern=pattern, extra=extra)
    if gt is not None:
        return Meta(description=about, gt=gt, le=le, extra=extra)
    return Meta(description=about, ge=ge, le=le, extra=extra)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a broker."""

    key: str  #: in the file, with dots: ``limits.clients``
    text: str  #: what it is
    about: About
    default: Any
    type: Any  #: as :func:`msgspec.convert` takes it
    info: inspect.Type  #: the same, taken apart

    @property
    def table(self) -> str:
        """The table of the file that it stands in; empty: above all tables."""
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its key without the table."""
        return self.key.rpartition(".")[2]

    @property
    def bare(self) -> inspect.Type:
        """What its values are, without bounds, and whether there need be one."""
        held = self.info
        while isinstance(held, inspect.Metadata):
            held = held.type
        if isinstance(held, inspect.UnionType):
            [held] = [each for each in held.types if not isinstance(each, inspect.NoneType)]
        return held

    @property
    def choices(self) -> tuple[str, ...]:
        """All values there are, if they can be counted."""
        held = self.bare
        if isinstance(held, inspect.EnumType):
            return tuple(str(each.value) for each in held.cls)
        return tuple(map(str, held.values)) if isinstance(held, inspect.LiteralType) else ()

    @property
    def is_list(self) -> bool:
        """Its value is a list."""
        return self.about.form is not None and self.about.form.is_list

    @property
    def metavar(self) -> str:
        """What stands for the value in help."""
        return self.about.metavar or "|".join(self.choices) or "VALUE"


def settings_of(schema: type[msgspec.Struct], prefix: str = "") -> list[Setting]:
    """Return the settings that a struct and the structs in it have, in their order."""
    hints = get_type_hints(schema, include_extras=True)
    struct = inspect.type_info(schema)
    assert isinstance(struct, inspect.StructType)
    found: list[Setting] = []
    for field in struct.fields:
        key = prefix + field.encode_name
        if isinstance(field.type, inspect.StructType):
            found += settings_of(field.type.cls, f"{key}.")
            continue
        held = field.type
        assert isinstance(held, inspect.Metadata), f"{key} is not described"
        about = (held.extra or {})["about"]
        text = (held.extra_json_schema or {})["description"]
        found.append(Setting(key, text, about, field.default, hints[field.name], held))
    return found


def plain(value: object) -> object:
    """Return a value as JSON and TOML have it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
