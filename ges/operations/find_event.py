"""What became of one event: asked of all brokers of the ring."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import trio

from ges.client import Client, connect
from ges.operations.walk import PATIENCE_S, Walk, call_url, walk_ring
from ges.wire.why_event import EdgeState, LoggedEvent, WhyEvent
from overlay.address import parse_url
from overlay.errors import ChordalError
from overlay.ids import LinkClass
from overlay.wording import printable

MAX_AT_ONCE = 8  #: brokers that are asked at the same time


@dataclass(frozen=True, slots=True)
class EventName:
    """How an event is named: ``PUBLISHER:SEQUENCE``."""

    publisher: str  #: uid
    sequence: int
    link_class: LinkClass = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class Source:
    """A broker that has the event in its log."""

    answer: WhyEvent
    event: LoggedEvent


@dataclass(frozen=True, slots=True)
class Trail:
    """What brokers know of an event."""

    walk: Walk
    answers: tuple[WhyEvent, ...]
    silent: dict[str, str]  #: uids of brokers that did not answer, and why

    @property
    def sources(self) -> list[Source]:
        """Brokers with the event in their logs; of several lives of its publisher the latest."""
        found = [Source(answer, each) for answer in self.answers for each in answer.logged]
        latest = max((source.event.incarnation for source in found), default=0)
        return [source for source in found if source.event.incarnation == latest]

    def state_at(self, answer: WhyEvent) -> EdgeState:
        """Return what became of the event at a broker."""
        sources = self.sources
        lives = {each.incarnation: each.state for each in answer.passed}
        if sources:
            return lives.get(sources[0].event.incarnation, EdgeState.NEVER)
        return lives[max(lives)] if lives else EdgeState.NEVER


async def find_event(
    url: str,
    name: EventName,
    *,
    identity: Path | None = None,
    overlay: str = "chordal",
    token: str | None = None,
    timeout_s: float = 10,
    on_waiting: Callable[[str], None] | None = None,
) -> Trail:
    """Ask all brokers of the ring that the one at ``url`` belongs to.

    Raises:
        ConnectionLost: the first broker cannot be reached.
    """
    walk = await walk_ring(
        url, identity=identity, overlay=overlay, timeout_s=timeout_s, on_waiting=on_waiting
    )
    tls = parse_url(url.split(",")[0]).tls
    answers: dict[str, WhyEvent] = {}
    silent: dict[str, str] = {}
    limit = trio.CapacityLimiter(MAX_AT_ONCE)

    def attached(target: str) -> AbstractAsyncContextManager[Client]:
        return connect(
            target,
            identity=identity,
            overlay=overlay,
            token=token,
            timeout=PATIENCE_S,
            reattach=False,
            on_waiting=lambda words: None,
        )

    async def ask(uid: str, its_url: str) -> None:
        async with limit:
            try:
                if (target := call_url(its_url, tls)) is None:
                    raise ChordalError(f"{its_url!r} is not a broker URL")
                with trio.fail_after(PATIENCE_S):
                    async with attached(target) as client:
                        answers[uid] = await client.why_event(
                            name.publisher, name.sequence, link_class=name.link_class
                        )
            except trio.TooSlowError:
                silent[uid] = f"no answer within {PATIENCE_S:g} s"
            except ChordalError as error:
                silent[uid] = printable(str(error))

    async with trio.open_nursery() as nursery:
        for status in walk.brokers:
            nursery.start_soon(ask, status.uid, status.url)
    ordered = tuple(answers[s.uid] for s in walk.brokers if s.uid in answers)
    return Trail(walk, ordered, silent)
