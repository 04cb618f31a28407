"""The clients of one broker in queue groups: of the members on one filter one gets each event.

For example, clients A and B here are in the group ``workers`` on ``orders/+``. They get the events
that this broker is to serve by turns. While much waits to be sent to A, and little to B, B gets all
of them. A member gets no event of a publisher after a later one of the same publisher: an event
that was handed on from another broker, and comes late, is for a member that has had no later one.

A *member* is one subscription: a client may have several in one group. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ges.delivery.subscriber import Subscriber
from ges.matching.topic_filters import TopicFilters
from ges.wire.asked import Ask
from ges.wire.events import Flow
from ges.wire.groups import group_key
from ges.wire.realms import Realm
from overlay.ids import LinkClass

ROOM_BYTES = 64 * 1024  #: a client has room while no more than this waits to be sent to it
MAX_FLOWS = 1024  #: of which a member's last event is remembered
MAX_CACHED = 4096  #: topics
MAX_HAD = 4096  #: groups of which it is remembered that they had members here


class Chosen(NamedTuple):
    """Who gets one event of a group."""

    client: Subscriber
    number: int  #: of its subscription


class _Member:
    __slots__ = ("ask", "client", "last", "number")

    def __init__(self, client: Subscriber, number: int, ask: Ask) -> None:
        self.client = client
        self.number = number
        self.ask = ask
        self.last: OrderedDict[Flow, int] = OrderedDict()

    def note(self, flow: Flow, sequence: int) -> None:
        """It gets this event."""
        self.last[flow] = sequence
        self.last.move_to_end(flow)
        if len(self.last) > MAX_FLOWS:
            self.last.popitem(last=False)


class MembersHere:
    """The members of one group that are attached here."""

    def __init__(self, key: int, text: str, name: str, realm: int = Realm.ALL) -> None:
        self.key = key
        self.filter = text
        self.name = name
        self.realm = realm
        self._members: dict[tuple[Subscriber, int], _Member] = {}  #: whose turn it is, first

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Chosen]:
        return (Chosen(*key) for key in self._members)

    def add(self, client: Subscriber, number: int, ask: Ask) -> None:
        """One more subscription is a member."""
        self._members[client, number] = _Member(client, number, ask)

    def remove(self, client: Subscriber, number: int) -> None:
        """A subscription is a member no more."""
        self._members.pop((client, number), None)

    def takes(self, link_class: LinkClass) -> bool:
        """Say whether some member takes events of that class."""
        return any(member.ask.takes(link_class) for member in self._members.values())

    def pick(self, flow: Flow, sequence: int) -> Chosen | None:
        """Return the member that gets an event: who has room before who has not, by turns.

        None: there is none, or all have had a later event of that publisher.
        """
        link_class = flow[2]
        is_ordered = link_class.is_ordered
        found: _Member | None = None
        for member in self._members.values():
            if not member.ask.takes(link_class):
                continue
            if is_ordered and member.last.get(flow, 0) >= sequence:
                continue
            if member.client.connection.queued_bytes <= ROOM_BYTES:
                found = member
                break
            found = found or member
        if found is None:
            return None
        if is_ordered:
            found.note(flow, sequence)
        key = found.client, found.number
        self._members[key] = self._members.pop(key)  # it is its turn again after all others
        return Chosen(*key)


class QueueMembers:
    """All members of groups that are attached to one broker."""

    def __init__(self) -> None:
        self.size = 0
        self._groups: dict[int, MembersHere] = {}
        self._engine: TopicFilters[int] = TopicFilters()
        self._found: dict[bytes, tuple[MembersHere, ...]] = {}
        self._had: OrderedDict[int, None] = OrderedDict()

    def add(self, client: Subscriber, number: int, ask: Ask) -> None:
        """Let a subscription of a client be a member of the group that it asks for."""
        key = _key_of(ask)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = MembersHere(key, ask.filter, ask.group or "", ask.realm)
            self._engine.add(ask.filter, key)
            self._found.clear()
            self._had[key] = None
            self._had.move_to_end(key)
            if len(self._had) > MAX_HAD:
                self._had.popitem(last=False)
        group.add(client, number, ask)
        self.size += 1

    def remove(self, client: Subscriber, number: int, ask: Ask) -> None:
        """A subscription is a member no more; it has been added with just this."""
        key = _key_of(ask)
        group = self._groups[key]
        group.remove(client, number)
        self.size -= 1
        if not len(group):
            del self._groups[key]
            self._engine.remove(group.filter, key)
            self._found.clear()

    def of(self, topic: bytes) -> Sequence[MembersHere]:
        """Return the groups with members here whose filters match a topic."""
        if not self._groups:
            return ()
        found = self._found.get(topic)
        if found is None:
            if len(self._found) >= MAX_CACHED:
                self._found.clear()
            try:
                keys = self._engine.matches(topic.decode())
            except UnicodeDecodeError:
                keys = []
            found = self._found[topic] = tuple(self._groups[key] for key in keys)
        return found

    def get(self, key: int) -> MembersHere | None:
        """Return the members here of a group, or None."""
        return self._groups.get(key)

    def has_had(self, key: int) -> bool:
        """Say whether a group had members here, now or before."""
        return key in self._groups or key in self._had


def _key_of(ask: Ask) -> int:
    return group_key(ask.filter, ask.group or "", ask.realm)
