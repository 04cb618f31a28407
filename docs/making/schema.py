"""The page of the columns of a data set, made of the structs of its rows."""

from __future__ import annotations

import inspect
import re
from enum import EnumMeta

import msgspec

from making.markdown import NOTE, cell, docstring, escaped
from overlay import trace_schema
from overlay.trace_schema import Fate, Incident, Probe, Run, Source, Struck, Traffic, Verdict, Why
from sims.dataset import arrow_schema

TABLES: dict[str, type[msgspec.Struct]] = {
    "runs": Run,
    "incidents": Incident,
    "probes": Probe,
    "traffic": Traffic,
}
CHOICES = (Source, Verdict, Fate, Why, Struck)
_COMMENTED = re.compile(r"^    (\w+)(?:: [^=#\n]+)?(?: = [^#\n]+?)?  #: (.+)$", re.MULTILINE)


def page() -> str:
    """Return the page."""
    parts = [
        f"# Schema of a data set\n\n{NOTE}",
        "The types are those of Parquet files. JSON lines have the same names, and null where",
        "a value is missing. [traces.md](../traces.md) says what the columns mean.\n",
        "| table | version |\n|---|---|",
        f"| `runs`, `incidents` | {trace_schema.SCHEMA_VERSION} |",
        f"| `probes` | {trace_schema.PROBE_VERSION} |",
        f"| `traffic` | {trace_schema.TRAFFIC_VERSION} |\n",
    ]
    for name, record in TABLES.items():
        parts += [f"## `{name}`\n", docstring(record), *_columns(record), ""]
    for choice in CHOICES:
        parts += [
            f"## Words in `{choice.__name__.lower()}`\n",
            docstring(choice),
            *_words(choice),
            "",
        ]
    return "\n".join(parts)


def _columns(record: type[msgspec.Struct]) -> list[str]:
    said = _comments(record)
    rows = [
        f"| `{field.name}` | {field.type} | {'yes' if field.nullable else ''}"
        f" | {said.get(field.name, '')} |"
        for field in arrow_schema(record)
    ]
    return ["| column | type | may be null | what it is |", "|---|---|---|---|", *rows]


def _words(choice: EnumMeta) -> list[str]:
    said = _comments(choice)
    rows = [f"| `{each.value}` | {said.get(each.name, '')} |" for each in choice]  # type: ignore[var-annotated]
    return ["| word | what it says |", "|---|---|", *rows]


def _comments(thing: type) -> dict[str, str]:
    """Return what stands behind each field in the source."""
    return {
        name: escaped(cell(text)) for name, text in _COMMENTED.findall(inspect.getsource(thing))
    }
