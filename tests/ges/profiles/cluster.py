"""A cluster of profile exchanges, a network that loses and reorders, and what must hold of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ges.matching.asks import ask_for
from ges.profiles.exchange import ProfileExchange
from ges.profiles.profile import Profile
from ges.profiles.profiles_part import STAYS_NS
from ges.telling.changes import Changes
from ges.telling.shared import Asking
from ges.wire.asked import CLASS_BITS, Ask
from ges.wire.matter import Matter
from ges.wire.profile_messages import ProfileDelta, ProfilePage, ProfileTaken
from ges.wire.telling_messages import Kind, RowsWanted
from overlay.ids import LinkClass, nanos
from overlay.machine import Effect, Message
from tests.helpers.linear_filters import does_match

Key = int
MILLISECOND = nanos(0.001)
TOPICS = [
    *("a", "b", "$s", "a/a", "a/b", "b/a", "b/b", "a/a/a", "a/a/b", "a/b/a", "b/a/a", "b/b/b"),
    *("$s/a", "$s/b", "c", "c/a", "a/c", "a/a/c"),
]
FILTERS = [
    *("a", "a/a", "a/b", "b/a", "a/a/a", "#", "+/#", "a/#", "b/#", "a/a/#", "+", "+/a", "a/+"),
    *("+/+", "a/+/a", "+/+/b", "$s/#", "$s/a", "+/b/#"),
]


def asks_for(ask: Ask, link_class: LinkClass, topic: str) -> bool:
    return bool(ask.classes & CLASS_BITS[link_class]) and does_match(ask.filter, topic)


@dataclass
class Broker:
    """One member, with what its clients want."""

    uid: str
    incarnation: int
    exchange: ProfileExchange[Key]
    asking: Asking
    view: int = 0  #: of the members, that it has seen
    wanted: dict[Key, Ask] = field(default_factory=dict)
    active: set[Key] = field(default_factory=set)
    not_told: set[Key] = field(default_factory=set)  #: active in an earlier life

    def note_active(self) -> None:
        """Take note of the subscriptions that have become active."""
        self.active.update(self.exchange.take_active())


@dataclass(frozen=True)
class View:
    """Members, with incarnation and slot each."""

    lives: dict[str, int]
    slots: dict[str, int]


@dataclass
class Cluster:
    """Brokers, what is under way between them, and a clock."""

    rng: Random = field(default_factory=lambda: Random(0))
    limit: int = 16_384  #: of asks in one profile
    now: int = 0
    brokers: dict[str, Broker] = field(default_factory=dict)
    under_way: list[tuple[str, str, Message]] = field(default_factory=list)
    views: list[View] = field(default_factory=lambda: [View({}, {})])
    keys: int = 0
    lives: dict[str, int] = field(default_factory=dict)
    sent: int = 0

    # ── members ───────────────────────────────────────────────────────────────────────────────

    def join(self, uid: str) -> Broker:
        life = self.lives[uid] = self.lives.get(uid, 0) + 1
        profile = Profile(uid, life, limit=self.limit)

        def send(target: str, message: Message) -> list[Effect]:
            self.send(uid, target, message)
            return []

        def tell_all(delta: ProfileDelta, now: int) -> list[Effect]:
            for other in sorted(self.views[broker.view].lives):
                if other != uid:
                    self.send(uid, other, delta)
            return []

        exchange: ProfileExchange[Key] = ProfileExchange(
            uid, life, send, tell_all, Changes(), profile
        )
        asking = Asking(Kind.PROFILES, exchange, send, stays=STAYS_NS)
        broker = Broker(uid, life, exchange, asking)
        self.brokers[uid] = broker
        self._add(uid, life)
        self.show(uid, len(self.views) - 1)
        return broker

    def crash(self, uid: str) -> None:
        del self.brokers[uid]
        self.under_way = [each for each in self.under_way if uid not in each[:2]]
        self.banish(uid)

    def banish(self, uid: str) -> None:
        """The others take a broker for dead."""
        last = self.views[-1]
        self.views.append(
            View(
                {each: life for each, life in last.lives.items() if each != uid},
                {each: slot for each, slot in last.slots.items() if each != uid},
            )
        )

    def come_back(self, uid: str) -> None:
        """A broker that was taken for dead is back, in another life."""
        broker = self.brokers[uid]
        broker.incarnation = self.lives[uid] = self.lives[uid] + 1
        broker.not_told |= broker.active
        broker.active.clear()  # nobody promised anything while it was away
        self._add(uid, broker.incarnation)
        broker.exchange.rejoined(broker.incarnation, self.now)
        broker.note_active()
        self.show(uid, len(self.views) - 1)

    def _add(self, uid: str, life: int) -> None:
        last = self.views[-1]
        slot = min(set(range(64)) - set(last.slots.values()))
        self.views.append(View(last.lives | {uid: life}, last.slots | {uid: slot}))

    def show(self, uid: str, view: int) -> None:
        """Let a broker see who the members are."""
        broker = self.brokers[uid]
        if view <= broker.view:
            return
        broker.view = view
        seen = self.views[view]
        broker.exchange.set_members(seen.slots, seen.lives, self.now)
        broker.note_active()

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def subscribe(self, uid: str, text: str, link_class: LinkClass | None = None) -> Key:
        broker = self.brokers[uid]
        self.keys += 1
        ask = broker.wanted[self.keys] = ask_for(text, link_class)
        broker.exchange.subscribe(self.keys, ask, self.now)
        broker.note_active()
        return self.keys

    def unsubscribe(self, uid: str, key: Key) -> None:
        broker = self.brokers[uid]
        del broker.wanted[key]
        broker.active.discard(key)
        broker.not_told.discard(key)
        broker.exchange.unsubscribe(key, self.now)
        broker.note_active()

    # ── the network and the clock ─────────────────────────────────────────────────────────────

    def send(self, source: str, target: str, message: Message) -> None:
        if target in self.brokers:
            self.under_way.append((source, target, message))
            self.sent += 1

    def lose(self, at: int) -> None:
        if self.under_way:
            self.under_way.pop(at % len(self.under_way))

    def double(self, at: int) -> None:
        if self.under_way:
            self.under_way.append(self.under_way[at % len(self.under_way)])

    def deliver(self, at: int = 0) -> None:
        if self.under_way:
            source, target, message = self.under_way.pop(at % len(self.under_way))
            self.hand_over(source, self.brokers[target], message)

    def hand_over(self, source: str, broker: Broker, message: Message) -> None:
        exchange, now = broker.exchange, self.now
        match message:
            case ProfileDelta() if source != message.origin:
                exchange.on_delta(source, message, now)
            case ProfileDelta():
                if exchange.on_told(message, source, now)[0]:
                    self.send(broker.uid, message.origin, ProfileTaken(message.after))
            case ProfileTaken(version):
                exchange.on_taken(source, version)
            case ProfilePage():
                exchange.on_page(message, now)
            case RowsWanted():
                broker.asking.on_wanted(source, message, now)
            case _:
                raise AssertionError(message)
        broker.note_active()

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds * MILLISECOND
        for broker in [*self.brokers.values()]:
            due = broker.exchange.next_deadline()
            if due is not None and due <= self.now:
                broker.exchange.handle_timers(self.now)
                broker.note_active()

    def compare(self, uid: str, other: str) -> None:
        """One broker tells another one its digest."""
        broker, told = self.brokers[uid], self.brokers[other].exchange.digest
        if broker.exchange.digest != told:
            broker.asking.on_differs(other, self.now)

    def deliver_all(self) -> None:
        for _ in range(100_000):
            if not self.under_way:
                return
            self.deliver(self.rng.randrange(len(self.under_way)))
        raise AssertionError("they never fall silent")

    def settle(self, seconds: int = 40) -> None:
        """Let nothing be lost any more, and wait."""
        for uid in self.brokers:
            self.show(uid, len(self.views) - 1)
        for second in range(seconds):
            for _ in range(4):
                self.deliver_all()
                self.wait(250)
            uids = sorted(self.brokers)
            if second % 5 == 4:
                for uid, other in zip(uids, uids[1:] + uids[:1], strict=True):
                    self.compare(uid, other)
        self.deliver_all()

    # ── what must hold ────────────────────────────────────────────────────────────────────────

    def members(self) -> list[Broker]:
        """Brokers that all others take for members, or will."""
        return [b for b in self.brokers.values() if b.uid in self.views[-1].lives]

    def check_nothing_is_missed(self) -> None:
        """From wherever an event is published, it goes to each subscription that is active."""
        slots = self.views[-1].slots
        for owner in self.members():
            for key in owner.active:
                for topic in TOPICS:
                    for link_class in LinkClass:
                        if not asks_for(owner.wanted[key], link_class, topic):
                            continue
                        for publisher in self.members():
                            mask = publisher.exchange.index.mask_of(
                                Matter(link_class, topic.encode())
                            )
                            assert mask >> slots[owner.uid] & 1, (
                                f"{publisher.uid} keeps {topic} from {owner.uid}, which is active "
                                f"by {owner.wanted[key]}"
                            )

    def check_at_rest(self) -> None:
        """All hold what is true, and no event goes to a broker that did not ask for it."""
        members = self.members()
        assert len({broker.exchange.digest for broker in members}) <= 1
        for broker in members:
            profile = broker.exchange.profile
            assert not profile.has_changed
            assert broker.active | broker.not_told == set(broker.wanted), "all is active"
            for other in members:
                held = other.exchange.others
                if other is not broker:
                    assert not held.is_behind(broker.uid), (other.uid, broker.uid)
                    assert held.version_of(broker.uid) == profile.version
                    assert held.asks_of(broker.uid) == profile.asks
        slots = self.views[-1].slots
        for link_class in LinkClass:
            for topic in TOPICS:
                truth = 0
                for broker in members:
                    if any(asks_for(each, link_class, topic) for each in broker.wanted.values()):
                        truth |= 1 << slots[broker.uid]
                for broker in members:
                    mask = broker.exchange.index.mask_of(Matter(link_class, topic.encode()))
                    if any(each.exchange.profile.is_merged for each in members):
                        assert mask & truth == truth
                    else:
                        assert mask == truth, (broker.uid, link_class, topic)
