"""Links that events go over must be heard, too.

Ring links have heartbeats; chords have none, for there are many of them and a chord that is lost
costs nothing while nobody uses it. But where events go over a chord through which nothing comes any
more, with its sockets open, they would wait as long as the network is out, and nobody would know.
So a chord that carries events and is silent is sent a ping; if that is not answered either, the
link is closed as lost. Events then take other ways, and :mod:`ring.links` tries to make the link
anew. Nobody is suspected: a chord's other end is watched by its ring neighbours (paper 004, section
3.4.2 tells a failed chord from a failed broker; how the failure is noticed, it does not say).

Costs nothing where no events go, and where the other end is heard anyway.
"""

from __future__ import annotations

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.core import Core, Timer
from ring.links import Link, Links
from ring.messages import Ping


class Carriers:
    """Watches the links that the layer above says it uses."""

    def __init__(self, core: Core, links: Links) -> None:
        self._core = core
        self._links = links
        self._asked: dict[str, Nanos] = {}  #: when a ping was sent that nothing has come after yet

    def told(self, uid: str, now: Nanos) -> None:
        """Something was sent to ``uid`` that does not come by an effect, such as events."""
        link, timers = self._links.up.get(uid), self._core.timers
        if link is None or not _is_carrier(link) or (Timer.CARRIER, uid) in timers:
            return
        timers.set((Timer.CARRIER, uid), max(now, link.heard_at + self._core.config.silence_ns))

    def on_due(self, uid: str) -> None:
        """It has been silent for long, or has not answered; unless it was heard meanwhile."""
        core, link = self._core, self._links.up.get(uid)
        asked = self._asked.pop(uid, None)
        if link is None or not _is_carrier(link):
            return
        if asked is not None and link.heard_at < asked:
            self._links.close(uid, Closed.LOST)
        elif link.heard_at + core.config.silence_ns <= core.now:
            self._asked[uid] = core.now
            core.send(uid, Ping(0))
            core.arm(Timer.CARRIER, uid, 2 * core.config.test_ns)

    def clear(self) -> None:
        """Ask nobody any more: this broker is off the ring."""
        self._asked.clear()


def _is_carrier(link: Link) -> bool:
    """Say whether nobody else watches the link: no detector, and no way round a failed one."""
    return not link.on_ring and not link.detoured
