"""Words for people: how many of what, and why not."""

from __future__ import annotations


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number and its noun: ``1 link``, ``2 links``, ``0 identities``.

    ``nouns``: the plural, where it is not the noun and an s.
    """
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def why_no_folder(error: OSError) -> str:
    """Return why a folder cannot be made or used, for an error of making it if it is not there."""
    if isinstance(error, FileExistsError):
        return "there is a file of that name"
    return error.strerror or str(error)
