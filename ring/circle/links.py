"""The links of one broker: which exist, which are wanted and what for, and what waits for one.

The parts say what they want (:meth:`RingLinks.want`) and send (:meth:`RingLinks.tell`); links are
opened, tried again with back-off and closed here. A link is kept while either end has a purpose for
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer
from overlay.machine import Closed, LinkRefused, LinkUp, Message, Refused
from ring.circle.damping import Damper
from ring.core import Core, Timer
from ring.wire.messages import Failed, Intent, Member, Purpose, View

MAX_WAITING = 32  #: messages kept per broker until its link is up
MAX_OPENING = 256  #: attempts at once: others can make us try addresses of their choice


class RingLink:
    """One link that is up."""

    __slots__ = (
        "asked_at",
        "detoured",
        "heard_at",
        "introduced",
        "member",
        "peer",
        "purpose",
        "remote",
        "sent_version",
        "shown",
        "since",
        "view",
        "viewed",
    )

    def __init__(self, peer: Peer, now: Nanos, *, detoured: bool = False) -> None:
        self.peer = peer
        self.since = now
        self.detoured = detoured  #: what is sent on it goes through others
        self.purpose = Purpose.NONE  #: what we want it for
        self.remote = Purpose.NONE  #: what the other end wants it for
        self.heard_at = now
        self.asked_at: Nanos | None = None  #: for a sign of life, as events go over it
        self.member: Member | None = None  #: the other end's place, once it is on the ring
        self.view: View | None = None  #: its latest view
        self.viewed = False  #: the view came over this very link, not an earlier one
        self.shown: Member | None = None  #: its place, as another's view had it last
        self.sent_version = 0  #: of our view, as last sent
        self.introduced = False  #: the other end was told our place

    @property
    def on_ring(self) -> bool:
        """Either end holds the other for a ring neighbour."""
        return self.purpose is Purpose.RING or self.remote is Purpose.RING

    @property
    def is_used(self) -> bool:
        """Either end has a purpose for it: it is part of the ring or its chords."""
        return self.purpose is not Purpose.NONE or self.remote is not Purpose.NONE


@dataclass(slots=True)
class _Waiting:
    """What is to be sent to a broker once it is linked; lost if ``url`` cannot be reached."""

    url: str
    messages: list[tuple[Message, str | None]] = field(default_factory=list)


class RingLinks:
    """All links of one broker, by uid of the other end."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.up: dict[str, RingLink] = {}
        self.damper = Damper(core.config)
        #: Grow with every change, so that others may cache what they make of the links:
        self.generation = 0  #: which there are, and which of them are ring links
        self.members = 0  #: which members are linked, and where they stand
        self._opening: dict[str, str | None] = {}  #: URL -> uid expected there
        self._failures: dict[str, int] = {}  #: URL -> failed attempts in a row
        self._waiting: dict[str, _Waiting] = {}  #: by uid
        self._wanted: dict[str, tuple[Peer, Purpose]] = {}
        self._settled = False  #: the links were as wanted, and none has come or gone since

    # ── what the parts ask for ────────────────────────────────────────────────────────────────

    def tell(self, peer: Peer, message: Message, about: str | None = None) -> None:
        """Send ``message`` to ``peer``, over a new link if there is none; lost if none can be.

        A link to an earlier life of ``peer`` is none: nobody hears what goes over it.
        """
        link = self.up.get(peer.uid)
        if link is not None and link.peer.incarnation >= peer.incarnation:
            self._core.send(peer.uid, message, about)
            return
        self.open(peer.url, peer.uid, about, replace=link is not None)
        if peer.url not in self._opening:
            return
        waiting = self._waiting.setdefault(peer.uid, _Waiting(peer.url))
        waiting.url = peer.url
        if len(waiting.messages) < MAX_WAITING:
            waiting.messages.append((message, about))

    def open(
        self, url: str, uid: str | None, about: str | None = None, *, replace: bool = False
    ) -> None:
        """Try to make a link now, unless one is being tried; ``replace``: even if there is one."""
        if url == self._core.peer.url or url in self._opening:
            return
        if len(self._opening) < MAX_OPENING:
            self._opening[url] = uid
            self._core.disarm(Timer.RETRY, url)
            self._core.open(url, uid, about, replace=replace)

    def reopen(self, peer: Peer, about: str | None = None) -> None:
        """Try to make a lost link anew, but for one that flaps: that is tried again later."""
        core = self._core
        held = self.damper.held_ns(peer.uid, core.now)
        if not held:
            self.open(peer.url, peer.uid, about)
        elif (Timer.RETRY, peer.url) not in core.timers:
            core.arm(Timer.RETRY, peer.url, held)

    def hurry(self, peer: Peer) -> None:
        """The ring needs a link to ``peer``, and nothing leads round it: it is no time to wait."""
        if self.damper.held_ns(peer.uid, self._core.now):
            self.damper.release(peer.uid)
            self._core.disarm(Timer.RETRY, peer.url)

    def leads_to(self, member: Member) -> bool:
        """Say whether there is a link to that life of a broker, or to one that has kept its place.

        A link to another life is none: that may stand elsewhere, or nowhere yet.
        """
        link = self.up.get(member.uid)
        if link is None or link.peer.incarnation == member.incarnation:
            return link is not None
        return link.member is not None and link.member.ring_id == member.ring_id

    def is_over(self, member: Member) -> bool:
        """Say whether a later life of that broker is linked."""
        link = self.up.get(member.uid)
        return link is not None and link.peer.incarnation > member.incarnation

    def is_opening(self, url: str) -> bool:
        """Say whether an attempt at ``url`` is under way."""
        return url in self._opening

    def want(self, wanted: Mapping[str, tuple[Peer, Purpose]], about: str | None) -> None:
        """Make the links be as ``wanted``: uid -> (peer, purpose); others may go."""
        if self._settled and wanted == self._wanted:
            return
        self._wanted = dict(wanted)
        core = self._core
        for uid, (peer, purpose) in wanted.items():
            link = self.up.get(uid)
            if link is not None:
                self._set_purpose(uid, link, purpose, about)
            if (link is None or link.detoured) and (Timer.RETRY, peer.url) not in core.timers:
                self.reopen(peer, about)
        for uid, link in self.up.items():
            if uid not in wanted:
                self._set_purpose(uid, link, Purpose.NONE, about)
        self._settled = True

    def place(self, uid: str, member: Member) -> None:
        """Note where on the ring the other end of a link stands."""
        link = self.up[uid]
        if link.member != member:
            link.member = member
            self.generation += 1
            self.members += 1

    def close(self, uid: str, reason: Closed) -> None:
        """Close the link to ``uid``, if there is one."""
        link = self._remove(uid)
        if link is not None:
            if reason is Closed.LOST and not link.detoured:
                self.damper.on_lost(uid, link.since, self._core.now)
            self._core.close(uid, reason)
            self._forget(uid)

    def close_all(self, reason: Closed) -> None:
        """Close every link, and want none."""
        for uid in sorted(self.up, key=lambda uid: not self.up[uid].detoured):
            self.close(uid, reason)  # last those that others may be reached through
        self._waiting.clear()
        self._wanted.clear()

    # ── what happens to them ──────────────────────────────────────────────────────────────────

    def on_up(self, event: LinkUp) -> RingLink:
        """Take a new link into the book; pauses after failures start from the shortest again."""
        core = self._core
        uid = event.peer.uid
        for url in (event.url, event.peer.url):
            self._opening.pop(url, None)
            self._failures.pop(url, None)
            core.disarm(Timer.RETRY, url)
            self._drop_waiting(url, but=uid)  # another broker answers there
        return self._install(uid, RingLink(event.peer, core.now))

    def on_detour_up(self, peer: Peer, path: tuple[str, ...]) -> RingLink:
        """There is a way round the link to ``peer``, which has failed although it may look up."""
        core, uid = self._core, peer.uid
        old = self.up.get(uid)
        if old is not None and not old.detoured:
            self.damper.on_lost(uid, old.since, core.now)
            core.close(uid, Closed.LOST)
        core.detours[uid] = path
        return self._install(uid, RingLink(peer, core.now, detoured=True))

    def on_down(self, uid: str) -> RingLink | None:
        """Take a lost link out of the book and return it; None if it was not there."""
        self._forget(uid)
        return self._remove(uid)

    def on_refused(self, event: LinkRefused) -> None:
        """Try again after a pause that doubles with each failure, up to ``retry_max_ns``."""
        self._opening.pop(event.url, None)
        if event.reason is Refused.DUPLICATE:
            # The other end's attempt goes through; should it not, ours is due again later.
            self._core.arm(Timer.RETRY, event.url, self._core.config.retry_ns)
            return
        self._drop_waiting(event.url)
        failures = self._failures[event.url] = self._failures.get(event.url, 0) + 1
        config = self._core.config
        pause = min(config.retry_ns << min(failures - 1, 16), config.retry_max_ns)
        self._core.arm(Timer.RETRY, event.url, self._core.jitter(pause))

    def on_retry(self, url: str) -> None:
        """The pause after a failed attempt is over."""
        self._settled = False
        for uid, (peer, _) in self._wanted.items():
            if peer.url == url and (uid not in self.up or self.up[uid].detoured):
                self.reopen(peer)
                return
        self._failures.pop(url, None)

    def on_intent(self, uid: str, intent: Intent) -> None:
        """The other end says what it wants the link for."""
        link = self.up.get(uid)
        if link is not None:
            self._note(link.remote, intent.purpose)
            link.remote = intent.purpose
            self._linger(uid, link)

    def on_linger(self, uid: str) -> None:
        """Close a link that neither end has wanted for ``linger_ns``."""
        link = self.up.get(uid)
        if link is not None and not link.is_used:
            self.close(uid, Closed.UNWANTED)

    def normalise(self, version: int, lost: Iterable[Peer]) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states.

        ``version`` is that of our view now, ``lost`` are the brokers that we remember.
        """
        for link in self.up.values():
            link.sent_version = int(link.sent_version == version)
            if link.view is not None:
                link.view = link.view.ageless
        for peer in lost:
            if peer.uid not in self._wanted and peer.uid not in self.up:
                self._core.disarm(Timer.RETRY, peer.url)  # nobody tries to link it again

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _install(self, uid: str, link: RingLink) -> RingLink:
        """Put a new link in its place; it takes over what is known of that life of the broker."""
        old = self.up.get(uid)
        if old is not None and old.peer.incarnation == link.peer.incarnation:
            link.member, link.view, link.shown = old.member, old.view, old.shown
        self._remove(uid)
        self.up[uid] = link
        self.generation += 1
        self.members += link.member is not None
        self._settled = False
        self._core.disarm(Timer.SILENT, uid)
        waiting = self._waiting.pop(uid, None)
        for message, about in waiting.messages if waiting is not None else ():
            self._core.send(uid, message, about)
            if isinstance(message, Failed) and message.heir is not None:
                link.introduced |= message.heir.peer == self._core.peer
        if uid in self._wanted:
            self._set_purpose(uid, link, self._wanted[uid][1], None)
        self._linger(uid, link)
        return link

    def _remove(self, uid: str) -> RingLink | None:
        link = self.up.pop(uid, None)
        if link is not None:
            self.generation += 1
            self.members += link.member is not None
            self._settled = False
        return link

    def _note(self, *purposes: Purpose) -> None:
        """Count a change of purpose, if it is one from or to a ring link."""
        if Purpose.RING in purposes:
            self.generation += 1

    def _drop_waiting(self, url: str, but: str | None = None) -> None:
        """Nobody but ``but`` is to be reached at ``url``: what waits for others is lost."""
        for uid in [uid for uid, waiting in self._waiting.items() if waiting.url == url]:
            if uid != but:
                del self._waiting[uid]

    def _forget(self, uid: str) -> None:
        self._core.told.pop(uid, None)
        self._core.disarm(Timer.LINGER, uid)
        self._core.disarm(Timer.SILENT, uid)

    def _set_purpose(self, uid: str, link: RingLink, purpose: Purpose, about: str | None) -> None:
        if link.purpose is purpose:
            return
        self._note(link.purpose, purpose)
        link.purpose = purpose
        self._core.send(uid, Intent(purpose), about)
        self._linger(uid, link)

    def _linger(self, uid: str, link: RingLink) -> None:
        key = (Timer.LINGER, uid)
        if link.is_used:
            self._core.timers.cancel(key)
        elif key not in self._core.timers:
            self._core.arm(*key, self._core.config.linger_ns)
