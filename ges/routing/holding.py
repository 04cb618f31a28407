"""Events for brokers whose link is down for the moment: they wait for what comes of it.

A link that breaks comes back mostly, within milliseconds or after a back-off; or the ring finds
that the link has failed, or that the broker behind it is dead. Until then its part of the ring
stays its own, and events for it are kept with those it has not acknowledged
(:mod:`overlay.queues.streams`). All this is bounded in bytes and in time. Pure;
:mod:`ges.routing.rerouting` sends on what has waited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.queues.resend import Item
from overlay.queues.streams import Key, Streams
from overlay.wire.codec import FrameReader
from overlay.wire.frames import MAX_FRAME_BYTES, Bytes
from ring.wire.messages import Member

HOLD_NS = nanos(0.4)  #: then others serve its part of the ring, unless it is a ring neighbour ...
GIVE_UP_NS = nanos(20)  #: ... for which we wait until it is judged, but no longer than this
LOOK_NS = nanos(0.01)  #: what is over though nothing has changed here is seen after this
MAX_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class Held:
    """A broker to which there is no link for the moment."""

    peer: Peer
    place: int  #: its ring id
    since: Nanos


class Holding:
    """For whom events are held, by uid and class of the link."""

    def __init__(
        self,
        streams: Streams,
        is_dead: Callable[[Peer], bool],
        is_failed: Callable[[Peer], bool],
    ) -> None:
        """``is_dead``: whether that life of a broker was declared dead.

        ``is_failed``: whether events are to take other links to a broker, as its link has failed.
        """
        self.held: dict[Key, Held] = {}
        self.linked: Mapping[str, Member] = {}  #: by uid, as the ring has it
        self.around: frozenset[str] = frozenset()  #: uids of our ring neighbours
        self._is_member = False  #: we are on the ring
        self._known: dict[str, int] = {}  #: ring ids of those that are or were linked, by uid
        self._streams = streams
        self._is_dead = is_dead
        self._is_failed = is_failed

    def note(
        self, linked: Mapping[str, Member], around: Iterable[Member], *, is_member: bool
    ) -> None:
        """Take the members linked now, by uid, and our ring neighbours, linked or not.

        ``is_member``: we are on the ring ourselves.
        """
        self._is_member = is_member
        self.linked = dict(linked)
        self.around = frozenset(member.uid for member in around)
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known.update((uid, member.ring_id) for uid, member in linked.items())

    def place(self, uid: str) -> int | None:
        """Return the ring id that a broker had when it was linked last."""
        return self._known.get(uid)

    def is_failed(self, uid: str) -> bool:
        """Say whether the link to a member has failed, and events take other links."""
        member = self.linked.get(uid)
        return member is not None and self._is_failed(member.peer)

    @property
    def is_empty(self) -> bool:
        """No event waits; links may be waited for all the same."""
        return not any(map(self._streams.is_kept, self.held))

    def hold(self, key: Key, now: Nanos) -> bool:
        """Hold events for a broker to which there is no link. False: it has no place, or stream."""
        member, held = self.linked.get(key[0]), self.held.get(key)
        if not self._streams.waits(key):
            return False
        if member is not None:
            self.held[key] = Held(member.peer, member.ring_id, now)
        elif held is not None:
            self.held[key] = Held(held.peer, held.place, now)
        return key in self.held

    def keep(self, key: Key, frame: Bytes, now: Nanos) -> bool:
        """Keep an event until there is a link; False if that cannot be."""
        is_held = key in self.held or (not self.is_failed(key[0]) and self.hold(key, now))
        return is_held and self._streams.keep(key, frame, 1)

    def release(self, key: Key) -> list[Item]:
        """Hold nothing any more; returns what has been kept, if no link has taken it over."""
        self.held.pop(key, None)
        return self._streams.give_away(key)

    def has_failed(self, key: Key, now: Nanos) -> bool:
        """Say whether events are to take other links to a broker that lives.

        A secure link may be down beside a normal one, of which the ring alone speaks.
        """
        held = self.held[key]
        is_late = key[1].is_secret and now >= held.since + HOLD_NS
        return self.is_failed(key[0]) or (is_late and not self._is_dead(held.peer))

    def is_over(self, key: Key, now: Nanos) -> bool:
        """Say whether others are to serve the broker's part of the ring, and can."""
        held = self.held[key]
        if now >= held.since + GIVE_UP_NS:
            return True
        is_whole = key[0] not in self.around and self.around <= self.linked.keys()
        return (
            self._is_member
            and is_whole
            and (now >= held.since + HOLD_NS or self._is_dead(held.peer))
        )

    def next_deadline(self, now: Nanos) -> Nanos | None:
        """Return when to look at the holds again, though nothing has happened.

        That a broker is dead may be heard by who has no link to it any more, so that nothing else
        changes.
        """
        ends = (
            now + LOOK_NS
            if self._streams.waits(key) and (self.is_over(key, now) or self.has_failed(key, now))
            else max(held.since, now - HOLD_NS // 2) + HOLD_NS
            for key, held in self.held.items()
        )
        return min(ends, default=None)

    def places(self, link_class: LinkClass) -> dict[str, int]:
        """Return uid -> ring id of those for whom events of a class are held."""
        return {uid: held.place for (uid, of), held in self.held.items() if of is link_class}


def frames_of(items: list[Item]) -> Iterator[bytes]:
    """Yield the event in each frame of what was kept."""
    reader = FrameReader(MAX_FRAME_BYTES)
    for item, _ in items:
        reader.feed(bytes(item))
        for _, event in reader.frames():
            yield event
