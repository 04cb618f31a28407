"""The page of all errors as classes, made of the classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from making.markdown import NOTE, cell, docstring
from overlay.errors import ChordalError, ConfigError

PACKAGES = ("overlay", "ring", "ges", "sims", "spark")


def page() -> str:
    """Return the page."""
    lines = [
        f"# Error classes\n\n{NOTE}",
        "All derive from `overlay.errors.ChordalError`, and `error.code` is the code.",
        "[errors.md](../errors.md) says what to do about each code. A command that meets one",
        "ends with the exit code.",
    ]
    for package in PACKAGES:
        mine = [each for each in _all(package) if each.__module__.split(".")[0] == package]
        lines += [
            f"\n## `{package}`\n",
            "| class | is a | code | exit | what it says |",
            "|---|---|---|---|---|",
        ]
        lines += [
            _row(each) for each in sorted(set(mine), key=lambda e: (e.__module__, e.__name__))
        ]
    return "\n".join(lines) + "\n"


def _all(package: str) -> Iterator[type[ChordalError]]:
    """Yield all error classes, once the modules of a package that define some are imported."""
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if "error" in found.name:
            importlib.import_module(found.name)
    yield from _below(ChordalError)


def _below(root: type[ChordalError]) -> Iterator[type[ChordalError]]:
    yield root
    for each in root.__subclasses__():
        yield from _below(each)


def _row(error: type[ChordalError]) -> str:
    parents = ", ".join(f"`{each.__name__}`" for each in error.__bases__)
    said = docstring(error).split("\n\n")[0] if inspect.getdoc(error) else ""
    code = 2 if issubclass(error, ConfigError) else 1
    name = f"{error.__module__}.{error.__name__}"
    return f"| `{name}` | {parents} | `{error.code}` | {code} | {cell(said)} |"
