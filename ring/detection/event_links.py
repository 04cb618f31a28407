"""Links that events go over must be heard, too.

A broker hears the heartbeats of one ring neighbour, or of some (:mod:`ring.detection.detector`); on
other links there are none, for there are many of them and one that is lost costs nothing while
nobody uses it. But where events go over a link through which nothing comes any more, with its
sockets open, they would wait as long as the network is out, and nobody would know. So a link that
carries events and is silent is asked.

A ring neighbour is probed as if its heartbeats had failed, and suspected if it does not answer. A
chord is sent a ping; if that is not answered in the time a test takes, the link is closed as lost.
Events then take other ways, and :mod:`ring.circle.links` tries to make the link anew. Nobody is
suspected: a chord's other end is watched by its ring neighbours (paper 004, section 3.4.2 tells a
failed chord from a failed broker; how the failure is noticed, it does not say).

Costs nothing where no events go, and where the other end is heard anyway.
"""

from __future__ import annotations

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.circle.links import RingLink, RingLinks
from ring.core import Core, Timer
from ring.detection.detector import Detector
from ring.detection.local_health import LocalHealth
from ring.wire.messages import Ping


class EventLinks:
    """Watches the links that the layer above says it uses."""

    def __init__(
        self, core: Core, links: RingLinks, detector: Detector, health: LocalHealth
    ) -> None:
        self._core = core
        self._links = links
        self._detector = detector
        self._health = health

    def told(self, uid: str, now: Nanos) -> None:
        """Something was sent to ``uid`` that does not come by an effect, such as events."""
        key, timers = (Timer.CARRIER, uid), self._core.timers
        if key in timers:
            return
        link = self._links.up.get(uid)
        if link is not None and self._is_carrier(uid, link):
            since = max(link.heard_at, link.asked_at or 0)
            timers.set(key, max(now, since + self._core.config.silence_ns))

    def on_due(self, uid: str) -> None:
        """It has been silent for long, or has not answered; unless it was heard meanwhile."""
        core, link = self._core, self._links.up.get(uid)
        if link is None or not self._is_carrier(uid, link):
            return
        asked, link.asked_at = link.asked_at, None
        is_heard = asked is not None and link.heard_at >= asked
        if is_heard or link.heard_at + core.config.silence_ns > core.now:
            return
        is_watched = self._detector.watches(uid)
        if asked is not None and not is_watched:
            self._links.close(uid, Closed.LOST)
            return
        link.asked_at = core.now
        if is_watched:
            self._detector.hasten(uid, None)
        else:
            core.send(uid, Ping(0))
            core.arm(Timer.CARRIER, uid, self._health.stretch(core.config.test_ns))

    def _is_carrier(self, uid: str, link: RingLink) -> bool:
        """Say whether nothing else shows that the link is lost: no heartbeats, no way round it."""
        return not link.detoured and not self._detector.expects_heartbeats(uid)
