"""The page on all settings, and the file to copy, written from the structs."""

from __future__ import annotations

import inspect as docstrings
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ges.settings.gathering import TABLE, TABLES, Found, Source
from ges.settings.schema import Settings
from ges.settings.setting import Setting
from ges.settings.values import shown, wanted, written

COLUMNS = 98  #: of a comment in the file


def page() -> str:
    """Return the tables of all settings, as Markdown."""
    lines: list[str] = []
    for table in ("", *TABLES):
        lines += [f"## `[{table}]`" if table else "## Above all tables", "", _about(table), ""]
        lines += ["| key | flag | variable | value | default | at SIGHUP |", "|" + "---|" * 6]
        mine = [setting for setting in TABLE if setting.table == table]
        lines += [_row(setting) for setting in mine]
        lines.append("")
        lines += [f"- `{setting.name}`: {_sentence(setting.text)}" for setting in mine]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def renewed(text: str) -> str:
    """Return the whole page with its tables written anew."""
    return text[: text.index("## Above all tables")] + page()


def _row(setting: Setting) -> str:
    default = shown(setting, setting.default)
    cells = (
        f"`{setting.name}`",
        f"`{setting.about.flag}`",
        f"`{setting.about.env}`",
        wanted(setting),
        "" if default == "-" else f"`{default}`",
        "changes" if setting.about.reloads else "",
    )
    return f"| {' | '.join(cells)} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _about(table: str) -> str:
    part: object = Settings()
    return docstrings.getdoc(type(getattr(part, table) if table else part)) or ""


def to_copy(found: Mapping[str, Found] | None = None) -> str:
    """Return a file of settings with a comment on each.

    ``found``: values by key; what is as by default is commented out.
    """
    return "\n".join(_file_lines(found or {})).rstrip() + "\n"


def _file_lines(found: Mapping[str, Found]) -> Iterator[str]:
    yield "# Settings of a chordal broker: chordal serve --config chordal.toml"
    yield "# A key that stands behind a # has its default. Relative paths start at this file."
    yield "# An environment variable is stronger than this file, and a flag is stronger than that."
    table = ""
    for setting in TABLE:
        yield ""
        if setting.table != table:
            table = setting.table
            yield from (f"# {_about(table)}", f"[{table}]", "")
        yield from textwrap.wrap(
            f"# {_sentence(setting.text)}", COLUMNS, subsequent_indent="# ", break_on_hyphens=False
        )
        yield f"# {_sentence(wanted(setting))}." + (
            "  Changes at SIGHUP." if setting.about.reloads else ""
        )
        each = found.get(setting.key)
        is_default = each is None or each.source is Source.DEFAULT
        value = setting.default if each is None else each.value
        yield f"{'#' if is_default else ''}{setting.name} = {_literal(setting, value)}"


def _literal(setting: Setting, value: object) -> str:
    """Return a value as TOML has it; JSON writes texts, numbers and lists of texts alike."""
    # A file may come to lie elsewhere than where its paths were given.
    plain = written(setting, value.absolute() if isinstance(value, Path) else value)
    if plain is None or plain == "":
        plain = setting.metavar
    text = msgspec.json.encode(plain).decode()
    return text.replace('","', '", "').replace("\x7f", "\\u007f")
