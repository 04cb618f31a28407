"""One hop onward: events that are not express, to the brokers that come next.

Over the direct link, by the relay path that is faster, or round a link that has failed. Where there
is none of these for the moment, they wait (:mod:`ges.routing.holding`).

Each copy says which way it has come: a *stream* here is a link, or a way over others, to the broker
that is to get the copy. Whenever another stream to that broker is taken than before, its token is
renewed (:mod:`ges.order.via`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ges.order.via import MAX_STREAMS, Tokens
from ges.routing.holding import Holding
from ges.routing.outlets import Lines
from ges.routing.paths import Path, Paths
from ges.routing.plan import Onward
from ges.wire.event_flags import AGAIN_FLAG, LEVELS_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_HOPS, Head, pack_end, pack_front, read_head, redirected
from ges.wire.source_route import pack_route
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.weights import LinkKey
from overlay.wire.frames import DETOUR, EVENT, Bytes, frame_start

#: A way to a broker over links of a class: itself if it is linked, else whom to pass.
Stream = tuple[LinkClass, Path]

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
        tokens: Tokens[Stream],
        counters: Counter[str],
    ) -> None:
        self.tokens = tokens
        self.told: dict[str, None] = {}  #: uids of those to whom events went over a link
        self.stranded: list[Stranded] = []  #: to be taken by whoever has called
        self._lines = lines
        self._paths = paths
        self._holding = holding
        self._taken: dict[LinkKey, Stream] = {}  #: the stream used last to a broker, by class
        self._counters = counters

    def forward(
        self, run: EventRun, onward: Onward, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events to each (uid, duty), with these flags, over links of that class."""
        if not onward:
            return
        head = run.head
        if head.max_hops and head.hops >= head.max_hops:
            self._counters["events_max_hops_ended"] += run.count
            return
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += run.count
            return
        hops = head.hops + 1
        of_cluster, of_units = run, run
        for uid, duty in onward:
            if duty.shape > 1:
                run = of_units = of_units.levelled()
                flags |= LEVELS_FLAG
            else:
                run = of_cluster = of_cluster.flat()
                flags &= ~LEVELS_FLAG
            key = (uid, link_class)
            line, way = self._lines.get(key), self._paths.relays.get(key)
            if line is not None and way is None:
                via = self._onto(head.via, flags, key, (uid,))
                front = pack_front(flags, hops, via, head.source, duty)
                line.connection.send(run.patched(front, pack_end(duty)), run.count)
                self._counters["events_forwarded"] += run.count
                # The normal link is asked for the secure one beside it, too: both go the same way.
                self.told[uid] = None
                continue
            if way is not None:
                self._counters["events_forwarded"] += run.count
            else:
                way = self._paths.round(key)
            for body in run.bodies():
                event = redirected(body, flags, hops, head.via, head.source, duty)
                self.send_round(way or (uid,), event, link_class, now)

    def send_round(self, way: Path, event: bytes, link_class: LinkClass, now: Nanos) -> None:
        """Send an event to the first broker on ``way``, for the last one.

        Where the link to the first has just gone, the next on the way that is linked will do: the
        way only gets shorter.
        """
        for at, uid in enumerate(way, start=1):
            line = self._lines.get((uid, link_class))
            if line is not None:
                stamped = self._stamped(event, (way[-1], link_class), way[at - 1 :])
                line.connection.send(_on_its_way(way[at:], stamped), 1)
                self._counters["events_sent_round"] += 1
                return
        self._send_otherwise(way, event, link_class, now)

    def renew(self, key: LinkKey) -> None:
        """Order may be broken on the way to a broker."""
        stream = self._taken.get(key)
        if stream is not None:
            self.tokens.renew((stream,))

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

    def _onto(self, via: int, flags: int, key: LinkKey, way: Path) -> int:
        """Return the digest of an event that is sent to a broker on a way."""
        if flags & AGAIN_FLAG:  # it comes behind later ones, perhaps
            return self.tokens.stray()
        stream = key[1], way
        taken = self._taken.get(key)
        if taken != stream:
            if taken is not None:
                self.tokens.renew((stream,))
            elif len(self._taken) >= MAX_STREAMS:
                self._taken.clear()
                self.tokens.renew_all()  # which stream was used last is not known any more
            self._taken[key] = stream
        return self.tokens.onto(via, stream)

    def _stamped(self, event: bytes, key: LinkKey, way: Path) -> bytes:
        head = read_head(event)
        return _with(event, head, head.hops, self._onto(head.via, head.flags, key, way))

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
            patched = _with(event, head, head.hops + 1, self.tokens.stray())
            for other in self._others(way[-1], link_class):
                if any((uid, link_class) in self._lines for uid in other):
                    self._counters["events_rerouted"] += 1
                    self.renew((way[-1], link_class))
                    self.send_round(other, patched, link_class, now)
                    return
        if not self._keep(way, event, link_class, now):
            self.stranded.append(Stranded(way[-1], event, link_class))

    def _keep(
        self, way: Path, event: bytes, link_class: LinkClass, now: Nanos, *, only_held: bool = False
    ) -> bool:
        """Let an event wait for a link to any broker on the way; False if there is none to come."""
        held = self._holding.held
        for at, uid in enumerate(way, start=1):
            if only_held and (uid, link_class) not in held:
                continue
            stamped = self._stamped(event, (way[-1], link_class), way[at - 1 :])
            if self._holding.keep((uid, link_class), _on_its_way(way[at:], stamped), now):
                return True
        return False

    def _others(self, uid: str, link_class: LinkClass) -> Iterator[Path]:
        """Yield the ways to a broker that are known here."""
        detour = self._paths.round((uid, link_class))
        if detour is not None:
            yield detour
        path = self._paths.known((uid, link_class))
        if path is not None and len(path) > 1:
            yield path[1:]


def _with(event: bytes, head: Head, hops: int, via: int) -> bytes:
    """Return an event with another count of hops, and another digest of its way."""
    return redirected(event, head.flags, hops, via, head.source, head.duty)


def _on_its_way(way: Path, event: Bytes) -> bytes:
    """Return the frame of an event that has these brokers to pass after the next."""
    kind, start = (DETOUR, pack_route(way)) if way else (EVENT, b"")
    return frame_start(kind, len(start) + len(event)) + start + event
