"""False brokers and clients that throw odd frames at a broker, one after the other.

One needs no more than the port of a broker of a plain ring, as a forger does
(:mod:`sims.experiments.forgers`). Whenever its link is cut it makes another one.
"""

from __future__ import annotations

from ges.wire.delivered import Event
from overlay.ids import LinkClass, Nanos, Peer, nanos, short
from overlay.machine import Closed, OpenLink
from overlay.rng import rng_for
from overlay.wire.frames import EVENT, frame
from sims.experiments.service import Service
from sims.workloads.odd_frames import OddFrames
from sims.world.brokers import WholeBroker

AGAIN_NS = nanos(0.01)  #: between two frames of one of them
PAUSE_S = 0.5  #: for the last ones to come


class Quiet:
    """What is told of a client of which nobody wants to know."""

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """Events are taken."""

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""


class Thrower:
    """One who throws frames at ``target``, as a false broker, and as another one after each cut."""

    def __init__(
        self, service: Service, number: int, target: str, kind: type[OddFrames] = OddFrames
    ) -> None:
        self.uids: list[str] = []  #: that it has used
        self.thrown = 0  #: frames
        self._brokers: list[WholeBroker] = []
        self._rng = rng_for(service.timeline.now, "thrower", number)
        self._frames = kind(self._rng, self._rng.randbytes(16))
        self._service = service
        self._target = target
        self._until: Nanos = 0
        self._broker = self._new_broker()

    def go_on(self, seconds: float) -> None:
        """Begin now, for so many seconds."""
        self._until = self._service.timeline.now + nanos(seconds)
        self._again()

    def unread(self) -> list[str]:
        """Return what is wrong with the frames that honest brokers have sent here.

        It reads all that comes as any broker does.
        """
        return [error for broker in self._brokers for error in broker.links.protocol_errors]

    def _again(self) -> None:
        timeline = self._service.timeline
        if timeline.now >= self._until:
            return
        link = self._broker.links.up.get((self._target, LinkClass.NORMAL))
        if link is not None:
            link.connection.socket.write(self._frames.frame())
            if (stream := link.connection.outbox.stream) is not None:
                stream.next += 1  # it has gone past the queue, and may be acknowledged
            self._has_thrown = True
            self.thrown += 1
        elif self._has_thrown:  # what one uid has sent before it need not send again
            self._broker = self._new_broker()
        timeline.at(timeline.now + AGAIN_NS, self._again)

    def _new_broker(self) -> WholeBroker:
        service, uid = self._service, f"{self._rng.getrandbits(128):032x}"
        peer = Peer(uid, 1, f"chordal://{uid[:12]}.test:9470")
        broker = WholeBroker(service.network, service.config, peer, self._rng)
        service.network.add(broker)
        broker.perform([OpenLink(service.brokers[self._target].url, self._target)])
        self._has_thrown = False
        self.uids.append(uid)
        self._brokers.append(broker)
        return broker


class ThrowingClient:
    """A client that throws events at ``target``."""

    def __init__(
        self, service: Service, number: int, target: str, kind: type[OddFrames] = OddFrames
    ) -> None:
        self._service = service
        self._client = service.attach(target, f"thrower {number}", Quiet())
        self._until: Nanos = 0
        rng = rng_for(service.timeline.now, "throwing client", number)
        self.uids = [self._client.uid]
        self._frames = kind(rng, bytes.fromhex(self._client.uid))
        self.thrown = 0  #: frames

    def go_on(self, seconds: float) -> None:
        """Begin now, for so many seconds."""
        self._until = self._service.timeline.now + nanos(seconds)
        self._again()

    def unread(self) -> list[str]:
        """Return what is wrong with the frames that its broker has sent here."""
        return list(self._client.protocol_errors)

    def _again(self) -> None:
        timeline = self._service.timeline
        if timeline.now >= self._until:
            return
        if (connection := self._client.connection) is not None:
            connection.send(frame(EVENT, self._frames.event()))
            self.thrown += 1
        timeline.at(timeline.now + AGAIN_NS, self._again)


def throw(
    service: Service, seconds: float, throwers: int = 2, kind: type[OddFrames] = OddFrames
) -> list[str]:
    """Let false brokers and clients throw frames for a while; returns who else had to pay.

    Whatever honest brokers send can be read, by false brokers too. The link alone pays that has
    brought a frame. All other links stay up, but for those that their brokers have no more use for
    and give up in peace.
    """
    links = {
        (uid, key): link
        for uid in service.alive
        for key, link in service.brokers[uid].links.up.items()
    }
    uids = service.alive
    false: list[Thrower | ThrowingClient] = []
    for number in range(throwers):
        target = uids[number % len(uids)]
        false += [each(service, number, target, kind) for each in (Thrower, ThrowingClient)]
    for each in false:
        each.go_on(seconds)
    service.run(seconds + PAUSE_S)
    liars = tuple(short(uid) for each in false for uid in each.uids)
    findings = [
        f"{uid[:8]}: an honest link paid: {error}"
        for uid in uids
        for error in (
            *service.brokers[uid].links.protocol_errors,
            *service.brokers[uid].sessions.protocol_errors,
        )
        if not error.startswith(liars)
    ]
    findings += [
        f"{uid[:8]}: its link to {key[0][:8]} was cut"
        for (uid, key), link in links.items()
        if service.brokers[uid].links.up.get(key) is not link and link.reason is not Closed.UNWANTED
    ]
    findings += [f"nobody can read it: {error}" for each in false for error in each.unread()]
    if not all(each.thrown for each in false):
        findings.append("nothing was thrown")
    for uid in uids:  # they are judged here
        service.brokers[uid].links.protocol_errors.clear()
        service.brokers[uid].sessions.protocol_errors.clear()
    return findings
