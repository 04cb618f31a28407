"""All settings of a broker, from the file, the environment and the flags, and whence each came.

A flag is stronger than an environment variable, that is stronger than the file, and that is
stronger than the default. An environment variable that is set and empty says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

from ges.errors import SettingsError, WrongValue
from ges.settings.files import Entry, SettingsFile, read_file
from ges.settings.schema import Settings
from ges.settings.setting import PREFIX, settings_of
from ges.settings.values import from_text, from_toml
from overlay.wording import printable

TABLE = settings_of(Settings)
BY_KEY = {setting.key: setting for setting in TABLE}
TABLES = tuple(dict.fromkeys(setting.table for setting in TABLE if setting.table))

DEFAULT_FILE = Path("chordal.toml")  #: how such a file is called; none is read that is not named

#: Variables that are no settings of a broker.
OTHER_VARIABLES = ("CONFIG", "CONTEXT", "DEBUG", "TOKEN", "TOKEN_FILE", "URL")
_NEAR = 0.85  #: so alike are a variable and the one that was meant


class Source(Enum):
    """What a value came from, the weakest first."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a setting, and whence it came."""

    value: Any
    source: Source
    place: str  #: ``default``, ``chordal.toml:12``, ``CHORDAL_LOG`` or ``--log-level``


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the settings of one broker are looked for; asked again when it is to reload them."""

    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)  #: values by key, of those given


@dataclass(frozen=True, slots=True)
class Gathered:
    """The settings of one broker."""

    found: dict[str, Found]  #: by key, in the order of the schema
    settings: Settings

    def value(self, key: str) -> Any:  # noqa: ANN401 - as the setting has it
        """Return one value."""
        return self.found[key].value


def gather(sources: Sources) -> Gathered:
    """Return all settings.

    Raises:
        SettingsError: a variable or the file is wrong; it has one line for each mistake.
        ConfigError: the file cannot be read.
    """
    found = {each.key: Found(each.default, Source.DEFAULT, "default") for each in TABLE}
    mistakes: list[str] = []
    if sources.file is not None:
        _take_file(read_file(sources.file), found, mistakes)
    _take_environment(sources.environment, found, mistakes)
    if mistakes:
        raise SettingsError(mistakes)
    for key, value in sources.flags.items():
        found[key] = Found(value, Source.FLAG, BY_KEY[key].about.flag)
    return Gathered(found, settings_from({key: each.value for key, each in found.items()}))


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Return the structs with these values, by key."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    top = tables.pop("")
    kinds = {name: type(getattr(Settings(), name)) for name in tables}
    return Settings(**top, **{name: kinds[name](**inside) for name, inside in tables.items()})


def odd_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield words on variables that say nothing, and are named nearly like one that does.

    Others may set ``CHORDAL_...`` for ends of their own: Kubernetes does, where a service is
    called chordal. So they are no mistakes.
    """
    known = [each.about.env for each in TABLE] + [PREFIX + name for name in OTHER_VARIABLES]
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, 1, _NEAR)
            if near:
                yield f"{printable(name)} is not known and says nothing; the nearest is {near[0]}"


# ── what each source says ─────────────────────────────────────────────────────────────────────


def _take_file(file: SettingsFile, found: dict[str, Found], mistakes: list[str]) -> None:
    for entry in file.entries:
        place, key = file.place(entry), ".".join(entry.path)
        shown = printable(key)
        setting = BY_KEY.get(key)
        if setting is None:
            why = _why_no_setting(entry)
            if why:
                mistakes.append(f"{place}: {shown}: {why}")
            continue
        try:
            value = from_toml(setting, entry.written, file.path.parent)
        except WrongValue as error:
            mistakes.append(f"{place}: {shown}: {error}")
        else:
            found[key] = Found(value, Source.FILE, place)


def _take_environment(
    environment: Mapping[str, str], found: dict[str, Found], mistakes: list[str]
) -> None:
    for setting in TABLE:
        name = setting.about.env
        text = environment.get(name, "")
        if not text.strip():
            continue
        try:
            found[setting.key] = Found(from_text(setting, text), Source.ENVIRONMENT, name)
        except WrongValue as error:
            mistakes.append(f"{name}: {error}")


def _why_no_setting(entry: Entry) -> str:
    """Return why a key of the file is none of ours; empty: it is a table that is empty."""
    key = ".".join(entry.path)
    if key in TABLES:
        return "" if entry.written == {} else f"must be a table; write [{key}] above its keys"
    above = next((each for each in BY_KEY if key.startswith(f"{each}.")), None)
    if above is not None:
        return f"{above} is a setting and no table"
    return f"unknown key; {_nearest(entry.path)}"


def _nearest(path: tuple[str, ...]) -> str:
    """Return which key is meant, found by its whole name, its last part or its flag."""
    names: dict[str, str] = {}
    for each in TABLE:
        flag = each.about.flag.removeprefix("--").replace("-", "_")
        for name in (each.key, flag, each.name):
            names.setdefault(name, each.key)
    names |= {table: f"[{table}]" for table in TABLES if len(path) == 1}
    last = path[-1].replace("-", "_")
    if last in names and names[last] != ".".join(path):
        return f"write {names[last]}"
    for text in (".".join(path), last):
        near = get_close_matches(text, names, 1)
        if near:
            return f"the nearest is {names[near[0]]}"
    return "'chordal config show' lists all"
