"""False brokers: they are linked to members of a ring, stand nowhere on it, and tell lies.

One needs no more than the port of a broker of a plain ring. It greets as a broker does, with a uid
that it has made up, and may say that it stands wherever it likes.
"""

from __future__ import annotations

from enum import Enum, auto

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Message, OpenLink, Send
from overlay.rng import rng_for
from ring.geometry import RING_SIZE
from ring.wire.messages import Failed, HeldDead, Intent, Member, Place, Purpose, View
from sims.experiments.service import Service
from sims.world.brokers import WholeBroker
from sims.world.world import CrashMode

AGAIN_NS = nanos(0.7)  #: between two notices of one forger


class Claim(Enum):
    """Where a false broker says that it stands."""

    NOWHERE = auto()
    BESIDE = auto()  #: beside the one that it tells lies of, in a place and in a view
    UPON = auto()  #: at that very place, with a uid that wins it


class Forger:
    """A false broker that tells ``target``, again and again, that ``victim`` is dead."""

    def __init__(
        self,
        service: Service,
        number: int,
        target: str,
        victim: str,
        claim: Claim,
    ) -> None:
        rng = rng_for(service.timeline.now, "forger", number)
        uid = f"{number if claim is Claim.UPON else rng.getrandbits(128):032x}"
        peer = Peer(uid, 1, f"chordal://{uid[:12]}.{number}.test:9470")
        self.broker = WholeBroker(service.network, service.config, peer, rng)
        service.network.add(self.broker)
        self.told = 0  #: notices sent
        self.holds_dead = True  #: it tells the victim itself that it is held for dead
        self._service = service
        self._target, self._victim = target, victim
        self._number, self._claim = number, claim
        self._until: Nanos = 0

    def go_on(self, seconds: float) -> None:
        """Begin now, for so many seconds; then it is gone."""
        self._until = self._service.timeline.now + nanos(seconds)
        self._again()

    def _again(self) -> None:
        timeline, brokers = self._service.timeline, self._service.brokers
        if timeline.now >= self._until:
            self.broker.crash(CrashMode.KILL)
            return
        node, target = self.broker.node.ring, brokers[self._target]
        if self._target not in node.parts.links.up:
            self.broker.perform([OpenLink(target.url, self._target)])
        elif (member := brokers[self._victim].node.ring.member) is not None:
            witnesses = (self.broker.node.peer.uid, self._target)
            notice = Failed(member, witnesses, None)
            said: list[Message] = [Intent(Purpose.CHORD), *self._placed(member), notice]
            if self._target == self._victim and self.holds_dead:
                said.append(HeldDead(member.incarnation, witnessed=True))
            self.broker.perform([Send(self._target, each) for each in said])
            self.told += 1
        timeline.at(timeline.now + AGAIN_NS, self._again)

    def _placed(self, victim: Member) -> list[Place | View]:
        """Return where it says that it stands: left or right of the victim, and who is around."""
        if self._claim is Claim.NOWHERE:
            return []
        steps = self._number // 2 + 1
        if self._claim is Claim.UPON:
            steps = 0
        elif self._number % 2:
            steps = -steps
        me = Member(self.broker.node.peer, (victim.ring_id + steps) % RING_SIZE)
        other = self._service.brokers[self._target].node.ring.member
        around = (victim,) if other is None or other == victim else (victim, other)
        return [Place(me), View(self.told + 1, me, around, around[::-1])]
