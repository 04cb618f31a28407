"""The profiles of a cluster, at one broker: tells its own, holds those of all others.

For example, a client here subscribes to ``a/b``. All members are told the change, each says that it
has taken it, and then the subscription is *active*. What is to be sent is returned, as
:class:`TellAll` (to every member, by the way in which all are told things) and :class:`SendTo` (one
member). Either may be lost, come twice or come late: members that do not answer are reminded, and
what is behind is asked for again.

Members compare digests of all that they hold. A difference that is seen twice is no change under
way: the two say which profiles they hold, and whoever is wrong asks the broker whose profile it is.
One profile a second is also reckoned anew from what is held, so that what was lost here is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from ges.matching.asks import add_marks
from ges.profiles.activity import Active, Activity
from ges.profiles.held import MemberProfiles, is_later
from ges.profiles.index import ProfileIndex
from ges.profiles.profile import Profile
from ges.profiles.telling import Acknowledgements, Pace
from ges.wire.asked import Ask
from ges.wire.profile_messages import (
    MAX_PROFILES,
    HeldProfile,
    HeldProfiles,
    HeldProfilesWanted,
    ProfileDelta,
    ProfilePage,
    ProfileTaken,
    ProfileVersion,
    ProfileWanted,
)
from overlay.ids import Nanos, nanos
from overlay.machine import Message

K = TypeVar("K", bound=Hashable)

ASK_NS = nanos(1.0)  #: who is behind is asked again after this, the pause then doubles ...
LONGEST_ASK_NS = nanos(8.0)  #: ... up to this
ANSWER_NS = nanos(0.2)  #: one member gets all of our profile no more often
AUDIT_NS = nanos(1.0)  #: one profile is reckoned anew
AGAIN_NS = nanos(15.0)  #: a difference that is seen again within this has stayed

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class TellAll:
    """Tell all members this."""

    message: ProfileDelta


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send one member this, whether it is linked or not."""

    uid: str
    message: Message


Act = TellAll | SendTo


class ProfileExchange(Generic[K]):
    """What this broker tells of its profile, and holds of those of others.

    Subscriptions have keys, by which :class:`~ges.profiles.activity.Active` names them.
    """

    def __init__(
        self,
        uid: str,
        incarnation: int,
        profile: Profile | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.profile = Profile(uid, incarnation) if profile is None else profile
        self.activity: Activity[K] = Activity(self.profile)
        self._uid = uid
        self._index = ProfileIndex()
        self._held = MemberProfiles(self._index, incarnation)
        self._is_here = False  #: this broker is a member
        self._acks = Acknowledgements()
        self._pace = Pace()
        self._interests: dict[K, Ask] = {}
        #: Who is behind: when to ask, and for how long was waited since it was asked last; 0: it
        #: was not asked, as it may tell by itself.
        self._asked: dict[str, tuple[Nanos, Nanos]] = {}
        self._answered: dict[str, Nanos] = {}  #: who had all of our profile, and when
        self._differed: dict[str, Nanos] = {}  #: who held something else, and since when
        self._audit_at: Nanos | None = None
        self._to_audit: list[str] = []

    # ── what this broker knows ────────────────────────────────────────────────────────────────

    @property
    def index(self) -> ProfileIndex:
        """Who wants what."""
        return self._index

    @property
    def digest(self) -> int:
        """63 bits that are equal, as good as surely, where two brokers hold the same profiles."""
        total = 0
        for row in self._rows():
            found = blake2b(_encode(row), digest_size=8).digest()
            total = add_marks(total, int.from_bytes(found, "big"))
        return total

    @property
    def interests_by_key(self) -> Mapping[K, Ask]:
        """What the clients here want, by the keys of their subscriptions."""
        return self._interests

    @property
    def held(self) -> MemberProfiles:
        """The profiles of the others."""
        return self._held

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def subscribe(self, key: K, interest: Ask, now: Nanos) -> tuple[list[Act], list[Active[K]]]:
        """A client subscribes; the same key again replaces what it was for.

        Raises:
            ProfileFull: there are too many queue groups here.
        """
        before = self._interests.get(key)
        self.profile.add(interest)
        self._interests[key] = interest
        if before is not None:
            self.profile.remove(before)
        self.activity.wait(key, interest)
        return self._changed(now)

    def unsubscribe(self, key: K, now: Nanos) -> tuple[list[Act], list[Active[K]]]:
        """A client wants it no more."""
        interest = self._interests.pop(key, None)
        if interest is None:
            return [], []
        self.activity.forget(key)
        self.profile.remove(interest)
        return self._changed(now)

    # ── the cluster ───────────────────────────────────────────────────────────────────────────

    def set_members(
        self, slots: Mapping[str, int], incarnations: Mapping[str, int], now: Nanos
    ) -> tuple[list[Act], list[Active[K]]]:
        """These are the members, this broker among them if it has a slot."""
        self._index.set_slots(slots)
        was_here, self._is_here = self._is_here, self._uid in incarnations
        if not self._is_here:
            self._held.forget(
                self.profile.version.epoch
            )  # nobody waits for this broker, so it may miss anything
        others = {uid: life for uid, life in incarnations.items() if uid != self._uid}
        self._held.set_members(others)
        for known in (self._asked, self._answered, self._differed):
            for uid in [*known]:
                if uid not in others:
                    del known[uid]
        count = self.profile.version.count
        new = self._acks.set_members(others, count, now, is_here=was_here)
        for uid in new:
            self._asked[uid] = now + ASK_NS, 0
        if self._audit_at is None and others:
            self._audit_at = now + AUDIT_NS
        acts: list[Act] = [SendTo(uid, self.profile.statement(others[uid])) for uid in new]
        return acts, self._advance()

    def rejoined(self, incarnation: int, now: Nanos) -> tuple[list[Act], list[Active[K]]]:
        """This broker was away and is back, in another life: nobody has waited for it.

        Its members are to be set next.
        """
        self._is_here = False
        self._held.forget(incarnation)
        self.profile.renew(incarnation)
        self.activity.restart()
        self._pace = Pace()
        for uid in self._held.members:
            self._asked[uid] = now + ASK_NS, 0
        self._index.replace(self._uid, self.profile.interests)
        self._acks.restart(now)
        return self._changed(now)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def on_delta(self, delta: ProfileDelta, now: Nanos) -> tuple[bool, list[Act]]:
        """A member has told all, or us, of a change; says whether its version is taken.

        Then whoever told it may be told so, by :meth:`on_taken` there.
        """
        is_taken = self._held.take_delta(delta)
        acts = self._ask_if_behind(delta.origin, now)
        version = self._held.version_of(delta.origin)
        if is_taken and version is not None and (delta.life or version != delta.after):
            # Nobody gathers the answer to what one member was sent, and by what came early a later
            # version is taken than was asked for.
            acts.append(SendTo(delta.origin, ProfileTaken(version)))
        return is_taken, acts

    def on_taken(self, uid: str, version: ProfileVersion, now: Nanos) -> list[Active[K]]:
        """A member holds that version of our profile."""
        own = self.profile.version
        if version.epoch != own.epoch or version.count > own.count:
            return []
        self._acks.take(uid, version.count)
        return self._advance()

    def on_wanted(self, uid: str, now: Nanos) -> list[Act]:
        """A member asks for all of our profile."""
        last = self._answered.get(uid)
        if uid not in self._held.members or (last is not None and now - last < ANSWER_NS):
            return []
        self._answered[uid] = now
        return [SendTo(uid, page) for page in self.profile.pages(self._acks.life_of(uid))]

    def on_page(self, page: ProfilePage, now: Nanos) -> list[Act]:
        """A member sends a part of its profile."""
        if not self._held.take_page(page):
            return []
        version = self._held.version_of(page.origin)
        acts = self._ask_if_behind(page.origin, now)
        return [*acts, SendTo(page.origin, ProfileTaken(version))] if version else acts

    # ── comparing ─────────────────────────────────────────────────────────────────────────────

    def on_differs(self, uid: str, now: Nanos) -> list[Act]:
        """A member has another :attr:`digest`; asked for is what stays, not what is under way."""
        last = self._differed.get(uid)
        if last is not None and now - last < AGAIN_NS:
            del self._differed[uid]
            return [SendTo(uid, HeldProfilesWanted())]
        if uid in self._held.members:
            self._differed[uid] = now
        return []

    def on_held_wanted(self, uid: str) -> list[Act]:
        """A member asks what we hold, as that differs from what it holds."""
        if uid not in self._held.members:
            return []
        return [SendTo(uid, HeldProfiles(tuple(self._rows()[:MAX_PROFILES])))]

    def on_held(self, uid: str, told: HeldProfiles, now: Nanos) -> list[Act]:
        """A member says what it holds: whoever of us is wrong asks whose profile it is."""
        mine = {row.origin: row for row in self._rows()}
        acts: list[Act] = []
        back: list[HeldProfile] = []
        for row in told.held:
            own = mine.get(row.origin)
            if own is None or own == row:
                continue
            if row.origin == self._uid or (
                row.origin != uid and is_later(own.version, row.version)
            ):
                back.append(own)
            elif is_later(row.version, own.version):
                if self._held.note(row.origin, row.version):
                    self.counters["profiles_repaired"] += 1
                    acts += self._ask_if_behind(row.origin, now)
            else:
                self.counters["profiles_repaired"] += 1
                self._held.doubt(row.origin)
                acts += self._ask(row.origin, now)
        if back:
            acts.append(SendTo(uid, HeldProfiles(tuple(back))))
        return acts

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> tuple[list[Act], list[Active[K]]]:
        """Tell what has changed, remind those that do not answer, ask those that are behind."""
        acts, active = self._changed(now)
        for uid in self._acks.overdue(self.profile.version.count, now):
            acts.append(SendTo(uid, self.profile.reminder(self._acks.life_of(uid))))
        for uid, (at, pause) in [*self._asked.items()]:
            if at <= now:
                del self._asked[uid]
                if self._held.is_behind(uid):
                    acts += self._ask(uid, now, max(ASK_NS, min(2 * pause, LONGEST_ASK_NS)))
        if self._audit_at is not None and self._audit_at <= now:
            acts += self._audit(now)
        return acts, active

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do, or None."""
        due = [at for at, _ in self._asked.values()]
        if self.profile.has_changed:
            due.append(self._pace.due())
        others = self._acks.next_deadline(self.profile.version.count), self._audit_at
        due += [at for at in others if at is not None]
        return min(due, default=None)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _changed(self, now: Nanos) -> tuple[list[Act], list[Active[K]]]:
        """Tell what has changed in the profile, if it is time to."""
        acts: list[Act] = []
        if self.profile.has_changed and (not self._held.members or self._pace.due() <= now):
            before = self.profile.version.count
            deltas = self.profile.cut()
            self.activity.note_cut()
            for delta in deltas:
                self._index.change(self._uid, delta.added, delta.removed)
            if deltas and self._held.members:
                acts += [TellAll(delta) for delta in deltas]
                self._pace.spend(now)
                self._acks.told(before, now)
        return acts, self._advance()

    def _advance(self) -> list[Active[K]]:
        if not self._is_here:
            return []  # nobody knows this broker, or it does not know who does
        return self.activity.advance(self._acks.floor(self.profile.version.count))

    def _rows(self) -> list[HeldProfile]:
        own = HeldProfile(self._uid, self.profile.version, self.profile.digest)
        return [own, *self._held.rows()]

    def _ask_if_behind(self, uid: str, now: Nanos) -> list[Act]:
        if not self._held.is_behind(uid):
            self._asked.pop(uid, None)
            return []
        _, pause = self._asked.get(uid, (0, 0))
        return [] if pause else self._ask(uid, now)

    def _ask(self, uid: str, now: Nanos, pause: Nanos = ASK_NS) -> list[Act]:
        if uid not in self._held.members:
            return []
        self._asked[uid] = now + pause, pause
        return [SendTo(uid, ProfileWanted())]

    def _audit(self, now: Nanos) -> list[Act]:
        """Reckon the digest of one profile anew; the members take turns."""
        members = self._held.members
        self._audit_at = now + AUDIT_NS if members else None
        self._to_audit = [uid for uid in self._to_audit if uid in members] or sorted(members)
        if not self._to_audit:
            return []
        uid = self._to_audit.pop()
        if self._held.audit(uid):
            return []
        self.counters["profiles_repaired"] += 1
        return self._ask(uid, now)
