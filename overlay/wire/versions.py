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

EXPRESS = "express"  #: links of the class express
STREAMS = "streams"  #: events are acknowledged, and sent again over the next connection

SECURE_STATES = "secure_states"  #: lists of secure links are told again to who asks

QUICK_PROBES = "quick_probes"  #: answered before all that waits

UNITS = "units"  #: brokers have addresses, and tell things to all members of their cluster
HIERARCHY = "hierarchy"  #: brokers form clusters, and units above these
PROFILES = "profiles"  #: brokers tell each other what their links cost and their clients want

KEPT_EVENTS = "kept_events"  #: a broker sends a client that moves to it what it has missed

ASKS = "asks"  #: a client asks where it waits for its events to be confirmed

MISSED = "missed"  #: a client wants to hear when its broker's place on the ring was in doubt
ACTIVE = "active"  #: a broker tells when a subscription is active, to clients that have this too
ACTIVE_LEVELS = "active_levels"  #: ... and how far it is, before it is active everywhere
WHY = "why"  #: a broker says what it would do with an event, and why

PAGES = "status_pages"  #: a client takes a status in pages
LOOKS = "looks"  #: a client does nothing but ask for the broker's status, and then goes
OPERATE = "operate"  #: a broker lists its clients, cuts them off and drains, if an operator asks

DRILL = "drill"  #: a broker answers drills: it takes part, or says why not
#: A broker keeps retained events for those who subscribe later; a client takes them, and events
#: that end.
RETAINED = "retained"

LEAVING = "leaving"  #: a client goes to another broker when its own says that it leaves

QUEUES = "queues"  #: a broker takes clients into queue groups
REQUESTS = "requests"  #: a broker takes requests, and says when nobody is there to answer
NAMES = "names"  #: brokers find named clients; one takes events for them from its clients
DECLARED = "declared"  #: a broker is told which of its links the other end names for events
REALMS = "realms"  #: a broker keeps events and subscriptions to their units

#: What a broker tells its clients that it has ...
FOR_CLIENTS = (
    KEPT_EVENTS,
    ACTIVE,
    ACTIVE_LEVELS,
    WHY,
    OPERATE,
    DRILL,
    RETAINED,
    QUEUES,
    REQUESTS,
    REALMS,
    NAMES,
)
#: ... and what a client tells its broker, beside what it has in common with brokers.
OF_CLIENTS = (ASKS, MISSED, ACTIVE, ACTIVE_LEVELS, PAGES, LEAVING, RETAINED)

CAPABILITIES = frozenset(
    {EXPRESS, STREAMS, SECURE_STATES, QUICK_PROBES, UNITS, HIERARCHY, PROFILES, NAMES, DECLARED}
)


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
