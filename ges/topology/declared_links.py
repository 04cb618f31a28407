"""Which links events may take: all, or those alone that an operator has named.

For example, broker A is told that events take the links that are named, and that its link to B is
one of them. Then A opens a link to B and keeps it open. Its links to its ring neighbours are there
as well, for control messages, and no event takes them.

**The rule.** A link carries events if one of its ends names it, or if neither end is *declared*
(told that events take named links alone). So one end is enough to name a link, and a link between a
declared broker and another one carries events only if one of the two names it. A broker says in its
greeting whether it is declared (:attr:`overlay.ids.Peer.declared`), so no event goes over a link
before that is known. Who names a link says so over it (:class:`LinkDeclared`).

Links are named by URL. The broker at its other end may start late, restart, or be another one by
then: the link is tried again, after pauses that double up to 10 s.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Set
from typing import Protocol

from ges.telling.changes import Change, Changes
from ges.telling.part import MessageHandler, Part
from ges.wire.broker_messages import LinkDeclared
from overlay.address import parse_urls
from overlay.errors import ConfigError
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    CloseLink,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    OpenLink,
    Refused,
    Send,
    TimerTable,
)
from overlay.multigraph.weights import LinkKey
from ring.facts import KeepLinks
from ring.wire.messages import Member

RETRY_NS = nanos(0.3)  #: after the first failure; doubled with each ...
RETRY_MAX_NS = nanos(10.0)  #: ... up to this
NOT_TRIED = "not tried yet"
OTHER_NAME = "that broker is linked by another URL; name the one that 'chordal ring' shows"

MAX_LINKS = 256  #: that one broker may name

NORMAL = LinkClass.NORMAL


def parse_links(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the URLs of brokers, links to which are named; commas may stand in between.

    Raises:
        ConfigError: one is no plain URL of a broker, or there are too many.
    """
    found = parse_urls([*texts])
    for address in found:
        if address.tls:
            raise ConfigError(
                f"{address.url} names a link; write it as chordal://, as brokers call each other: "
                "identities make it secure"
            )
    if len(found) > MAX_LINKS:
        raise ConfigError(f"{len(found)} links are named; {MAX_LINKS} are the most")
    return tuple(address.url for address in found)


class KeepingRing(Protocol):
    """What is seen of the ring node here."""

    @property
    def peer(self) -> Peer:
        """This broker."""

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""

    @property
    def detours(self) -> Mapping[str, tuple[str, ...]]:
        """Ways round failed links, by where they lead to; they begin with this broker."""

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take a command."""


class DeclaredLinks(Part):
    """The links of one broker that are named, and which links carry events."""

    def __init__(
        self,
        ring: KeepingRing,
        normal: Mapping[str, Peer],
        rng: random.Random,
        changes: Changes,
        urls: tuple[str, ...] = (),
    ) -> None:
        """Name links by the URLs of the brokers at their other ends.

        ``normal``: who is at the other end of each normal link, by uid.
        """
        self._changes = changes
        self.is_declared = ring.peer.declared
        self._ring = ring
        self._normal = normal
        self._rng = rng
        self._urls = urls
        self._ours: dict[str, Peer] = {}  #: by uid, at the other end of those that are named here
        self._theirs: dict[str, int] = {}  #: uids of those that name the link: their incarnation
        self._calling: set[str] = set()
        self._retries: TimerTable[str] = TimerTable()
        self._failures: dict[str, int] = {}
        self._problems: dict[str, str] = dict.fromkeys(urls, NOT_TRIED)
        self._up_by_url: dict[str, str] = {}  #: the uid at the other end, by the URL named

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def named(self) -> Set[str]:
        """Uids at the other end of links that are up and that an end has named."""
        return self._ours.keys() | self._theirs.keys()

    def is_named(self, uid: str) -> bool:
        """Say whether the link to a broker is up and named by an end."""
        return uid in self._ours or uid in self._theirs

    def carries(self, peer: Peer) -> bool:
        """Say whether events may take the link to a broker; not one that has failed."""
        if self.is_named(peer.uid):
            return True
        return not (self.is_declared or peer.declared) and peer.uid not in self._ring.detours

    def carries_to(self, uid: str) -> bool:
        """Say the same of a broker by its uid; True if it is not linked."""
        peer = self._normal.get(uid)
        return peer is None or self.carries(peer)

    def has_failed(self, peer: Peer) -> bool:
        """Say whether the ring goes round the link to a broker, and events take other links.

        Events wait for a link that has to be named.
        """
        return peer.uid in self._ring.detours and not (self.is_declared or peer.declared)

    @property
    def links(self) -> tuple[tuple[str, str | None, str], ...]:
        """The links named here: URL, the uid at the other end if it is up, and why it is not."""
        return tuple(
            (url, uid := self._up_by_url.get(url), "" if uid else self._problems[url])
            for url in self._urls
        )

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """The word of an other end that it names the link."""
        return {LinkDeclared: self._on_declared}

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Say that a link is named that has come up; try those again that are not."""
        if not event.link_class.is_base:
            return []
        if isinstance(event, LinkUp):
            return self._on_up(event, now)
        if isinstance(event, LinkDown):
            return self._drop(event.uid, now)
        if event.uid is None and event.url in self._calling:
            self._calling.discard(event.url)
            if event.url not in self._up_by_url:
                is_known = event.reason is Refused.DUPLICATE
                self._retry(event.url, OTHER_NAME if is_known else _in_words(event), now)
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """The ring closes a link."""
        return self._drop(close.uid, now) if close.link_class.is_base else []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Try again what is due."""
        effects: list[Effect] = []
        while (url := self._retries.pop_expired(now)) is not None:
            effects += self._call(url)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when the first link is to be tried again, or None."""
        return self._retries.next_deadline()

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Call those that are not linked, once this broker is on the ring."""
        if len(self._up_by_url) == len(self._urls) or self._ring.member is None:
            return []
        effects: list[Effect] = []
        for url in self._urls:
            if url not in self._retries:
                effects += self._call(url)
        return effects

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_up(self, event: LinkUp, now: Nanos) -> list[Effect]:
        peer, uid = event.peer, event.peer.uid
        if self._theirs.get(uid, peer.incarnation) != peer.incarnation:
            del self._theirs[uid]  # another life of it, which has named nothing yet
            self._changes.mark(Change.CARRIERS)
        urls = [url for url in self._urls if url in (event.url, peer.url)]
        if not urls:
            return []
        self._changes.mark(Change.CARRIERS)
        for url in urls:
            self._up_by_url[url] = uid
            self._calling.discard(url)
            self._failures.pop(url, None)
            self._retries.cancel(url)
        self._ours[uid] = peer
        return [Send(uid, LinkDeclared()), *self._keep(now)]

    def _drop(self, uid: str, now: Nanos) -> list[Effect]:
        """A link is gone."""
        is_theirs = self._theirs.pop(uid, None) is not None
        is_ours = self._ours.pop(uid, None) is not None
        if is_ours or is_theirs:
            self._changes.mark(Change.CARRIERS)
        if not is_ours:
            return []
        for url in [url for url, other in self._up_by_url.items() if other == uid]:
            del self._up_by_url[url]
            self._retry(url, "the link was lost", now)
        return self._keep(now)

    def _keep(self, now: Nanos) -> list[Effect]:
        """Have the ring keep the links that are named here, whether it needs them or not."""
        return self._ring.handle(KeepLinks(tuple(self._ours.values())), now)

    def _call(self, url: str) -> list[Effect]:
        if url in self._up_by_url or url in self._calling or self._ring.member is None:
            return []
        self._calling.add(url)
        return [OpenLink(url)]

    def _retry(self, url: str, problem: str, now: Nanos) -> None:
        self._problems[url] = problem
        failures = self._failures[url] = self._failures.get(url, 0) + 1
        pause = min(RETRY_NS << min(failures - 1, 16), RETRY_MAX_NS)
        self._retries.set(url, now + pause // 2 + self._rng.randrange(pause))

    def _on_declared(self, key: LinkKey, message: LinkDeclared, now: Nanos) -> list[Effect]:
        uid, link_class = key
        peer = self._normal.get(uid)
        if link_class.is_base and peer is not None and uid not in self._theirs:
            self._theirs[uid] = peer.incarnation
            self._changes.mark(Change.CARRIERS)
        return []


def _in_words(event: LinkRefused) -> str:
    return f"{event.reason.value}: {event.detail}" if event.detail else event.reason.value
