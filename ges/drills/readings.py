"""What brokers have seen, by the clock of the drill.

Each broker counts time from its own start. The drill asks it several times how late it is, and
takes the answer that came back soonest: the broker's clock showed that time somewhere between the
question and the answer, so half of that round trip is what the time is uncertain by.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from ges.client import Client
from ges.wire.drill_messages import Drilled, Seen, SeenRequest
from overlay.ids import Nanos, nanos

SAMPLES = 5


class Clock:
    """Nanoseconds since the drill began, monotonic."""

    def __init__(self) -> None:
        self._start = trio.current_time()

    def now(self) -> Nanos:
        """Return the time."""
        return nanos(trio.current_time() - self._start)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one broker said of its clock, and of what it saw."""

    uid: str
    incarnation: int
    profile: str
    offset_ns: Nanos  #: its clock minus that of the drill
    uncertainty_ns: Nanos  #: of ``offset_ns``, either way
    last: int  #: number of the last thing that it has seen
    sent: tuple[int, ...]  #: messages, about each uid that was asked for
    seen: tuple[Seen, ...] = field(default=())

    def here(self, at_ns: Nanos) -> Nanos:
        """Return a time of the broker by the clock of the drill."""
        return at_ns - self.offset_ns


async def read(
    client: Client, uid: str, clock: Clock, after: int | None, about: tuple[str, ...] = ()
) -> Reading:
    """Ask a broker; ``after`` None: not what it has seen, only how far that goes.

    Raises:
        OperationRefused: it takes part in no drills, or this client may not.
        ConnectionLost: it is gone.
    """
    best: tuple[Nanos, Nanos] | None = None
    answer: Drilled | None = None
    for _ in range(SAMPLES):
        asked = clock.now()
        answer = await client.drill(SeenRequest(2**62, about))
        trip = clock.now() - asked
        if best is None or trip < best[0]:
            best = trip, answer.now_ns - asked - trip // 2
    assert best is not None
    assert answer is not None
    seen: list[Seen] = []
    if after is not None:
        while True:
            page = await client.drill(SeenRequest(after))
            if not page.seen:
                break
            seen += page.seen
            after = page.seen[-1].number
    return Reading(
        uid,
        answer.incarnation,
        answer.profile,
        best[1],
        -(-best[0] // 2),
        answer.last,
        answer.sent,
        tuple(seen),
    )
