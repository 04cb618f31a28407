"""Broken rules of links: which are kept, which may be made, and ways round failed ones."""

from __future__ import annotations

from typing import Any

from overlay.ids import Nanos, Peer
from overlay.machine import Message, Refused
from ring.circle.damping import Damper
from ring.circle.links import RingLinks
from ring.coordination.link_events import LinkEvents
from ring.detection.suspicions import Suspicions
from ring.node import RingNode
from ring.repair.chord_queries import ChordQueries
from ring.repair.detours import Detours
from ring.wire.messages import Tested
from tests.mutants.mutant import Chapter, Method, around, nothing

LINKS = Chapter(first="links")

LINKS.add("links-never-closed", "links that nobody wants stay", (RingLinks, "on_linger", nothing))
LINKS.add(
    "links-not-retried", "a link that failed is not tried again", (RingLinks, "on_retry", nothing)
)
LINKS.add(
    "admits-anybody",
    "a link is made with an older life, or another broker of the same uid",
    (RingNode, "admit", nothing),
)


def _whatever_life(original: Method) -> Method:
    def tell(self: RingLinks, peer: Peer, message: Message, about: str | None = None) -> None:
        if peer.uid in self.up:
            self._core.send(peer.uid, message, about)
        else:
            original(self, peer, message, about)

    return tell


LINKS.add(
    "tells-the-old-life",
    "what is said to a broker that came back goes over the link to its old life",
    around(RingLinks, "tell", _whatever_life),
)


def _any_life(self: LinkEvents, peer: Peer) -> Refused | None:
    return self._admit_life(peer)


LINKS.add(
    "detours-for-the-dead",
    "one declared dead is talked to through others, as if it lived",
    (LinkEvents, "_admit_detour", _any_life),
)
LINKS.add(
    "no-detours",
    "no way is looked for round a link that failed",
    (Detours, "begin_along", nothing),
)
LINKS.add(
    "detours-not-agreed",
    "who is asked to talk round a failed link does not answer",
    (Detours, "_on_open", nothing),
)
LINKS.add(
    "relays-not-passed-on",
    "what goes through a broker to another one is lost",
    (Detours, "_pass_on", nothing),
)
LINKS.add(
    "broken-detours-kept",
    "a way round stands although its first link is gone",
    (Detours, "broken", lambda self: []),
    (Detours, "_on_broken", nothing),
)
LINKS.add(
    "no-chord-queries",
    "a chord that cannot be linked is given up without a query",
    (ChordQueries, "begin", lambda self, member, at_once=False: self.given_up.append(member.uid)),
)


def _seen_dead(original: Method) -> Method:
    def on_tested(self: Suspicions, witness: str, answer: Tested) -> Any:  # noqa: ANN401
        return original(self, witness, Tested(answer.subject, alive=False))

    return on_tested


LINKS.add(
    "link-or-broker",
    "a witness that reaches the subject is taken to confirm the death",
    around(Suspicions, "on_tested", _seen_dead),
)


def _never_held(self: Damper, uid: str, now: Nanos) -> Nanos:
    return 0


LINKS.add(
    "flaps-not-damped",
    "a link that breaks again and again is used at once each time",
    (Damper, "held_ns", _never_held),
)


def _never_steady(original: Method) -> Method:
    def on_lost(self: Damper, uid: str, since: Nanos, now: Nanos) -> None:
        original(self, uid, now, now)

    return on_lost


LINKS.add(
    "flaps-never-forgiven",
    "a link that has held for long is held for one that flaps",
    around(Damper, "on_lost", _never_steady),
)
