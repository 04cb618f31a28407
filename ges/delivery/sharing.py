"""Which member of a queue group here gets an event, and what becomes of one that nobody gets.

An event says which broker serves each group (:mod:`ges.delivery.choosing`). Where it comes to that
broker, one member gets it (:mod:`ges.delivery.queue_members`). The last member here may have gone
while the event was under way. Then the event is *unserved*, and is to be handed on to another
broker of the group. But an event that is sent again to a broker where the group never had a member
was for an earlier life of it. A member there may have had the event, so nobody else gets it.

A client that gets an event for a group, and by a plain subscription as well, gets it once, with the
numbers of both.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ges.delivery.choosing import Choosing
from ges.delivery.queue_members import QueueMembers
from ges.delivery.subscriber import Subscriber
from ges.wire.delivered import MAX_MATCHES, pack_matches
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow, Head
from ges.wire.groups import Serving
from ges.wire.realms import Realm
from overlay.wire.frames import DELIVERY, frame_start

MAX_SLOT = 63
ALL_NODES = 256
MAX_HANDED = 4096  #: events that were handed on to this broker, of which each comes once


@dataclass(frozen=True, slots=True)
class Unserved:
    """Events for a group that nobody here gets."""

    run: EventRun  #: without what it said of groups
    key: int  #: of the group
    tried: int  #: brokers that have tried before, as a mask


@dataclass(frozen=True, slots=True)
class Shares:
    """Who gets which events of one run, by what it is in groups."""

    #: By client: for some of the events, the numbers of its subscriptions.
    numbers: Mapping[Subscriber, Mapping[int, Sequence[int]]]


class Sharing:
    """The queue groups with members here, and what they are to get."""

    def __init__(self, choosing: Choosing, counters: Counter[str]) -> None:
        self.members = QueueMembers()
        self.choosing = choosing
        self.unserved: list[Unserved] = []  #: to be taken by whoever has called
        self._counters = counters
        self._handed: OrderedDict[tuple[Flow, int, int], None] = OrderedDict()

    def due(self, run: EventRun, common: int = Realm.CLUSTER) -> Sequence[int]:
        """Return the keys of the groups that this broker is to serve with these events.

        ``common``: the level of the smallest unit that has both their source and this broker in it.
        """
        link_class, topic = run.head.link_class, run.head.topic
        serving, here = run.serving(), self.members.of(topic)
        if serving is None and not here:
            return ()
        named: Mapping[int, int] = serving.slots if serving is not None else {}
        own = self.choosing.own
        if serving is not None and serving.has_places:
            own = self.choosing.own_place(named.values())
        return [
            *(key for key, node in named.items() if node == own or self._is_chosen(run, key, node)),
            # The source did not know of these.
            *(
                group.key
                for group in here
                if group.key not in named
                and group.takes(link_class)
                and group.realm >= common
                and self._is_first(run.head, group.key, common)
            ),
        ]

    def _is_chosen(self, run: EventRun, key: int, node: int) -> bool:
        """Say whether this broker serves a group of an event that was given to its unit.

        Where an event comes into a unit, a broker is named; but not of one that is recalled.
        """
        if not (MAX_SLOT < node < ALL_NODES and run.head.recalled):
            return False
        return self.choosing.is_chosen(run, key, node)

    def _is_first(self, head: Head, key: int, common: int) -> bool:
        if common == Realm.CLUSTER:
            return self.choosing.is_first(head.link_class, key)
        if head.duty.shape:  # who has not been chosen is not to serve
            return False
        return self.choosing.is_first_of_all(head.link_class, key, head.source)

    def handed(self, run: EventRun, serving: Serving) -> Sequence[int]:
        """Return the same for an event that was handed on; nothing if it has come before."""
        own, flow, sequence = self.choosing.own, run.head.flow, run.head.sequence
        found = []
        for key, slot in serving.slots.items():
            if slot != own or (flow, sequence, key) in self._handed:
                continue
            self._handed[flow, sequence, key] = None
            if len(self._handed) > MAX_HANDED:
                self._handed.popitem(last=False)
            found.append(key)
        return found

    def share(self, run: EventRun, keys: Sequence[int], tried: int = 0) -> Shares:
        """Choose a member of each group for each event; what nobody gets is unserved.

        ``run`` says nothing of groups any more.
        """
        flow, first = run.head.flow, run.head.sequence
        found: dict[Subscriber, dict[int, list[int]]] = {}
        for key in keys:
            group = self.members.get(key)
            left: list[int] = []
            for at in range(run.count):
                chosen = group.pick(flow, first + at) if group is not None else None
                if chosen is None:
                    left.append(at)
                else:
                    found.setdefault(chosen.client, {}).setdefault(at, []).append(chosen.number)
            if left and not tried and self._is_of_earlier_life(run.head, key):
                self._counters["group_events_lost"] += len(left)
                continue
            for begin, end in _ranges(left):
                self.unserved.append(Unserved(run.part(begin, end), key, tried))
        return Shares(found)

    def _is_of_earlier_life(self, head: Head, key: int) -> bool:
        """Say whether events were chosen for who had this slot before, and may have served them."""
        return (head.again or head.recalled) and not self.members.has_had(key)

    def take_unserved(self) -> list[Unserved]:
        """Return, once, what nobody here gets."""
        unserved, self.unserved = self.unserved, []
        return unserved

    def send(self, run: EventRun, shares: Shares, plain: Mapping[Subscriber, bytes]) -> None:
        """Send clients what they get; ``plain``: numbers by which some of them get all of it."""
        is_droppable = not run.head.link_class.is_secret
        for client, numbers in shares.numbers.items():
            always = _numbers_in(plain[client]) if client in plain else ()
            for frames, matches, count in _deliveries(run, numbers, always):
                start = frame_start(DELIVERY, len(matches) + len(frames))
                item = b"".join((start, matches, frames))
                client.connection.send(item, count if is_droppable else 0)
                self._counters["events_delivered"] += count


def with_numbers(matches: bytes, more: Sequence[int]) -> bytes:
    """Return what stands before events in a delivery, with more subscriptions."""
    return pack_matches((*more, *_numbers_in(matches))[:MAX_MATCHES])


def _deliveries(
    run: EventRun, numbers: Mapping[int, Sequence[int]], always: Sequence[int]
) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield frames that go together, what stands before them, and how many they are."""
    data, bounds = run.data, run.bounds
    frames: list[bytes] = []
    before: tuple[int, ...] = ()
    for at in range(run.count):
        wanted = (*numbers.get(at, ()), *always)[:MAX_MATCHES]
        if not wanted:
            continue
        if frames and wanted != before:
            yield b"".join(frames), pack_matches(before), len(frames)
            frames = []
        before = wanted
        frames.append(data[bounds[at] : bounds[at + 1]])
    if frames:
        yield b"".join(frames), pack_matches(before), len(frames)


def _numbers_in(matches: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f"!{(len(matches) - 2) // 4}I", matches, 2)


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of rising numbers: the first of each, and what comes after the last."""
    begin = end = -1
    for number in numbers:
        if number != end:
            if end > begin:
                yield begin, end
            begin = number
        end = number + 1
    if end > begin:
        yield begin, end
