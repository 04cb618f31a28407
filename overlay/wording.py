"""Words for people: how many of what."""

from __future__ import annotations


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number and its noun: ``1 link``, ``2 links``, ``0 identities``.

    ``nouns``: the plural, where it is not the noun and an s.
    """
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"
