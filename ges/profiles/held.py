"""The profiles of the other members, as this broker holds them.

Each member tells its own profile, and nobody tells that of another. A member that is *behind*
counts as interested in everything: one that has told nothing yet, and one that has told of a later
version than the one that is held, or of one whose digest differs from what is held.

So does one that has not *greeted* this broker: sent it something that names its present life. A
broker that was taken for dead and is back hears what others tell all, but they may not know yet
that it is back. Until they do, they do not wait for it before a subscription is active.

For example, version 3 of a member's profile is held and the change from 4 to 5 comes. It is kept,
as the one from 3 to 4 may only be late, and the whole profile is asked for, as that one may be
lost. Whichever comes first makes version 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ges.matching.asks import add_marks, digest_of, mark_of
from ges.telling.shared import is_later
from ges.wire.asked import Ask
from ges.wire.profile_messages import ProfileDelta, ProfilePage
from ges.wire.telling_messages import HeldRow, RowVersion

MAX_HELD = 32_768  #: asks of one member; who tells of more counts as interested in everything
MAX_EARLY = 64  #: changes of one member that came before the one they build upon
NOTHING = RowVersion(0, 0)


class Listener(Protocol):
    """Who is told what is held; :class:`ges.profiles.index.ProfileIndex`."""

    def change(self, uid: str, added: Iterable[Ask], removed: Iterable[Ask]) -> None:
        """The profile held of a member has changed so."""

    def replace(self, uid: str, asks: Iterable[Ask]) -> None:
        """All that is held of a member is this."""

    def set_behind(self, uid: str, is_behind: bool) -> None:
        """A member is to be counted as interested in everything, or no longer."""


@dataclass(slots=True)
class _Held:
    """What is held of one member."""

    incarnation: int
    version: RowVersion | None = None  #: None: the member has told nothing yet
    digest: int = 0  #: of that version, as its member says
    asks: set[Ask] = field(default_factory=set)
    newest: RowVersion = NOTHING  #: that the member has told of
    is_greeted: bool = False  #: the member knows that this broker is there, in its present life
    is_doubtful: bool = False  #: what is held has another digest than it should
    early: dict[RowVersion, ProfileDelta] = field(default_factory=dict)  #: by version before
    pages: dict[int, ProfilePage] = field(default_factory=dict)  #: of one version, not all yet

    @property
    def is_behind(self) -> bool:
        version = self.version
        if version is None or self.is_doubtful or not self.is_greeted:
            return True
        return is_later(self.newest, version)


class MemberProfiles:
    """What this broker holds of all others."""

    def __init__(self, listener: Listener, life: int) -> None:
        self._listener = listener
        self._life = life  #: incarnation of this broker
        self._held: dict[str, _Held] = {}

    @property
    def members(self) -> Mapping[str, object]:
        """Those whose profiles are held, or to be."""
        return self._held

    def set_members(self, members: Mapping[str, int]) -> None:
        """These are the other members, each with its incarnation."""
        for uid in [*self._held]:
            if uid not in members or self._held[uid].incarnation != members[uid]:
                del self._held[uid]
                self._listener.replace(uid, ())
        for uid, incarnation in members.items():
            if uid not in self._held:
                self._held[uid] = _Held(incarnation)
                self._listener.set_behind(uid, True)

    def forget(self, life: int) -> None:
        """This broker was away, and others did not wait for it: nothing that it holds counts."""
        self._life = life
        for uid, held in self._held.items():
            self._held[uid] = _Held(held.incarnation)
            self._listener.replace(uid, ())
            self._listener.set_behind(uid, True)

    def version_of(self, uid: str) -> RowVersion | None:
        """Return which version of a member's profile is held; None: none that counts."""
        held = self._held.get(uid)
        return None if held is None or held.is_doubtful else held.version

    def is_behind(self, uid: str) -> bool:
        """Say whether a member counts as interested in everything."""
        held = self._held.get(uid)
        return held is not None and held.is_behind

    def asks_of(self, uid: str) -> frozenset[Ask]:
        """Return what is held of a member."""
        held = self._held.get(uid)
        return frozenset(held.asks) if held is not None else frozenset()

    def rows(self) -> list[HeldRow]:
        """Return which version of each profile is held of those that know of this broker."""
        return [
            HeldRow(uid, held.version)
            for uid, held in sorted(self._held.items())
            if held.version is not None and held.is_greeted and not held.is_doubtful
        ]

    def hint(self, uid: str) -> ProfileDelta | None:
        """Return which version of a member's profile is held, to be told to another member."""
        held, version = self._held.get(uid), self.version_of(uid)
        if held is None or version is None:
            return None
        return ProfileDelta(uid, version, version, (), (), held.digest)

    # ── what members tell ─────────────────────────────────────────────────────────────────────

    def take_delta(self, delta: ProfileDelta) -> bool:
        """Take a change; says whether its version, or a later one, is held then."""
        held = self._of(delta.origin, delta.after)
        if held is None:
            return False
        if is_later(delta.after, held.newest):
            held.newest = delta.after
        held.is_greeted |= delta.life == self._life
        is_made = self._apply(delta.origin, held, delta)
        if not is_made and delta.before != delta.after and is_later_than(delta.after, held):
            if len(held.early) >= MAX_EARLY:
                held.early.pop(next(iter(held.early)))
            held.early[delta.before] = delta
        self._go_on(delta.origin, held)
        return not held.is_doubtful and not is_later_than(delta.after, held)

    def take_page(self, page: ProfilePage) -> bool:
        """Take a part of a profile; says whether it was the last one that was missing."""
        uid = page.origin
        held = self._of(uid, page.version)
        if held is None or page.page >= page.pages:
            return False
        if is_later(page.version, held.newest):
            held.newest = page.version
        held.is_greeted |= page.life == self._life
        if not held.is_doubtful and not is_later_than(page.version, held):
            self._listener.set_behind(uid, held.is_behind)
            return False
        if any(
            (other.version, other.pages) != (page.version, page.pages)
            for other in held.pages.values()
        ):
            held.pages.clear()  # the member has begun anew, as its profile has changed
        held.pages[page.page] = page
        if len(held.pages) < page.pages:
            return False
        asks = {each for part in held.pages.values() for each in part.asks}
        held.pages.clear()
        if digest_of(asks) != page.digest or len(asks) > MAX_HELD:
            return False
        # What this broker has said that it holds stays the least that it is to hold.
        known = [held.version, *(delta.after for delta in held.early.values())]
        held.newest = page.version
        for version in known:
            if version is not None and is_later(version, held.newest):
                held.newest = version
        self._install(uid, held, page.version, page.digest, asks)
        self._go_on(uid, held)
        return True

    def _of(self, uid: str, version: RowVersion) -> _Held | None:
        """Return what is held of a member in the life that a version is of, or None."""
        held = self._held.get(uid)
        return held if held is not None and held.incarnation == version.epoch else None

    def _apply(self, uid: str, held: _Held, delta: ProfileDelta) -> bool:
        """Make the change, if it builds upon what is held and gives the digest that it should."""
        if not is_later_than(delta.after, held):
            if delta.after == held.version and delta.digest != held.digest:
                self._doubt(uid, held)
            return False
        if delta.before.count == 0:
            asks = set(delta.added)
            if digest_of(asks) != delta.digest:
                return False  # it is behind, as it has told of a later version
            self._install(uid, held, delta.after, delta.digest, asks)
            return True
        if held.is_doubtful or delta.before != held.version:
            return False
        digest = held.digest
        for ask in delta.added:
            digest = add_marks(digest, mark_of(ask))
        for ask in delta.removed:
            digest = add_marks(digest, -mark_of(ask))
        is_sound = digest == delta.digest and (
            held.asks.isdisjoint(delta.added)
            and held.asks.issuperset(delta.removed)
            and len(held.asks) + len(delta.added) <= MAX_HELD
        )
        if not is_sound:
            self._doubt(uid, held)
            return False
        held.asks.difference_update(delta.removed)
        held.asks.update(delta.added)
        held.version, held.digest = delta.after, digest
        self._listener.change(uid, delta.added, delta.removed)
        return True

    def _doubt(self, uid: str, held: _Held) -> None:
        """What is held of a member is wrong: it counts as interested in everything."""
        held.is_doubtful = True
        self._listener.set_behind(uid, True)

    def _install(
        self,
        uid: str,
        held: _Held,
        version: RowVersion,
        digest: int,
        asks: set[Ask],
    ) -> None:
        held.version, held.digest, held.asks = version, digest, asks
        held.is_doubtful = False
        self._listener.replace(uid, asks)

    def _go_on(self, uid: str, held: _Held) -> None:
        """Make the changes that came early, and say whether the member is behind then."""
        while held.version is not None and (delta := held.early.pop(held.version, None)):
            if not self._apply(uid, held, delta):
                break
        for before in [*held.early]:
            if not is_later_than(held.early[before].after, held):
                del held.early[before]
        if not held.is_doubtful:
            for page in [*held.pages.values()]:
                if not is_later_than(page.version, held):
                    held.pages.clear()
                    break
        self._listener.set_behind(uid, held.is_behind)


def is_later_than(version: RowVersion, held: _Held) -> bool:
    """Say whether a version is later than the one that is held."""
    return held.version is None or is_later(version, held.version)
