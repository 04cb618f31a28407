"""The profiles of a cluster, at one broker: tells its own, holds those of all others.

For example, a client here subscribes to ``a/b``. All members are told the change, each says that it
has taken it, and then the subscription is *active*. Any message may be lost, come twice or come
late. This broker tells all again which version holds until each member has taken it, and a member
that is behind asks for the profile.

Members compare digests of all that they hold (:mod:`ges.telling.shared`). Where these differ, one
learns from the other which versions hold, and asks the broker whose profile it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Generic, TypeVar

from ges.profiles.activity import Activity
from ges.profiles.held import MemberProfiles
from ges.profiles.index import ProfileIndex
from ges.profiles.profile import Profile
from ges.profiles.taken import Acknowledgements, Pace
from ges.telling.changes import Change, Changes
from ges.telling.shared import SendTo, is_later, mark_of
from ges.wire.asked import Ask
from ges.wire.profile_messages import ProfileDelta, ProfilePage, ProfileTaken
from ges.wire.telling_messages import HeldRow, Kind, RowsWanted, RowVersion
from overlay.ids import Nanos, nanos
from overlay.machine import Effect

K = TypeVar("K", bound=Hashable)

ASK_NS = nanos(1.0)  #: from one question for a member's profile to the next
ANSWER_NS = nanos(0.2)  #: one member gets all of our profile no more often
REMIND_NS = nanos(5.0)  #: all are told which version holds, where some have not taken it


#: Tells all members a change, or which version holds.
TellAll = Callable[[ProfileDelta, Nanos], list[Effect]]


class ProfileExchange(Generic[K]):
    """What this broker tells of its profile, and holds of those of others.

    Subscriptions have keys, by which :meth:`take_active` names them.
    """

    def __init__(
        self,
        uid: str,
        incarnation: int,
        send: SendTo,
        tell_all: TellAll,
        changes: Changes,
        profile: Profile | None = None,
    ) -> None:
        self._send = send
        self._tell_all = tell_all
        self._changes = changes
        self._active: list[K] = []  #: keys that nobody has taken yet
        self.counters: Counter[str] = Counter()
        self.profile = Profile(uid, incarnation) if profile is None else profile
        self.activity: Activity[K] = Activity(self.profile)
        self._uid = uid
        self._index = ProfileIndex(partial(changes.mark, Change.ASKS))
        self._held = MemberProfiles(self._index, incarnation)
        self._is_here = False  #: this broker is a member
        self._acks = Acknowledgements()
        self._pace = Pace()
        self._asks: dict[K, Ask] = {}
        self._asked: dict[str, Nanos] = {}  #: who was asked for its profile, and when
        self._answered: dict[str, Nanos] = {}  #: who had all of our profile, and when
        self._remind_at: Nanos | None = None  #: when to see whether all have taken the profile

    # ── what this broker knows ────────────────────────────────────────────────────────────────

    @property
    def index(self) -> ProfileIndex:
        """Who wants what."""
        return self._index

    @property
    def digest(self) -> int:
        """63 bits that are equal, as good as surely, where two brokers hold the same profiles."""
        return sum(map(mark_of, self.held)) % 2**63

    @property
    def held(self) -> list[HeldRow]:
        """Which version of each profile is held, that of this broker first."""
        return [HeldRow(self._uid, self.profile.version), *self._held.rows()]

    @property
    def asks_by_key(self) -> Mapping[K, Ask]:
        """What the clients here want, by the keys of their subscriptions."""
        return self._asks

    @property
    def others(self) -> MemberProfiles:
        """The profiles of the others."""
        return self._held

    def take_active(self) -> list[K]:
        """Return, once, the keys of the subscriptions that have become active in the cluster."""
        active, self._active = self._active, []
        return active

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def subscribe(self, key: K, ask: Ask, now: Nanos) -> list[Effect]:
        """A client subscribes; the same key again replaces what it was for.

        Raises:
            ProfileFull: there are too many queue groups here.
        """
        before = self._asks.get(key)
        self.profile.add(ask)
        self._asks[key] = ask
        if before is not None:
            self.profile.remove(before)
        self.activity.wait(key, ask)
        return self._changed(now)

    def unsubscribe(self, key: K, now: Nanos) -> list[Effect]:
        """A client wants it no more."""
        ask = self._asks.pop(key, None)
        if ask is None:
            return []
        self.activity.forget(key)
        self.profile.remove(ask)
        return self._changed(now)

    # ── the cluster ───────────────────────────────────────────────────────────────────────────

    def set_members(
        self, slots: Mapping[str, int], incarnations: Mapping[str, int], now: Nanos
    ) -> list[Effect]:
        """These are the members, this broker among them if it has a slot."""
        self._index.set_slots(slots)
        was_here, self._is_here = self._is_here, self._uid in incarnations
        if not self._is_here:
            self._held.forget(
                self.profile.version.epoch
            )  # nobody waits for this broker, so it may miss anything
        others = {uid: life for uid, life in incarnations.items() if uid != self._uid}
        self._held.set_members(others)
        for known in (self._asked, self._answered):
            for uid in [*known]:
                if uid not in others:
                    del known[uid]
        count = self.profile.version.count
        new = self._acks.set_members(others, count, is_here=was_here)
        if self._is_waiting:
            self._remind_at = self._remind_at or now + REMIND_NS
        self._advance()
        return [e for uid in new for e in self._send(uid, self.profile.statement(others[uid]))]

    def rejoined(self, incarnation: int, now: Nanos) -> list[Effect]:
        """This broker was away and is back, in another life: nobody has waited for it.

        Its members are to be set next.
        """
        self._is_here = False
        self._held.forget(incarnation)
        self.profile.renew(incarnation)
        self.activity.restart()
        self._pace = Pace()
        self._index.replace(self._uid, self.profile.asks)
        self._acks.restart()
        return self._changed(now)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def on_told(self, delta: ProfileDelta, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        """A member has told all, or us, of a change; says whether its version is taken."""
        is_taken = self._held.take_delta(delta)
        effects = self._ask_if_behind(delta.origin, now)
        version = self._held.version_of(delta.origin)
        if is_taken and version is not None and (delta.life or version != delta.after):
            # Nobody gathers the answer to what one member was sent, and by what came early a later
            # version is taken than was asked for.
            effects += self._send(delta.origin, ProfileTaken(version))
        return is_taken, effects

    def on_delta(self, uid: str, delta: ProfileDelta, now: Nanos) -> list[Effect]:
        """A member sends its profile, or says which version of that of another one holds."""
        if uid == delta.origin:
            return self.on_told(delta, uid, now)[1]
        if delta.before != delta.after:
            return []
        was_behind = self._held.is_behind(delta.origin)
        effects = self.on_told(delta, uid, now)[1]
        self.counters["profiles_repaired"] += self._held.is_behind(delta.origin) and not was_behind
        return effects

    def on_taken(self, uid: str, version: RowVersion) -> None:
        """A member holds that version of our profile."""
        own = self.profile.version
        if version.epoch == own.epoch and version.count <= own.count:
            self._acks.note_taken(uid, version.count)
            self._advance()

    def on_page(self, page: ProfilePage, now: Nanos) -> list[Effect]:
        """A member sends a part of its profile."""
        if not self._held.take_page(page):
            return []
        version = self._held.version_of(page.origin)
        effects = self._ask_if_behind(page.origin, now)
        return effects + (self._send(page.origin, ProfileTaken(version)) if version else [])

    # ── comparing ─────────────────────────────────────────────────────────────────────────────

    def answer(self, uid: str, wanted: RowsWanted, now: Nanos) -> tuple[list[Effect], bool]:
        """Send a member what it lacks; says whether it holds what is out of date here.

        It gets the profile of this broker. Of others it learns which version holds, and asks them.
        """
        if uid not in self._held.members:
            return [], False
        theirs = {row.key: row.version for row in wanted.held}
        effects: list[Effect] = []
        is_behind = False
        for row in self.held:
            other = theirs.pop(row.key, None)
            if wanted.key not in ("", row.key) or row.key == uid:
                continue
            if other is None or is_later(row.version, other):
                if row.key == self._uid:
                    effects += self._pages(uid, now)
                elif (hint := self._held.hint(row.key)) is not None:
                    effects += self._send(uid, hint)
            is_behind |= other is not None and is_later(other, row.version)
        return effects, is_behind or any(key in self._held.members for key in theirs)

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Tell what has changed, or which version holds if somebody has not taken it."""
        effects = self._changed(now)
        if self._remind_at is not None and self._remind_at <= now:
            self._remind_at = None
            if self._is_waiting:
                effects += self._tell_all(self.profile.reminder(0), now)
                self._remind_at = now + REMIND_NS
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do, or None."""
        if not self.profile.has_changed:
            return self._remind_at
        due = self._pace.due()
        return due if self._remind_at is None else min(due, self._remind_at)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _changed(self, now: Nanos) -> list[Effect]:
        """Tell what has changed in the profile, if it is time to."""
        effects: list[Effect] = []
        if self.profile.has_changed and (not self._held.members or self._pace.due() <= now):
            deltas = self.profile.cut()
            self.activity.note_cut()
            for delta in deltas:
                self._index.change(self._uid, delta.added, delta.removed)
            if deltas and self._held.members:
                for delta in deltas:
                    effects += self._tell_all(delta, now)
                self._pace.spend(now)
                self._remind_at = self._remind_at or now + REMIND_NS
        self._advance()
        return effects

    @property
    def _is_waiting(self) -> bool:
        """Not all members have taken the profile."""
        count = self.profile.version.count
        return self._acks.floor(count) < count

    def _advance(self) -> None:
        if self._is_here:  # else nobody knows this broker, or it does not know who does
            active = self.activity.advance(self._acks.floor(self.profile.version.count))
            self._active += active
            if active:
                self._changes.mark(Change.ACTIVE)

    def _ask_if_behind(self, uid: str, now: Nanos) -> list[Effect]:
        """Ask a member for its profile, if what is held of it is out of date."""
        at = self._asked.get(uid)
        if not self._held.is_behind(uid) or (at is not None and now < at + ASK_NS):
            return []
        self._asked[uid] = now
        return self._send(uid, RowsWanted(Kind.PROFILES, (), key=uid))

    def _pages(self, uid: str, now: Nanos) -> list[Effect]:
        """Send a member all of this broker's profile."""
        last = self._answered.get(uid)
        if last is not None and now - last < ANSWER_NS:
            return []
        self._answered[uid] = now
        pages = self.profile.pages(self._acks.life_of(uid))
        return [effect for page in pages for effect in self._send(uid, page)]
