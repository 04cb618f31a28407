"""Byte streams of the simulator: order, ends, and what is lost."""

from __future__ import annotations

import pytest

from overlay.ids import nanos
from sims.world.cuts import Cut
from sims.world.network import DISTANCES, Latency
from sims.world.processes import SOCKET_BYTES, Network, Process, Socket
from sims.world.timeline import Timeline
from sims.world.world import CrashMode


class Pair:
    """Two processes with a stream between them, and what came over it to the second."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, Latency(DISTANCES["lan"], 1))
        self.here, self.there = Listener(self.network, "a"), Listener(self.network, "b")
        self.near: Socket | None = None
        self.refused = False
        self.connect()
        self.run()

    def connect(self, *, secure: bool = False) -> None:
        self.network.connect(
            self.here, "b", secure=secure, on_open=self._on_open, on_refused=self._on_refused
        )

    def run(self, seconds: float = 1.0) -> None:
        self.timeline.run(self.timeline.now + nanos(seconds))

    def write(self, data: bytes) -> None:
        assert self.near is not None
        self.near.write(data)

    def _on_open(self, socket: Socket) -> None:
        self.near = socket

    def _on_refused(self) -> None:
        self.refused = True


class Listener(Process):
    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, name, name)
        network.add(self)
        self.came = b""
        self.ends = 0

    def accept(self, socket: Socket) -> None:
        socket.on_bytes = self._on_bytes
        socket.on_closed = self._on_closed

    def _on_bytes(self, data: bytes) -> None:
        self.came += data

    def _on_closed(self) -> None:
        self.ends += 1


def test_bytes_come_in_order_and_the_end_behind_them() -> None:
    pair = Pair()
    for number in range(50):
        pair.write(b"%02d" % number)
    assert pair.near is not None
    pair.near.close()
    pair.write(b"too late")
    pair.run()
    assert pair.there.came == b"".join(b"%02d" % number for number in range(50))
    assert pair.there.ends == 1


@pytest.mark.parametrize(("mode", "ends"), [(CrashMode.KILL, 1), (CrashMode.POWER, 0)])
def test_what_the_kernel_has_comes_though_the_process_is_gone(mode: CrashMode, ends: int) -> None:
    pair = Pair()
    pair.write(b"last")
    pair.here.crash(mode)
    pair.run()
    assert (pair.there.came, pair.there.ends) == (b"last", ends)


@pytest.mark.parametrize(
    ("mode", "came", "ends"),
    [
        (Cut.SILENT, b"", 0),
        (Cut.BROKEN, b"", 1),
        (Cut.CLOSED, b"12", 1),
        (Cut.SHORT, b"123", 1),
        (Cut.LATE, b"12", 0),
    ],
)
def test_a_stream_that_is_harmed(mode: Cut, came: bytes, ends: int) -> None:
    pair = Pair()
    pair.write(b"12")
    pair.network.harm(pair.here, pair.there, mode)
    pair.write(b"34")
    pair.run()
    assert (pair.there.came, pair.there.ends) == (came, ends)
    pair.network.mend(pair.here, pair.there)
    pair.write(b"56")
    pair.run()
    assert pair.there.came == (b"123456" if mode is Cut.LATE else came)


def test_nobody_answers_who_is_cut_off_or_without_power_and_who_is_killed_refuses() -> None:
    pair = Pair()
    pair.near = None
    pair.network.cut(pair.here, pair.there, Cut.SILENT)
    pair.connect()
    pair.run()
    pair.network.mend(pair.here, pair.there)
    pair.there.crash(CrashMode.POWER)
    pair.connect()
    pair.run()
    assert (pair.near, pair.refused) == (None, False)
    again = Pair()
    again.near = None
    again.there.crash(CrashMode.KILL)
    again.connect()
    again.run()
    assert (again.near, again.refused) == (None, True)


def test_who_stands_still_reads_nothing_until_it_goes_on() -> None:
    pair = Pair()
    pair.there.pause()
    pair.write(bytes(SOCKET_BYTES))
    pair.run()
    assert pair.near is not None
    assert (pair.there.came, pair.near.room) == (b"", 0)
    pair.there.resume()
    assert (len(pair.there.came), pair.near.room) == (SOCKET_BYTES, SOCKET_BYTES)
