"""Brokers reduced to a driver: a machine that does what the test says, on a network in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import trio

from benchmarks.stage.memory_streams import MemoryNetwork
from overlay.driver import Driver
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.limits import LIMITS, Limits
from overlay.links.first_message import read_greeting
from overlay.links.link import Link
from overlay.machine import (
    Command,
    Effect,
    Fact,
    Input,
    LinkMessage,
    Message,
    OpenLink,
    Refused,
)
from overlay.net.transport import Transport, Wire
from overlay.queues.resend import STREAM_MESSAGES, Item
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import Goodbye, Hello, Refusal
from overlay.wire.versions import DIALECT, Dialect

In = TypeVar("In")

LATENCY = nanos(0.001)
NORMAL = LinkClass.NORMAL


class Beat(Message, frozen=True):
    number: int


class Knock(LinkMessage, frozen=True):
    number: int


CODEC = MessageCodec(*STREAM_MESSAGES, Beat, Knock, Goodbye)


@dataclass(frozen=True, slots=True)
class Do(Command):
    """Tell the machine to ask for these effects."""

    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Said(Fact):
    words: str


class Puppet:
    """A machine that notes its inputs, and does what it is told."""

    def __init__(self, name: str) -> None:
        self.peer = Peer(name * 32, 1, f"chordal://{name}.test:9470")
        self.refuses: dict[str, Refused] = {self.peer.uid: Refused.SELF}
        self.inputs: list[Input] = []
        self.deadline: Nanos | None = None
        self.woken: list[Nanos] = []

    def admit(self, peer: Peer) -> Refused | None:
        return self.refuses.get(peer.uid)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        if isinstance(event, Do):
            return list(event.effects)
        self.inputs.append(event)
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        self.woken.append(now)
        self.deadline = None
        return []

    def next_deadline(self) -> Nanos | None:
        return self.deadline


class Station:
    """A puppet with its driver; and the layer above it, which notes what it is given."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        overlay: str = "chordal",
        *,
        codec: MessageCodec | None = None,
        dialect: Dialect = DIALECT,
        limits: Limits = LIMITS,
    ) -> None:
        self.machine = Puppet(name)
        self.peer = self.machine.peer
        self.driver = Driver(
            self.machine,
            transport,
            codec or CODEC,
            self,
            overlay=overlay,
            dialect=dialect,
            limits=limits,
        )
        self.facts: list[Fact] = []
        self.frames: list[tuple[int, bytes]] = []
        self.cut: list[str] = []
        self.orphans: list[Item] = []
        self.batches: list[int] = []  #: how many frames had come when a batch was over
        self.clients: list[Hello] = []
        self.needed: Collection[str] = ()
        self.busy = trio.Event()
        self.busy.set()
        self.pause = 0.0  #: seconds behind each batch
        self.fault: Exception | None = None

    def do(self, *effects: Effect) -> None:
        self.driver.give(Do(effects))

    @property
    def linked(self) -> list[str]:
        return sorted(uid[0] for uid, _ in self.driver.links)

    def took(self, kind: type[In]) -> list[In]:
        return [event for event in self.machine.inputs if isinstance(event, kind)]

    def on_fact(self, fact: Fact) -> None:
        self.facts.append(fact)

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        if self.fault is not None:
            raise self.fault
        skip = link.arrived(len(run.bounds) - 1)
        self.frames += [(run.kind, body) for body in run.bodies()][skip:]
        return ()

    async def on_batch(self, link: Link) -> None:
        self.batches.append(len(self.frames))
        await self.busy.wait()
        if self.pause:
            await trio.sleep(self.pause)

    def on_changes(self) -> None:
        pass

    def on_cut(self, link: Link) -> None:
        self.cut.append(link.peer.uid[0])

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        self.orphans += items

    def judge_broker(self, wire: Wire) -> Refusal | None:
        return None

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        self.clients.append(hello)


class Overlay:
    """Stations on one network."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.latency: Callable[[], Nanos] = lambda: LATENCY  #: of whatever is sent next
        self.rate = math.inf  #: bytes a second, of whatever is sent next
        self.network = MemoryNetwork(lambda a, b: self.latency(), lambda a, b: self.rate)
        self._nursery = nursery

    def transport(self, name: str) -> Transport:
        return self.network.transport(Puppet(name).peer.url)

    async def station(
        self,
        name: str,
        overlay: str = "chordal",
        *,
        codec: MessageCodec | None = None,
        dialect: Dialect = DIALECT,
        limits: Limits = LIMITS,
    ) -> Station:
        made = Station(
            name, self.transport(name), overlay, codec=codec, dialect=dialect, limits=limits
        )
        await self._nursery.start(made.driver.run)
        return made

    async def linked(self) -> tuple[Station, Station]:
        a, b = await self.station("a"), await self.station("b")
        a.do(OpenLink(b.peer.url, b.peer.uid))
        await trio.sleep(0.1)
        assert (a.linked, b.linked) == (["b"], ["a"])
        return a, b

    async def dial(self, to: Station) -> trio.abc.Stream:
        return await self.network.connect("chordal://stranger.test:1", to.peer.url)


def hello(sender: Puppet | None = None, **changes: object) -> Hello:
    peer = (sender or Puppet("c")).peer
    greeting = Hello("chordal", PROTOCOL_VERSION, peer.uid, peer.incarnation, peer, NORMAL, None, 1)
    return msgspec.structs.replace(greeting, **changes)


async def answer(stream: trio.abc.Stream) -> object:
    return await read_greeting(stream, FrameReader())
