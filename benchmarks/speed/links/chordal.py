"""The same over this project's links: a driver in each process, and links between them.

The relay's layer above the links does what the bare relay does: it looks the topic of each frame up
and passes runs of frames for one destination on as slices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

import trio

from benchmarks.speed.links.ends import Flow, Meter, Sink, say
from benchmarks.speed.links.pacing import paced
from benchmarks.speed.links.shape import STAMP_AT, TOPIC, make, topic_of
from benchmarks.speed.links.stamps import STAMP, now
from overlay.driver import Driver
from overlay.ids import LinkClass, Nanos, Peer
from overlay.links.link import Link
from overlay.machine import Command, Effect, Fact, Input, OpenLink, Refused
from overlay.net.transport import TcpTransport, Wire
from overlay.queues.resend import STREAM_MESSAGES, Item
from overlay.security.identity import Identity
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec, piece
from overlay.wire.greetings import Goodbye, Hello, Refusal

BURST = 256


@dataclass(frozen=True, slots=True)
class Call(Command):
    """Tell the machine to make a link."""

    url: str
    link_class: LinkClass


class Idle:
    """A machine that takes every link and wants none of its own."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def admit(self, peer: Peer) -> Refused | None:
        """Admit everybody."""
        return None

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Open the link that a :class:`Call` asks for; all other inputs lead to nothing."""
        if isinstance(event, Call):
            return [OpenLink(event.url, link_class=event.link_class)]
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Do nothing: there are no timers."""
        return []

    def next_deadline(self) -> Nanos | None:
        """Return None: there are no timers."""
        return None


class End:
    """One process's driver, and the layer above it."""

    def __init__(self, name: str, identity: Identity | None) -> None:
        self.link_class = LinkClass.SECURE if identity is not None else LinkClass.NORMAL
        self.linked = trio.Event()
        self._uid = identity.uid if identity is not None else name * 32
        self._identity = identity
        self.driver: Driver

    async def run(self, port: int | None = None) -> None:
        """Listen, or call the relay that listens at ``port``; serve until cancelled."""
        transport = TcpTransport(self._identity)
        own = await transport.listen("127.0.0.1", 0)
        peer = Peer(self._uid, 1, f"chordal://127.0.0.1:{own}", self._identity is not None)
        self.driver = Driver(Idle(peer), transport, MessageCodec(*STREAM_MESSAGES, Goodbye), self)
        async with trio.open_nursery() as nursery:
            await nursery.start(self.driver.run)
            if port is None:
                say(port=own)
            else:
                self.driver.give(Call(f"chordal://127.0.0.1:{port}", self.link_class))
                await self.linked.wait()
                await self.work()
            await trio.sleep_forever()

    @property
    def link(self) -> Link:
        """The only link of an end."""
        (link,) = self.driver.links.values()
        return link

    async def work(self) -> None:
        """What an end does once it is linked."""

    def on_fact(self, fact: Fact) -> None:
        """Take no notice: an idle machine states no facts."""

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        """Refuse: an end to which events are sent says itself what it does with them.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    async def on_batch(self, link: Link) -> None:
        """Let the driver read on at once."""

    def on_changes(self) -> None:
        """Let :meth:`run` go on to :meth:`work` once a link is up."""
        if self.driver.links:
            self.linked.set()

    def on_cut(self, link: Link) -> None:
        """Take no notice: a link that broke is not replaced here."""

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Drop the events: there is no other way to where they should go."""

    def judge_broker(self, wire: Wire) -> Refusal | None:
        """Let every broker in."""
        return None

    @property
    def needed(self) -> Collection[str]:
        """Return nobody."""
        return ()

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """Return at once: clients are not served here."""


class Relay(End):
    """Passes on to the first who linked itself, by topic."""

    def __init__(self, identity: Identity | None) -> None:
        super().__init__("c", identity)
        self._targets: dict[bytes, Link] = {}

    def on_changes(self) -> None:
        """Make the link that came up first, the subscriber's, the destination of the topic."""
        if self.driver.links and not self._targets:
            self._targets[TOPIC] = next(iter(self.driver.links.values()))

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        """Pass runs of frames for one destination on as slices; nothing is left for later."""
        data, bounds, targets = run.data, run.bounds, self._targets
        link.arrived(len(bounds) - 1)
        first = start = bounds[0]
        target: Link | None = None
        count = 0
        for start, _ in pairwise(bounds):
            to = targets.get(topic_of(data, start))
            if to is not target:
                if target is not None:
                    target.connection.send(piece(data, first, start), count)
                target, first, count = to, start, 0
            count += 1
        if target is not None:
            target.connection.send(piece(data, first, bounds[-1]), count)
        return ()

    async def on_batch(self, link: Link) -> None:
        """Wait while the destination is crowded; nothing more is read from ``link`` meanwhile."""
        for target in self._targets.values():
            if target.connection.crowded:
                await target.connection.room()


class Publisher(End):
    """Sends the events of a flow."""

    def __init__(self, flow: Flow, identity: Identity | None) -> None:
        super().__init__("a", identity)
        self._flow = flow

    async def work(self) -> None:
        """Send the events of the flow: paced, each by itself; else in bursts, as there is room.

        Stamps are nanoseconds if the flow is paced, else numbers.
        """
        flow, turn, connection = self._flow, self.driver.turn, self.link.connection
        payload = b"x" * flow.size
        meter = Meter(flow)
        if flow.rate:
            async for _ in paced(flow):
                with turn:
                    connection.send(make(payload, now()), 1)
            meter.stop()
            return
        for first in range(0, flow.events, BURST):
            burst = range(first, min(first + BURST, flow.events))
            frames = b"".join([make(payload, number) for number in burst])
            with turn:
                connection.send(frames, len(burst))
            await trio.lowlevel.checkpoint()
            await connection.room()
        meter.stop()


class Subscriber(End):
    """Takes the events of a flow."""

    def __init__(self, flow: Flow, identity: Identity | None) -> None:
        super().__init__("b", identity)
        self._sink = Sink(flow)

    async def work(self) -> None:
        """Say that it is linked, and so ready for events."""
        say(ready=True)

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        """Count the events, so that they are acknowledged; hand their stamps to the sink."""
        link.arrived(len(run.bounds) - 1)
        unpack, data = STAMP.unpack_from, run.data
        stamps: list[int] = []
        for bound in run.bounds[:-1]:
            stamps += unpack(data, bound + STAMP_AT)
        self._sink.take(stamps)
        return ()


async def relay(flow: Flow, identity: Identity | None) -> None:
    """Listen, say at which port, and relay until ended, to the one subscriber of ``flow``."""
    await Relay(identity).run()


async def publish(port: int, flow: Flow, identity: Identity | None) -> None:
    """Link to the relay at ``port``, send the events of ``flow``, and then wait to be ended."""
    await Publisher(flow, identity).run(port)


async def subscribe(port: int, flow: Flow, identity: Identity | None) -> None:
    """Link to the relay at ``port`` and take the events of ``flow``, until ended."""
    await Subscriber(flow, identity).run(port)
