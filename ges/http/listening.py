"""Why an address cannot be listened on, in words for the user that has named it."""

from __future__ import annotations

import errno


def why_not_listening(error: OSError) -> str:
    """Return why an address cannot be listened on."""
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    first = inner if isinstance(inner, OSError) else error
    if first.errno == errno.EADDRINUSE:
        return "another process listens there"
    return first.strerror or str(first)
