"""One hop onward: events that are not express, to the brokers that come next.

Over the direct link, by the relay path that is faster, or round a link that has failed. Where there
is none of these for the moment, they wait (:mod:`ges.routing.holding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ges.routing.holding import Holding
from ges.routing.losses import Losses
from ges.routing.outlets import Lines
from ges.routing.paths import Path, Paths
from ges.routing.plan import Onward
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_HOPS, PATCH, PATCH_AT, PATCH_END, read_head
from ges.wire.source_route import pack_route
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.weights import LinkKey
from overlay.wire.frames import DETOUR, EVENT, Bytes, frame_start

MAX_REROUTED_HOPS = 32  #: an event that came so far is not sent yet another way; no tree is so deep


@dataclass(frozen=True, slots=True)
class Stranded:
    """An event that no way leads on for."""

    uid: str  #: of the broker it is for
    event: bytes
    link_class: LinkClass


class Forwarding:
    """The links and ways of one broker, and what is appended to their queues."""

    def __init__(
        self,
        lines: Lines,
        paths: Paths,
        holding: Holding,
        losses: Losses,
        counters: Counter[str],
    ) -> None:
        self.told: dict[str, None] = {}  #: uids of those to whom events went over a link
        self.stranded: list[Stranded] = []  #: to be taken by whoever has called
        self._lines = lines
        self._paths = paths
        self._holding = holding
        self._losses = losses
        self._counters = counters

    def forward(
        self, run: EventRun, onward: Onward, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events to each (uid, duty), with these flags, over links of that class."""
        if not onward:
            return
        head = run.head
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += run.count
            self._losses.note(head)
            return
        hops = head.hops + 1
        for uid, duty in onward:
            key = (uid, link_class)
            line, way = self._lines.get(key), self._paths.relays.get(key)
            if line is not None and way is None:
                line.connection.send(run.patched(flags, hops, duty), run.count)
                self._counters["events_forwarded"] += run.count
                # The normal link is asked for the secure one beside it, too: both go the same way.
                self.told[uid] = None
                continue
            if way is not None:
                self._counters["events_forwarded"] += run.count
            else:
                way = self._paths.round(key)
            first = bytes((flags,)) + PATCH.pack(hops, duty)
            for body in run.bodies():
                self.send_round(way or (uid,), first, body[PATCH_END:], link_class, now)

    def send_round(
        self, way: Path, first: bytes, rest: bytes, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send an event to the first broker on ``way``, for the last one.

        Where the link to the first has just gone, the next on the way that is linked will do: the
        way only gets shorter.
        """
        for at, uid in enumerate(way, start=1):
            line = self._lines.get((uid, link_class))
            if line is not None:
                line.connection.send(_on_its_way(way[at:], first, rest), 1)
                self._counters["events_sent_round"] += 1
                return
        self._send_otherwise(way, first + rest, link_class, now)

    def way_round(self, key: LinkKey) -> Path | None:
        """Return a way to a broker whose own link is down, over links of that class that are up."""
        uid, link_class = key
        for other in self._others(uid, link_class):
            if other[0] != uid and (other[0], link_class) in self._lines:
                return other
        return None

    def take_stranded(self) -> list[Stranded]:
        """Return, once, the events that no way leads on for."""
        stranded, self.stranded = self.stranded, []
        return stranded

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _send_otherwise(self, way: Path, event: bytes, link_class: LinkClass, now: Nanos) -> None:
        """None of the brokers on the way is linked: take another way, or wait for a link.

        Whoever chose the way may have heard late that a link on it was given up. The one who gave
        it up knows better, and the way it takes may well begin with where the event came from.
        Each such turn counts as a hop, so none goes on for ever.
        """
        if self._keep(way, event, link_class, now, only_held=True):
            return
        head = read_head(event)
        if head.hops < MAX_REROUTED_HOPS:
            patched = event[:PATCH_AT] + PATCH.pack(head.hops + 1, head.duty) + event[PATCH_END:]
            for other in self._others(way[-1], link_class):
                if any((uid, link_class) in self._lines for uid in other):
                    self._counters["events_rerouted"] += 1
                    self.send_round(other, patched, b"", link_class, now)
                    return
        if not self._keep(way, event, link_class, now):
            self.stranded.append(Stranded(way[-1], event, link_class))

    def _keep(
        self, way: Path, event: bytes, link_class: LinkClass, now: Nanos, *, only_held: bool = False
    ) -> bool:
        """Let an event wait for a link to any broker on the way; False if there is none to come."""
        held = self._holding.held
        return any(
            self._holding.keep((uid, link_class), _on_its_way(way[at:], event, b""), now)
            for at, uid in enumerate(way, start=1)
            if not only_held or (uid, link_class) in held
        )

    def _others(self, uid: str, link_class: LinkClass) -> Iterator[Path]:
        """Yield the ways to a broker that are known here."""
        detour = self._paths.round((uid, link_class))
        if detour is not None:
            yield detour
        path = self._paths.known((uid, link_class))
        if path is not None and len(path) > 1:
            yield path[1:]


def _on_its_way(way: Path, first: Bytes, rest: Bytes) -> bytes:
    """Return the frame of an event that has these brokers to pass after the next."""
    kind, start = (DETOUR, pack_route(way) + first) if way else (EVENT, bytes(first))
    return frame_start(kind, len(start) + len(rest)) + start + rest
