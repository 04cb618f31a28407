"""What is acknowledged, over which connection, and to which life of the other end."""

from __future__ import annotations

from overlay.ids import LinkClass, Peer
from overlay.links.acknowledgements import Acknowledgements
from overlay.queues.resend import STREAM_MESSAGES, Ack, Resume
from overlay.queues.streams import Key, Streams
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.versions import OLDEST
from sims.world.connections import Connection
from sims.world.links import Link
from sims.world.network import DISTANCES, Latency
from sims.world.processes import Network, Process
from sims.world.timeline import Timeline

CODEC = MessageCodec(*STREAM_MESSAGES)
KEY: Key = ("c" * 32, LinkClass.NORMAL)


class Bench:
    """One end of links to a broker; the test plays the other end."""

    def __init__(self) -> None:
        self.network = Network(Timeline(), Latency(DISTANCES["lan"], 1))
        self.here, self.there = (Process(self.network, name, "") for name in ("b", "c"))
        self.up: dict[Key, Link] = {}
        self.streams = Streams()
        self.calls = 0
        self.acks = Acknowledgements(self.up, self.streams, CODEC, self._on_unsaid)

    def _on_unsaid(self) -> None:
        self.calls += 1

    def link(self, incarnation: int, resume: Resume) -> Link:
        """Let a link come up, to that life of the other end, that begins with ``resume``."""
        near, _ = self.network.pair(self.here, self.there, secure=False)
        connection = Connection(self.here, near, limit_bytes=10_000)
        peer = Peer(KEY[0], incarnation, "chordal://c.test:1")
        link = self.up[KEY] = Link(peer, KEY[1], connection, OLDEST, FrameReader())
        self.acks.hear(link, resume)
        return link


def said(link: Link) -> list[Ack]:
    """Return what is acknowledged over a link."""
    body = bytes(link.connection.outbox.ack)[6:]
    ack = CODEC.decode(body) if body else None
    return [ack] if isinstance(ack, Ack) else []


def test_what_has_come_is_acknowledged_before_long() -> None:
    bench = Bench()
    link = bench.link(1, Resume(1, 3, 0))
    link.arrived(5)
    bench.acks.note(link)
    bench.acks.note(link)
    assert (said(link), bench.calls) == ([], 1)
    bench.acks.say_all()
    assert said(link) == [Ack(3, 5)]


def test_it_is_said_over_the_connection_that_has_taken_the_place_of_the_first() -> None:
    bench = Bench()
    old = bench.link(1, Resume(1, 3, 0))
    old.arrived(5)
    bench.acks.note(old)
    new = bench.link(1, Resume(1, 3, 5))
    bench.acks.say_all()
    assert (said(old), said(new)) == ([], [Ack(3, 5)])


def test_a_later_life_is_not_told_what_came_from_an_earlier_one() -> None:
    """Each numbers its streams anew, and would take it for an acknowledgement of its own events."""
    bench = Bench()
    old = bench.link(1, Resume(1, 3, 0))
    old.arrived(5)
    bench.acks.note(old)
    new = bench.link(2, Resume(2, 3, 0))
    bench.acks.say_all()
    assert (said(old), said(new)) == ([], [])
