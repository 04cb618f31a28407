"""Links of one class beside the normal ones: express or secure (paper 004, section 3.3).

Both sets are subsets of the normal links: a parallel link is made only where a normal link is, by
the end with the smaller uid, and goes with it. A secure one is made where both ends hold an
identity, an express one where the normal link is inside the express range.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ges.telling.changes import Change
from ges.telling.part import CommandHandler, Part
from ges.topology.survey import Survey
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Command,
    Effect,
    LinkDown,
    LinkRefused,
    LinkUp,
    OpenLink,
    TimerTable,
)

RETRY_NS = nanos(0.5)
RETRY_MAX_NS = nanos(30.0)


@dataclass(frozen=True, slots=True)
class RenewLinks(Command):
    """Make the secure links to these anew, as a certificate has changed; the old ones serve on."""

    uids: tuple[str, ...]


class ParallelLinks(Part):
    """The links of one class that are up, and those that are tried."""

    def __init__(
        self, link_class: LinkClass, rng: random.Random, wanted: Callable[[str], Peer | None]
    ) -> None:
        """``wanted`` returns the peer to which this end is to make a link, or None."""
        self.up: set[str] = set()  #: uids at the other end
        self._lives: dict[str, int] = {}  #: of those that are up: incarnation at the other end
        self._class = link_class
        self._rng = rng
        self._wanted = wanted
        self._calling: set[str] = set()
        self._retries: TimerTable[str] = TimerTable()
        self._failures: dict[str, int] = {}

    def seek(self, uid: str) -> list[Effect]:
        """Ask for a link to ``uid`` if it is wanted and there is none, nor a try under way."""
        if uid in self.up or uid in self._calling or uid in self._retries:
            return []
        return self._call(uid)

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Take note of a link of this class, and go where the normal link has gone."""
        if event.link_class is self._class:
            self._on_own_link(event, now)
        elif event.link_class.is_base and isinstance(event, LinkDown):
            # What a link that broke has not brought over waits for the next one, and so does what
            # is under way on those beside it: they break with it.
            is_given_up = event.reason is Closed.UNWANTED
            return self._drop(event.uid, Closed.UNWANTED if is_given_up else Closed.LOST)
        elif event.link_class.is_base and isinstance(event, LinkUp):
            peer = event.peer
            if peer.incarnation > self._lives.get(peer.uid, peer.incarnation):
                # Nobody is at the other end of the one beside it, should it look up yet: a machine
                # that lost power has not said a word.
                return self._drop(peer.uid, Closed.LOST)
            if peer.uid in self.up and peer.uid not in self._calling:
                # The normal link was replaced, perhaps as the other end had lost it, and with it
                # the one beside it: of which the news is lost as well where the network was cut.
                return self._call(peer.uid, replace=True)
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Close the link beside the normal one."""
        return self._drop(close.uid, close.reason)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Try again what is due."""
        effects: list[Effect] = []
        while (uid := self._retries.pop_expired(now)) is not None:
            effects += self._call(uid)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when the first link is to be tried again, or None."""
        return self._retries.next_deadline()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_own_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> None:
        if isinstance(event, LinkUp):
            uid = event.peer.uid
            self.up.add(uid)
            self._lives[uid] = event.peer.incarnation
            self._calling.discard(uid)
            self._failures.pop(uid, None)
            self._retries.cancel(uid)
        elif isinstance(event, LinkDown):
            self._forget(event.uid)
            self._retry(event.uid, now)
        elif event.uid is not None:
            self._calling.discard(event.uid)
            self._retry(event.uid, now)

    def _drop(self, uid: str, reason: Closed) -> list[Effect]:
        """The normal link to ``uid`` is gone: so goes the one beside it."""
        self._failures.pop(uid, None)
        self._calling.discard(uid)
        self._retries.cancel(uid)
        if uid not in self.up:
            return []
        self._forget(uid)
        return [CloseLink(uid, reason, self._class)]

    def _forget(self, uid: str) -> None:
        self.up.discard(uid)
        self._lives.pop(uid, None)

    def _call(self, uid: str, *, replace: bool = False) -> list[Effect]:
        peer = self._wanted(uid)
        if peer is None:
            return []
        self._calling.add(uid)
        return [OpenLink(peer.url, uid, link_class=self._class, replace=replace)]

    def _retry(self, uid: str, now: Nanos) -> None:
        if self._wanted(uid) is not None and uid not in self.up:
            failures = self._failures[uid] = self._failures.get(uid, 0) + 1
            pause = min(RETRY_NS << min(failures, 16), RETRY_MAX_NS)
            self._retries.set(uid, now + pause // 2 + self._rng.randrange(pause))


class SecureLinks(ParallelLinks):
    """Secure links: made where both ends hold an identity that counts."""

    def __init__(
        self,
        own: Peer,
        rng: random.Random,
        normal: Mapping[str, Peer],
        is_revoked: Callable[[str], bool],
    ) -> None:
        """``normal``: who is at the other end of each normal link, by uid."""
        super().__init__(LinkClass.SECURE, rng, self._may_link)
        self._own = own
        self._normal = normal
        self._is_revoked = is_revoked

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """Links are renewed on command."""
        return {RenewLinks: self._on_renew}

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Ask for a link beside a normal one that has come up as well."""
        if isinstance(event, LinkUp) and event.link_class.is_base:
            return [*super().on_link(event, now), *self.seek(event.peer.uid)]
        return super().on_link(event, now)

    def _may_link(self, uid: str) -> Peer | None:
        """Both hold an identity that counts, and it is on us to make the link."""
        peer = self._normal.get(uid)
        is_ours = peer is not None and peer.secure and self._own.secure and self._own.uid < uid
        return peer if is_ours and not self._is_revoked(uid) else None

    def _on_renew(self, command: RenewLinks, now: Nanos) -> list[Effect]:
        return [
            OpenLink(self._normal[uid].url, uid, link_class=LinkClass.SECURE, replace=True)
            for uid in command.uids
            if uid in self.up and uid in self._normal
        ]


class ExpressLinks(ParallelLinks):
    """Express links: made where the normal link was measured to be fast enough."""

    def __init__(
        self, own: Peer, rng: random.Random, normal: Mapping[str, Peer], survey: Survey
    ) -> None:
        """``normal``: who is at the other end of each normal link, by uid."""
        super().__init__(LinkClass.EXPRESS, rng, self._may_link)
        self._own = own
        self._normal = normal
        self._survey = survey

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Ask for links where normal ones have turned out to be fast enough."""
        return [effect for uid in self._survey.take_near() for effect in self.seek(uid)]

    def _may_link(self, uid: str) -> Peer | None:
        """The normal link is fast enough, and it is on us to make the link."""
        return self._normal.get(uid) if self._own.uid < uid and self._survey.is_near(uid) else None
