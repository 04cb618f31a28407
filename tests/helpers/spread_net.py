"""Brokers that do nothing but tell each other things: links can be silent, brokers dead."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ges.telling.spread import Spread
from ges.wire.telling_messages import TellTaken, Told
from ges.wire.unit_messages import MemberRow
from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Effect, Message, Send
from ring.geometry import RING_SIZE
from ring.wire.messages import Member

ONE_WAY_NS = nanos(0.001)
KIND = 77


class Content(msgspec.Struct, frozen=True, array_like=True):
    """Something to tell."""

    text: str


class Teller:
    """One broker, and what it sees."""

    def __init__(self, number: int, place: int) -> None:
        self.peer = Peer(f"{number:032x}", 1, f"chordal://{number}.test:1")
        self.member: Member | None = Member(self.peer, place)
        self.linked: dict[str, int] = {}
        self.live: Mapping[str, MemberRow] = {}
        self.spread = Spread(self)
        self.took: list[tuple[str, str]] = []  #: content and who it came from
        self.takes = True
        self.is_alive = True
        self.spread.register(KIND, Content, self._take)

    @property
    def uid(self) -> str:
        return self.peer.uid

    def _take(self, content: Content, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        self.took.append((content.text, uid))
        return self.takes, []


class SpreadNet:
    """A ring of tellers with chords, in virtual time."""

    def __init__(self, n: int, chords: Iterable[tuple[int, int]] | None = None) -> None:
        """Link neighbours and second neighbours, and by ``chords``; None: by rank."""
        self.now: Nanos = 0
        self.sent: list[tuple[str, str, Message]] = []
        self.tellers = [Teller(k + 1, k * RING_SIZE // n) for k in range(n)]
        self.by_uid = {teller.uid: teller for teller in self.tellers}
        self.silent: set[frozenset[str]] = set()  #: pairs between which all is lost
        self._queue: list[tuple[Nanos, int, str, str, Message]] = []
        self.know(self.tellers)
        steps = [1, 2] if chords is not None else [s for s in (1, 2, 4, 8, 16, 32) if s < n]
        pairs = [(k, (k + step) % n) for k in range(n) for step in steps] + [*(chords or ())]
        for a, b in pairs:
            if a != b:
                self.link(a, b)

    def know(self, members: Sequence[Teller]) -> None:
        """Let all know that these are the members."""
        rows = {}
        for slot, teller in enumerate(members[:64]):
            assert teller.member is not None
            rows[teller.uid] = MemberRow(slot, teller.member, 1)
        for teller in self.tellers:
            teller.live = rows

    def link(self, a: int, b: int) -> None:
        """Let there be a link."""
        for here, there in ((self.tellers[a], self.tellers[b]), (self.tellers[b], self.tellers[a])):
            assert there.member is not None
            here.linked[there.uid] = there.member.ring_id

    def unlink(self, a: int, b: int) -> None:
        """Let there be no link, and both know."""
        self.tellers[a].linked.pop(self.tellers[b].uid, None)
        self.tellers[b].linked.pop(self.tellers[a].uid, None)

    def silence(self, a: int, b: int) -> None:
        """Let all that the two send each other be lost, without their knowing."""
        self.silent.add(frozenset((self.tellers[a].uid, self.tellers[b].uid)))

    def tell(self, number: int, text: str = "news") -> list[frozenset[str]]:
        """Let a broker tell something; the list gets who has not taken it in the end."""
        ends: list[frozenset[str]] = []
        teller = self.tellers[number]

        def done(missing: frozenset[str], now: Nanos) -> list[Effect]:
            ends.append(missing)
            return []

        self.perform(teller, teller.spread.tell(KIND, Content(text), self.now, done))
        return ends

    def perform(self, teller: Teller, effects: list[Effect]) -> None:
        """Send what is to be sent."""
        for effect in effects:
            assert isinstance(effect, Send)
            self.sent.append((teller.uid, effect.uid, effect.message))
            pair = frozenset((teller.uid, effect.uid))
            if effect.uid in teller.linked and pair not in self.silent:
                arrival = self.now + ONE_WAY_NS
                entry = (arrival, len(self.sent), teller.uid, effect.uid, effect.message)
                heapq.heappush(self._queue, entry)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + nanos(seconds)
        while True:
            dues = [(d, t) for t in self.tellers if (d := t.spread.next_deadline()) is not None]
            due, teller = min(dues, key=lambda each: each[0], default=(end + 1, None))
            arrival = self._queue[0][0] if self._queue else end + 1
            self.now = max(self.now, min(due, arrival))
            if self.now > end:
                self.now = end
                return
            if arrival <= due:
                _, _, sender, receiver, message = heapq.heappop(self._queue)
                self._arrive(sender, self.by_uid[receiver], message)
            elif teller is not None:
                effects = teller.spread.handle_timers(self.now)
                if teller.is_alive:
                    self.perform(teller, effects)

    def _arrive(self, sender: str, teller: Teller, message: Message) -> None:
        if not teller.is_alive:
            return
        if isinstance(message, Told):
            self.perform(teller, teller.spread.on_told(sender, message, self.now))
        elif isinstance(message, TellTaken):
            self.perform(teller, teller.spread.on_taken(sender, message, self.now))
