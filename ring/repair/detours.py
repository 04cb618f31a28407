"""Ways round links that have failed (paper 004, section 3.4.2).

Where a witness reaches the broker B that A cannot reach, A asks B *through* another broker to talk
along that path, and B agrees. From then on each end holds a link to the other that is marked
``detoured``: whatever any part sends on it travels as a :class:`~ring.wire.messages.Relay`, and
what arrives is handed on as if it had come directly. So B keeps its place in A's pointers, its
heartbeats are watched as before, and its death is noticed as before. Both ends have concluded that
the link failed, not the broker; the witness is the last broker on the path before the other end.
The link itself is tried again all the while, and takes the detour's place when it is back.

The path goes through a broker that shows both ends among its neighbours: for a ring link that is
the neighbour's neighbour, as published, or the neighbour on the other side if that one fails too.
Where both fail, any other that is linked here may be linked to the other end as well.

Departs from the paper in that both ends agree on the way round, and in those further choices: else
one end could hold the other for dead, or have no way although there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer
from overlay.machine import Closed, Message, Refused
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.facts import LinkFailed
from ring.wire.messages import (
    DetourBroken,
    DetourClosed,
    DetourOpen,
    DetourOpened,
    Member,
    Ping,
    Relay,
)
from ring.wire.relay import is_sound, onward, unwrap, wrap

MAX_DETOURS = 64  #: in use or tried, each
MAX_WAYS = 4  #: tried one after the other for one broker

Path = tuple[str, ...]


@dataclass(slots=True)
class _Attempt:
    """A way round that is looked for."""

    subject: Member
    down_ns: Nanos
    ways: list[Path] = field(default_factory=list)  #: the one tried now is the first


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is done about detours: :class:`~ring.coordination.link_events.LinkEvents` does it."""

    admit: Callable[[Peer], Refused | None]
    on_up: Callable[[Peer, Member | None, Path], None]
    on_down: Callable[[str, Closed], None]
    on_no_way: Callable[[Member], None]
    patience_ns: Callable[[str], Nanos]  #: how long a linked one may take to answer


class Detours:
    """The detours of one broker, and its part in those of others."""

    handlers: Handlers  #: given by those who act on detours, and so are built upon them

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._attempts: dict[str, _Attempt] = {}
        #: Those said to have lost their link to us, who were asked over it; what to agree to.
        self._asked: dict[str, tuple[Peer, DetourOpen, Path]] = {}

    # ── looking for a way ─────────────────────────────────────────────────────────────────────

    def begin(self, subject: Member, witness: str | None = None) -> None:
        """Look for a way to ``subject`` through those around it, a witness that reaches it first.

        Does nothing while there is a link or detour to it, or one is looked for.
        """
        here = self._core.peer.uid
        self.begin_along(
            subject, [(here, via, subject.uid) for via in self._vias(subject, witness)]
        )

    def begin_along(self, subject: Member, ways: Iterable[Path]) -> None:
        """Look for a way to ``subject`` along these paths, one after the other."""
        uid = subject.uid
        if uid in self._attempts or uid in self._links.up or uid == self._core.peer.uid:
            return
        if max(len(self._attempts), len(self._core.detours)) >= MAX_DETOURS:
            return
        down_ns = self._links.damper.down_ns(uid, self._core.now)
        self._attempts[uid] = _Attempt(subject, down_ns, list(ways)[:MAX_WAYS])
        self._try(uid)

    def on_late(self, uid: str) -> None:
        """The way tried last has led to no answer, or the link to ``uid`` itself has."""
        self.on_link_gone(uid)
        attempt = self._attempts.get(uid)
        if attempt is not None:
            del attempt.ways[:1]
            self._try(uid)

    def forget(self, uid: str) -> None:
        """No way to ``uid`` is needed: it is linked again, or judged."""
        self._attempts.pop(uid, None)
        self._asked.pop(uid, None)
        self._core.disarm(Timer.DETOUR, uid)

    def clear(self) -> None:
        """End all attempts to go round a link: this broker is off the ring."""
        for uid in (*self._attempts, *self._asked):
            self.forget(uid)

    # ── one that has lost its link to us, as it is said ───────────────────────────────────────

    def on_pong(self, uid: str) -> None:
        """``uid`` answers over the link that it is said to have lost: no way round is needed."""
        if self._asked.pop(uid, None) is not None:
            self._core.disarm(Timer.DETOUR, uid)

    def on_link_gone(self, uid: str) -> None:
        """Agree to the way round that ``uid`` asked for.

        It has not answered in time over the link that it is said to have lost, or that is lost here
        too.
        """
        asked = self._asked.pop(uid, None)
        if asked is not None:
            self._agree(*asked)

    # ── the ways in use ───────────────────────────────────────────────────────────────────────

    def broken(self) -> list[str]:
        """Return those whose detour begins with a link that is gone."""
        up = self._links.up
        return [
            uid
            for uid, path in self._core.detours.items()
            if path[1] not in up or up[path[1]].detoured
        ]

    def first_hops(self) -> dict[str, Peer]:
        """Peers to keep links to, as detours go through them."""
        up = self._links.up
        hops = dict.fromkeys(path[1] for path in self._core.detours.values())
        return {uid: up[uid].peer for uid in hops if uid in up and not up[uid].detoured}

    def conclude(self, subject: Member, path: Path) -> None:
        """The link failed, not the broker; the last one on the path to it is witness."""
        if not self._core.verdicts.is_down(subject.uid, subject.incarnation):
            self._core.notify(LinkFailed(subject, path[-2]))

    def on_relay(self, came_from: str, relay: Relay) -> tuple[str, Message] | None:
        """Pass a relay on; or return what has arrived here over a detour, and from whom."""
        here = self._core.peer.uid
        if not is_sound(relay, here, came_from):
            return None
        if relay.at + 1 < len(relay.path):
            self._pass_on(relay)
            return None
        body = unwrap(relay)
        sender, back = relay.sender, relay.path[::-1]
        uid = sender.uid
        link = self._links.up.get(uid)
        if isinstance(body, DetourOpen):
            self._on_open(sender, body, back)
        elif isinstance(body, DetourOpened):
            self._on_opened(sender, body, back)
        elif isinstance(body, DetourClosed):
            self._on_closed(uid, body.reason)
        elif isinstance(body, DetourBroken):
            self._on_broken(uid, body.uid)
        elif link is None and uid in self._attempts:
            return None  # older than our request: a refusal would end what that is to begin
        elif body is None or link is None or link.peer.incarnation < sender.incarnation:
            self._send_along(back, DetourClosed(Closed.LOST))
        elif link.detoured and link.peer.incarnation == sender.incarnation:
            return uid, body
        return None  # else it has crossed with the link's return, or is of an older life

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _vias(self, subject: Member, witness: str | None) -> list[str]:
        """Those linked to us that show the subject among their neighbours; the witness anyway.

        First our own ring neighbours, as links to others may go again. They may have no link to the
        subject either, but a way round: so some others that we are linked to come last, drawn anew
        each time.
        """
        suspects = self._neighbourhood.suspects
        found = []
        for uid, link in self._links.up.items():
            view = link.view
            if uid == subject.uid or link.detoured or uid in suspects or view is None:
                continue
            if any(member.uid == subject.uid for member in (*view.left, *view.right)):
                found.append(uid)
        if witness is not None and witness not in found and self._is_open(witness):
            found.append(witness)
        up = self._links.up
        found.sort(key=lambda uid: (not up[uid].on_ring, uid != witness))
        known = {subject.uid, *suspects, *found}
        others = [uid for uid in up if uid not in known and self._is_open(uid)]
        spare = max(0, MAX_WAYS - len(found))
        return [*found, *self._core.rng.sample(others, min(spare, len(others)))]

    def _try(self, uid: str) -> None:
        core, attempt = self._core, self._attempts[uid]
        ways = attempt.ways
        while ways and not self._is_open(ways[0][1]):
            del ways[0]
        if not ways:
            self.forget(uid)
            self._links.damper.release(uid)
            self.handlers.on_no_way(attempt.subject)
            return
        core.arm(Timer.DETOUR, uid, 2 * core.config.test_ns)
        self._send_along(
            ways[0], DetourOpen(core.ring_id if core.joined else None, attempt.down_ns)
        )

    def _is_open(self, uid: str) -> bool:
        link = self._links.up.get(uid)
        return link is not None and not link.detoured

    def _send_along(self, path: Path, message: Message) -> None:
        """Send along a path that need be no detour of ours."""
        relay = wrap(self._core.peer, path, message)
        if relay is not None:
            self._core.send(path[1], relay)

    def _pass_on(self, relay: Relay) -> None:
        uid, copy = onward(relay)
        if self._is_open(uid):
            self._core.send(uid, copy)
        else:
            back = relay.path[relay.at :: -1]
            self._send_along(back, DetourBroken(relay.path[-1]))

    def _on_open(self, sender: Peer, request: DetourOpen, back: Path) -> None:
        core, uid = self._core, sender.uid
        refused = self.handlers.admit(sender)
        if refused is not None:
            is_dead = refused is Refused.DECLARED_DEAD
            self._send_along(
                back, DetourClosed(Closed.DECLARED_DEAD if is_dead else Closed.UNWANTED)
            )
            return
        link = self._links.up.get(uid)
        if link is None or not link.detoured:
            if len(core.detours) + len(self._asked) >= MAX_DETOURS:
                self._send_along(back, DetourClosed(Closed.UNWANTED))
                return
            if link is not None and core.now - link.since < request.down_ns + core.config.test_ns:
                return  # our link is younger than the loss it speaks of: it has it again
            if link is not None:  # who speaks for it may lie: ask over the link itself
                if uid not in self._asked:
                    self._asked[uid] = (sender, request, back)
                    core.send(uid, Ping(0))
                    core.arm(Timer.DETOUR, uid, self.handlers.patience_ns(uid))
                return
        self._agree(sender, request, back)

    def _agree(self, sender: Peer, request: DetourOpen, back: Path) -> None:
        core = self._core
        self._send_along(back, DetourOpened(core.ring_id if core.joined else None))
        self._up(sender, request.ring_id, back)  # what is sent now must come after the answer

    def _on_opened(self, sender: Peer, answer: DetourOpened, path: Path) -> None:
        uid = sender.uid
        if uid in self._links.up:
            return  # it has crossed with the link's return, or with the other end's request
        if uid in self._attempts and self.handlers.admit(sender) is None:
            self._up(sender, answer.ring_id, path)
        else:
            self._send_along(path, DetourClosed(Closed.LOST))

    def _up(self, peer: Peer, ring_id: int | None, path: Path) -> None:
        self.forget(peer.uid)
        member = Member(peer, ring_id) if ring_id is not None else None
        self.handlers.on_up(peer, member, path)

    def _on_closed(self, uid: str, reason: Closed) -> None:
        was_tried = uid in self._attempts
        if uid in self._core.detours or (was_tried and reason is Closed.DECLARED_DEAD):
            self.forget(uid)
            self.handlers.on_down(uid, reason)
        elif was_tried:
            self.on_late(uid)

    def _on_broken(self, teller: str, uid: str) -> None:
        """A broker on the way says that it cannot pass anything on."""
        attempt = self._attempts.get(uid)
        if attempt is not None and attempt.ways and teller in attempt.ways[0]:
            self.on_late(uid)
        elif teller in self._core.detours.get(uid, ()):
            self.handlers.on_down(uid, Closed.LOST)
