"""Sizes of memory on the command line."""

from __future__ import annotations

import re

import click

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMG])(?:i?B)?)?", re.IGNORECASE)
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def size(text: str) -> int:
    """Return a size as ``256M``, ``256MiB`` or ``1.5G`` in bytes; the type of an option.

    Raises:
        click.BadParameter: it is none.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no size; write 64M, 256M or 1.5G")
    return round(float(match[1]) * _BYTES[(match[2] or "").upper()])
