"""Something is told to all members of the cluster, and who told it learns when all have taken it.

It goes over a tree on arcs of the ring (:mod:`ges.telling.arcs`): with one cluster once round, else
from the origin right and left to the ends of the cluster's arc. What was taken is gathered on the
way back: a broker answers when all that it passed it on to have answered, or after 0.7 s without
those that are silent; what they say later it passes on. The origin tells those that are missing
again: after 1 s, over the links there are then, round those that were silent, and every other time
the other way round the ring, as a broker whose left link has failed is reached from its right.
(With several clusters that way leads over others, which pass on what is not for them.)

A member that dies or leaves is struck. One that joined after the telling began is not waited for:
what it must know is its content's own rule.

What is told has a *kind*, and a room that has something to tell registers a type and a handler for
its kind. A content is given to the handler once, unless that says that it cannot take it yet.
Contents may overtake each other, so each must say for itself which is the later one.

A content can also be told in the arc of a context. Then only the members of the own cluster are
waited for; others that miss it find out as they compare digests.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from ges.telling.arcs import WHOLE, Arc, inside, mirrored, row_from, shares
from ges.wire.telling_messages import MAX_CONTENT_BYTES, MAX_TAKEN, TellTaken, Told
from ges.wire.unit_messages import MemberRow
from overlay.circular import is_after
from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Effect, Send, TimerTable
from ring.geometry import RING_SIZE, between
from ring.wire.messages import Member

RELAY_WAIT_NS = nanos(0.7)  #: a broker waits so long for those it has passed something on to ...
RETRY_NS = nanos(1.0)  #: ... the origin tells who is missing again, then after twice as long ...
LONGEST_RETRY_NS = nanos(8.0)  #: ... up to this ...
GIVE_UP_NS = nanos(30.0)  #: ... and so long in all

MAX_TELLS = 256  #: under way from one broker: the oldest is given up
MAX_RELAYED = 1024  #: that a broker waits for answers to, for others
MAX_ORIGINS = 256  #: whose numbers are known
WINDOW = 256  #: of what an origin has told, so much is known to be taken

#: Which telling: origin, its incarnation, its number.
Key = tuple[str, int, int]
#: Takes a content, who it came from, and the time; says whether it is taken, and what to do.
Take = Callable[[Any, str, Nanos], tuple[bool, list[Effect]]]
#: Hears who has not taken what was told (nobody: all have), and the time.
Done = Callable[[frozenset[str], Nanos], list[Effect]]

S = TypeVar("S", bound=msgspec.Struct)

_encode = msgspec.msgpack.Encoder().encode


class Surroundings(Protocol):
    """What a broker sees of the ring and the cluster."""

    @property
    def peer(self) -> Peer:
        """This broker."""

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""

    @property
    def linked(self) -> Mapping[str, int]:
        """Members at the other ends of normal links: uid -> ring id."""

    @property
    def live(self) -> Mapping[str, MemberRow]:
        """Members of the cluster, this broker among them, by uid."""


@dataclass(slots=True)
class _Fan:
    """One telling at one broker: to whom it went from here, and what they say."""

    parent: str | None  #: None: this broker told it
    taken: set[str] = field(default_factory=set)
    waiting: dict[str, Nanos] = field(default_factory=dict)  #: no answer yet, and since when
    partial: set[str] = field(default_factory=set)  #: these wait for others themselves
    has_answered: bool = False

    def silent(self, now: Nanos) -> set[str]:
        """Return those that should have answered by now."""
        return {uid for uid, since in self.waiting.items() if now - since >= RELAY_WAIT_NS // 2}


@dataclass(slots=True)
class _Telling:
    """What this broker tells."""

    told: Told
    missing: set[str]
    since: Nanos
    on_done: Done
    fan: _Fan
    arc: Arc
    is_whole: bool  #: who is in no table of this broker is waited for, too
    attempts: int = 0

    @property
    def is_open(self) -> bool:
        """Somebody has not answered."""
        return bool(self.missing) or (self.is_whole and bool(self.fan.waiting or self.fan.partial))


@dataclass(slots=True)
class _Heard:
    """What one origin has told that was taken here."""

    incarnation: int
    numbers: dict[int, None] = field(default_factory=dict)  #: in the order in which they came


class Spread:
    """What one broker tells, and passes on."""

    def __init__(self, around: Surroundings, arc: Callable[[], Arc] = lambda: WHOLE) -> None:
        """``arc``: that of the cluster, as it is now."""
        self.counters: Counter[str] = Counter()
        self._arc = arc
        self._around = around
        self._takers: dict[int, tuple[msgspec.msgpack.Decoder[Any], Take]] = {}
        self._number = 0
        self._tellings: dict[Key, _Telling] = {}
        self._relayed: OrderedDict[Key, _Fan] = OrderedDict()
        self._heard: OrderedDict[str, _Heard] = OrderedDict()
        self._timers: TimerTable[Key] = TimerTable()

    def register(self, kind: int, content: type[S], take: Take) -> None:
        """Have contents of a kind, all of one type, given to ``take``."""
        self._takers[kind] = (msgspec.msgpack.Decoder(content), take)

    @property
    def under_way(self) -> int:
        """How much of what this broker tells somebody has not taken yet."""
        return len(self._tellings)

    def tell(
        self,
        kind: int,
        content: msgspec.Struct,
        now: Nanos,
        on_done: Done | None = None,
        arc: Arc | None = None,
        *,
        whole: bool = False,
    ) -> list[Effect]:
        """Tell all members; ``on_done`` hears once who of those known now has not taken it.

        ``arc``: tell all that stand in it, rather than in that of the cluster. With ``whole`` these
        are waited for, too; where some have not answered, ``on_done`` hears of an empty uid.

        That is nobody, unless it was given up after 30 s.

        Raises:
            ValueError: the content has more than 60 KiB.
        """
        body = _encode(content)
        if len(body) > MAX_CONTENT_BYTES:
            raise ValueError(f"{len(body)} bytes to be told at once; at most {MAX_CONTENT_BYTES}")
        effects: list[Effect] = []
        if len(self._tellings) >= MAX_TELLS:
            effects += self._finish(next(iter(self._tellings)), now)
        self._number += 1
        peer = self._around.peer
        told = Told(peer.uid, peer.incarnation, self._number, 0, False, kind, body)
        missing = set(self._around.live) - {peer.uid}
        if whole and peer.uid not in self._around.live:
            missing.clear()  # it waits for a slot: members of its cluster are as all others are
        reach = self._arc() if arc is None else arc
        telling = _Telling(told, missing, now, on_done or _nothing, _Fan(None), reach, whole)
        self._tellings[_key(told)] = telling
        return [*effects, *self._attempt(telling, now)]

    def on_told(self, uid: str, told: Told, now: Nanos) -> list[Effect]:
        """Take what is told, pass it on, and answer."""
        member = self._around.member
        if member is None or told.origin == member.uid:
            return []
        heard = self._hear(told)
        if heard is None:
            return []
        effects: list[Effect] = []
        key = _key(told)
        fan = self._fan(key, uid)
        is_taken, live = self._take(told, heard, uid, effects, now), self._around.live
        if is_taken and member.uid in live and told.origin in live:  # else nobody waits for it
            fan.taken.add(member.uid)
        if told.end != member.ring_id:  # else there is nobody in the arc
            effects += self._fan_out(fan, (told,), now)
        if fan.waiting:
            self._timers.set(key, now + RELAY_WAIT_NS)
        else:
            effects += self._answer(key, fan, now)
        return effects

    def take_content(
        self, kind: int, content: bytes, uid: str, now: Nanos
    ) -> tuple[bool, list[Effect]]:
        """Give a content of a kind to its room; says whether that takes it, and what to do."""
        known = self._takers.get(kind)
        if known is None:
            self.counters["tells_of_unknown_kind"] += 1
            return False, []
        decoder, take = known
        try:
            read = decoder.decode(content)
        except msgspec.MsgspecError:
            self.counters["tells_malformed"] += 1
            return False, []
        return take(read, uid, now)

    def on_taken(self, uid: str, taken: TellTaken, now: Nanos) -> list[Effect]:
        """Somebody says who has taken it in the arc that it was given."""
        key = _key(taken)
        telling = self._tellings.get(key)
        fan = telling.fan if telling is not None else self._relayed.get(key)
        if fan is None:
            return []
        fan.waiting.pop(uid, None)
        if taken.whole:
            fan.partial.discard(uid)
        else:
            fan.partial.add(uid)
        if telling is not None:
            telling.missing.difference_update(taken.taken)
            return [] if telling.is_open else self._finish(key, now)
        if len(fan.taken) + len(taken.taken) <= MAX_TAKEN:
            fan.taken.update(taken.taken)
        return self._answer(key, fan, now) if fan.has_answered or not fan.waiting else []

    def strike(self, uids: Iterable[str], now: Nanos) -> list[Effect]:
        """Wait no more for these, who are dead or gone."""
        gone = set(uids)
        effects: list[Effect] = []
        for key, telling in tuple(self._tellings.items()):
            if not telling.missing.isdisjoint(gone):
                telling.missing -= gone
                effects += [] if telling.is_open else self._finish(key, now)
        return effects

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Answer without those that are silent; tell who is missing again."""
        effects: list[Effect] = []
        while (key := self._timers.pop_expired(now)) is not None:
            telling, fan = self._tellings.get(key), self._relayed.get(key)
            if telling is not None:
                if now - telling.since >= GIVE_UP_NS:
                    self.counters["tells_given_up"] += 1
                    effects += self._finish(key, now)
                else:
                    effects += self._attempt(telling, now)
            elif fan is not None and not fan.has_answered:
                effects += self._answer(key, fan, now)
            else:
                self._relayed.pop(key, None)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when somebody is waited for no longer, or None."""
        return self._timers.next_deadline()

    # ── the origin ────────────────────────────────────────────────────────────────────────────

    def _attempt(self, telling: _Telling, now: Nanos) -> list[Effect]:
        """Tell those that are missing, and whoever is on the way to them."""
        member, key = self._around.member, _key(telling.told)
        if not telling.missing and not self._around.linked:
            return self._finish(key, now)
        pause = min(RETRY_NS << max(0, telling.attempts - 1), LONGEST_RETRY_NS)
        self._timers.set(key, now + pause)
        telling.attempts += 1
        if member is None:
            return []
        tolds = _ways(telling, member.ring_id)
        if telling.attempts == 1:
            effects = self._fan_out(telling.fan, tolds, now)
            # Who has no slot yet is told as well, but not waited for.
            return effects if telling.is_open else [*effects, *self._finish(key, now)]
        self.counters["tells_again"] += 1
        if telling.is_whole:
            return self._fan_out(telling.fan, tolds, now)
        rows = self._around.live
        places = [rows[uid].member.ring_id for uid in telling.missing if uid in rows]
        return self._fan_out(telling.fan, tolds, now, only=places)

    def _finish(self, key: Key, now: Nanos) -> list[Effect]:
        self._timers.cancel(key)
        telling = self._tellings.pop(key)
        missing = telling.missing | ({""} if telling.is_open and not telling.missing else set())
        return telling.on_done(frozenset(missing), now)

    # ── everybody ─────────────────────────────────────────────────────────────────────────────

    def _fan_out(
        self, fan: _Fan, tolds: tuple[Told, ...], now: Nanos, only: list[int] | None = None
    ) -> list[Effect]:
        """Pass it on in one or two arcs; with ``only`` just to those that serve these places.

        Who was silent before gets nothing to serve but itself.
        """
        silent = fan.silent(now)
        fan.waiting = {}
        fan.partial.clear()
        effects: list[Effect] = []
        for told in tolds:
            for uid, end in self._given(told, silent, only):
                fan.waiting[uid] = now
                effects.append(Send(uid, msgspec.structs.replace(told, end=end)))
        return effects

    def _given(self, told: Told, silent: set[str], only: list[int] | None) -> list[tuple[str, int]]:
        """Return who is to serve which part of an arc: up to which end."""
        member = self._around.member
        assert member is not None, "only for those who have a place"
        flip = mirrored if told.leftwards else _same
        here, limit = flip(member.ring_id), flip(told.end)
        row = row_from(here, ((flip(place), uid) for uid, place in self._around.linked.items()))
        arc = inside(here, row, limit)
        serving = [entry for entry in arc if entry[1] not in silent]
        given = [(uid, end) for uid, end in shares(serving, limit) if uid != told.origin]
        given += [(uid, (place + 1) % RING_SIZE) for place, uid in arc if uid in silent]
        if only is not None:
            at, wanted = {uid: place for place, uid in row}, [*map(flip, only)]
            given = [
                (uid, end)
                for uid, end in given
                if any(at[uid] == place or between(at[uid], place, end) for place in wanted)
            ]
        return [(uid, flip(end)) for uid, end in given]

    def _fan(self, key: Key, parent: str) -> _Fan:
        fan = self._relayed.get(key)
        if fan is None:
            if len(self._relayed) >= MAX_RELAYED:
                self._timers.cancel(self._relayed.popitem(last=False)[0])
            fan = self._relayed[key] = _Fan(parent)
        fan.parent, fan.has_answered = parent, False
        return fan

    def _answer(self, key: Key, fan: _Fan, now: Nanos) -> list[Effect]:
        """Say what is known; as long as that is not all, more may follow."""
        is_whole = not fan.waiting and not fan.partial
        fan.has_answered = True
        if is_whole:
            self._timers.cancel(key)
            del self._relayed[key]
        else:
            self._timers.set(key, now + GIVE_UP_NS)  # then it is forgotten
        assert fan.parent is not None
        return [Send(fan.parent, TellTaken(*key, tuple(sorted(fan.taken)), is_whole))]

    def _hear(self, told: Told) -> _Heard | None:
        """Return what is known of an origin; None where a later life of it has been heard."""
        heard = self._heard.get(told.origin)
        if heard is None or is_after(told.incarnation, heard.incarnation):
            heard = self._heard[told.origin] = _Heard(told.incarnation)
            if len(self._heard) > MAX_ORIGINS:
                self._heard.popitem(last=False)
        self._heard.move_to_end(told.origin)
        return heard if heard.incarnation == told.incarnation else None

    def _take(self, told: Told, heard: _Heard, uid: str, effects: list[Effect], now: Nanos) -> bool:
        if told.number in heard.numbers:
            return True
        is_taken, then = self.take_content(told.kind, told.content, uid, now)
        effects += then
        if is_taken:
            heard.numbers[told.number] = None
            if len(heard.numbers) > WINDOW:
                del heard.numbers[next(iter(heard.numbers))]
        return is_taken


def _key(message: Told | TellTaken) -> Key:
    return message.origin, message.incarnation, message.number


def _ways(telling: _Telling, here: int) -> tuple[Told, ...]:
    """Return how a content is told this time: which ways from here, and up to where."""
    arc, told, attempt = telling.arc, telling.told, telling.attempts
    if arc.is_whole or attempt % 2 == 0:
        leftwards = attempt % 2 == 0 if arc.is_whole else attempt % 4 == 0
        return (msgspec.structs.replace(told, end=here, leftwards=leftwards),)
    right = msgspec.structs.replace(told, end=arc.hi, leftwards=False)
    if here == arc.lo:
        return (right,)
    end = (arc.lo - 1) % RING_SIZE
    return right, msgspec.structs.replace(told, end=end, leftwards=True)


def _same(ring_id: int) -> int:
    return ring_id


def _nothing(missing: frozenset[str], now: Nanos) -> list[Effect]:
    return []
