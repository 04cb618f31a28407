"""False brokers: they are linked to members of a ring, stand nowhere on it, and tell lies.

One needs no more than the port of a broker of a plain ring. It greets as a broker does, with a uid
that it has made up.
"""

from __future__ import annotations

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import OpenLink, Send
from overlay.rng import rng_for
from ring.wire.messages import Failed, Intent, Purpose
from sims.experiments.service import Service
from sims.world.brokers import WholeBroker

AGAIN_NS = nanos(0.7)  #: between two notices of one forger


class Forger:
    """A false broker that tells ``target``, again and again, that ``victim`` is dead."""

    def __init__(self, service: Service, number: int, target: str, victim: str) -> None:
        rng = rng_for(service.timeline.now, "forger", number)
        uid = f"{rng.getrandbits(128):032x}"
        peer = Peer(uid, 1, f"chordal://{uid[:12]}.test:9470")
        self.broker = WholeBroker(service.network, service.config, peer, rng)
        service.network.add(self.broker)
        self.told = 0  #: notices sent
        self._service = service
        self._target, self._victim = target, victim
        self._until: Nanos = 0

    def go_on(self, seconds: float) -> None:
        """Begin now, for so many seconds."""
        self._until = self._service.timeline.now + nanos(seconds)
        self._again()

    def _again(self) -> None:
        timeline, brokers = self._service.timeline, self._service.brokers
        if timeline.now >= self._until:
            return
        node, target = self.broker.node.ring, brokers[self._target]
        if self._target not in node.parts.links.up:
            self.broker.perform([OpenLink(target.url, self._target)])
        elif (member := brokers[self._victim].node.ring.member) is not None:
            notice = Failed(member, (self.broker.node.peer.uid, self._target), None)
            intent = Intent(Purpose.CHORD)
            self.broker.perform([Send(self._target, intent), Send(self._target, notice)])
            self.told += 1
        timeline.at(timeline.now + AGAIN_NS, self._again)
