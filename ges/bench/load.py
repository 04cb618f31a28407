"""What is to be measured, and what the processes that do it say to each other, a line each."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from overlay.ids import LinkClass

STAMP_BYTES = 8  #: of a payload: when the event was due, in ns since 1970


class Role(StrEnum):
    """What the clients of one process do."""

    PUBLISH = "publish"
    REQUEST = "request"
    ANSWER = "answer"
    SUBSCRIBE = "subscribe"


class Attach(msgspec.Struct, frozen=True, kw_only=True):
    """How clients find their broker."""

    urls: str
    identity: str | None = None
    overlay: str = "chordal"
    timeout_s: float = 10.0
    token: str | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A flow of events of one class and size."""

    topic: str  #: that publishers publish to; a filter for those who only subscribe
    link_class: LinkClass = LinkClass.NORMAL
    size: int = 256  #: bytes of a payload
    count: int = 100_000  #: events of all publishers together
    rate: float = 0.0  #: events a second of all publishers together; 0: as fast as they go
    publishers: int = 1
    subscribers: int = 1  #: each of them takes all events
    confirm: bool = False  #: each event is confirmed before the next one is published
    at_once: int = 1  #: requests of each client that wait for a reply at the same time
    limit_s: float = 5.0  #: for the reply to a request

    @property
    def is_stamped(self) -> bool:
        """Whether payloads say when an event was due, so that one sent late counts as late."""
        return self.rate > 0 and self.size >= STAMP_BYTES


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is to do."""

    role: Role
    attach: Attach
    load: Load
    clients: int  #: in this process
    first: int = 0  #: number of the first of them among all of its role


class Go(msgspec.Struct, frozen=True, tag=True):
    """Publish."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End once each subscriber has ``count`` events, or nothing comes for ``quiet_s`` seconds."""

    count: int | None  #: None: however many come
    quiet_s: float


class Published(msgspec.Struct, frozen=True, tag=True):
    """What the publishers of one process have done."""

    events: int
    began_ns: int  #: unix time
    ended_ns: int  #: all was confirmed then
    confirms: bytes = b""  #: histogram of the time until an event was confirmed


class Received(msgspec.Struct, frozen=True, tag=True):
    """What the subscribers of one process have got, all together."""

    events: int
    began_ns: int  #: unix time of the first event
    ended_ns: int  #: and of the last
    latencies: bytes  #: histogram, from when an event was due or published
    volume: int  #: bytes of payloads
    dropped: int  #: by the broker or the client, as these subscribers were too slow


class Asked(msgspec.Struct, frozen=True, tag=True):
    """What those that ask in one process have got."""

    requests: int
    replies: int
    began_ns: int  #: unix time
    ended_ns: int
    times: bytes  #: histogram of the time from a request until its reply
    nobody: int = 0  #: requests that nobody was there to answer


class Answered(msgspec.Struct, frozen=True, tag=True):
    """What those that answer in one process have done."""

    requests: int
