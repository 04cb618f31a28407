"""Docstrings, help and comments as Markdown."""

from __future__ import annotations

import inspect
import re

NOTE = "*This page is made of the code; `make docs` makes it anew.*\n"
#: Sphinx' roles in docstrings, such as :class:`~ges.client.Client`.
_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


def cell(text: str) -> str:
    """Return a text as it stands in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def paragraphs(text: str) -> str:
    """Return help as Markdown: each paragraph of it is one here, but for what is verbatim."""
    parts = inspect.cleandoc(text).split("\n\n")
    told = []
    for part in parts:
        lines = part.removeprefix("\b\n").splitlines()
        if part.startswith("\b\n"):
            told.append("\n".join(f"    {line}" for line in lines))
        else:
            told.append(escaped(" ".join(line.strip() for line in lines)))
    return "\n\n".join(told) + "\n"


def escaped(text: str) -> str:
    """Return a text in which nothing means anything to Markdown."""
    return re.sub(r"([*_<>#])", r"\\\1", text)


def docstring(thing: object) -> str:
    """Return the docstring of a thing: its sections in italics, what they list as lists."""
    text = _ROLE.sub(r"`\1`", inspect.getdoc(thing) or "").replace("``", "`")
    lines = []
    for line in text.splitlines():
        section = re.fullmatch(r"(Args|Returns|Raises|Yields):", line)
        item = re.fullmatch(r"    (\w[\w.]*): (.*)", line)
        if section is not None:
            lines += [f"*{section[1]}*", ""]
        elif item is not None:
            lines.append(f"* `{item[1]}`: {item[2]}")
        elif re.fullmatch(r"        \S.*", line) and lines and lines[-1].startswith(("* ", "  ")):
            lines.append(f"  {line.strip()}")
        elif line == "::":
            lines.append("")
        else:
            lines.append(line.removesuffix("::") + (":" if line.endswith("::") else ""))
    return "\n".join(lines) + "\n"
