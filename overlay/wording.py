"""Words for people: how many of what, why not, and what others say made fit to be printed."""

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


def printable(text: str, *, keep: str = "") -> str:
    """Return a text that others have told as it may be printed: what does not show is escaped.

    For example, ESC becomes ``\\x1b``, so nobody else moves the cursor or forges a line. ``keep``:
    characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def lasting(seconds: float) -> str:
    """Return a time in the largest unit of which there are two, rounded down: ``29 days``."""
    whole = int(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if whole >= 2 * size:
            return sign + counted(whole // size, unit)
    return sign + counted(whole, "second")
