"""What two ends of a connection can say to each other: versions and capabilities.

Greetings name the lowest and the highest protocol version spoken, and a set of capabilities; they
are framed as version 1 for ever, so that any two brokers can at least tell each other why not. The
highest version that both speak holds for the connection. A frame may be written in an older layout
than agreed, as an event that only passes through is not rewritten, but never in a newer one.

Within a version, optional parts are capabilities: a message whose class names one is sent only
where the other end has it (:attr:`overlay.machine.Message.capability`). Capabilities not known here
are ignored, as are fields that a later version has appended to a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from overlay.wire.frames import LOWEST_VERSION, OLDEST_SPOKEN, PROTOCOL_VERSION

MAX_CAPABILITIES = 64

#: A version as it may stand in a greeting.
WireVersion = Annotated[int, msgspec.Meta(ge=0, le=255)]
#: Capabilities as they may stand in a greeting; names not known here are of no account.
WireCapabilities = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=32)], ...],
    msgspec.Meta(max_length=MAX_CAPABILITIES),
]

#: The optional parts that this version has: none, as it is the first to be released.
CAPABILITIES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Agreement:
    """What holds for one connection."""

    version: int = LOWEST_VERSION
    capabilities: frozenset[str] = frozenset()  #: of both ends


OLDEST = Agreement()


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one end speaks."""

    lowest: int = OLDEST_SPOKEN
    highest: int = PROTOCOL_VERSION
    capabilities: frozenset[str] = CAPABILITIES

    @property
    def names(self) -> tuple[str, ...]:
        """Its capabilities as a greeting has them."""
        return tuple(sorted(self.capabilities))

    def agree(
        self, lowest: int | None, highest: int, capabilities: Iterable[str]
    ) -> Agreement | None:
        """Return what holds with an end that speaks this, or None; ``lowest`` None: ``highest``."""
        version = min(self.highest, highest)
        if version < max(self.lowest, highest if lowest is None else lowest):
            return None
        return Agreement(version, self.capabilities.intersection(capabilities))

    def accept(self, version: int, capabilities: Iterable[str]) -> Agreement | None:
        """Return what holds by the other end's answer to our greeting; None: we do not speak it."""
        if not self.lowest <= version <= self.highest:
            return None
        return Agreement(version, self.capabilities.intersection(capabilities))


DIALECT = Dialect()


def describe_range(lowest: int | None, highest: int) -> str:
    """Name a range of versions, for people."""
    return f"version {highest}" if lowest in (None, highest) else f"versions {lowest} to {highest}"
