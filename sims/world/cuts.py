"""What becomes of what is between two brokers that are cut off from each other."""

from __future__ import annotations

from enum import StrEnum


class Cut(StrEnum):
    """How it looks at both ends. The ring alone knows the first two."""

    SILENT = "silent"  #: all looks up at both ends, but what is sent is lost
    BROKEN = "broken"  #: all closes at both ends at once
    CLOSED = "closed"  #: it closes at both ends, behind what is under way
    SHORT = "short"  #: the next bytes are cut short, and then it closes at both ends
    LATE = "late"  #: what is sent arrives when the two can reach each other again


#: Those of links of the ring alone, on which messages are objects.
OF_LINKS = (Cut.SILENT, Cut.BROKEN)
