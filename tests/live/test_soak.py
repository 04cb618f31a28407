"""The soak with real brokers, short; and the tools that it measures with."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from benchmarks.campaigns.live.evidence import Times
from benchmarks.campaigns.live.figures import Bar, bar, distance
from benchmarks.campaigns.live.observing import Watch
from benchmarks.campaigns.live.processes import Board, Fleet, free_ports, switchboard
from benchmarks.campaigns.live.rounds import Fault, Round
from benchmarks.campaigns.live.soak import Outcome, Plan, judge, soak
from benchmarks.campaigns.live.traffic import Pair
from overlay.ids import LinkClass, Peer, nanos
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello
from ring.invariants import Snapshot
from ring.wire.messages import Member
from tests.helpers.bench import member

pytestmark = pytest.mark.live


@pytest.mark.soak
async def test_a_ring_of_eight_heals_from_every_fault(tmp_path: Path) -> None:
    plan = Plan(folder=tmp_path, brokers=8, seed=5, rounds=10, minutes=5)
    outcome = await soak(plan)
    assert outcome.failure == ""
    assert {round_.fault for round_ in outcome.rounds} == set(Fault)
    assert outcome.looks > 0
    assert outcome.published > 100
    assert [str(line) for line in judge(outcome) if not line.is_met] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--faults kill,tea", "'tea' is not a valid Fault"),
        ("--faults cut,dark --no-proxies", "without proxies there is no cut, dark, isolate"),
        ("--brokers 5", "fewer than six"),
    ],
)
def test_options_that_make_no_sense_are_named(options: str, words: str) -> None:
    command = [sys.executable, "-m", "benchmarks.campaigns.live", *options.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_who_goes_on_pointing_at_a_killed_broker_is_found(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    watch = Watch(Fleet(tmp_path, 1, (), random.Random(1), None), found_out_ns=nanos(2))
    killed, beside = member(30), Snapshot(member(20), (), (member(30), member(40)))
    watch.killed(killed)
    for seconds, ghosts in ((0, 0), (2, 0), (1, 1)):
        await trio.sleep(seconds)
        watch.take(beside, nanos(trio.current_time()))
        assert len(watch.ghosts) == ghosts
    back = Member(replace(killed.peer, incarnation=killed.peer.incarnation + 1), 30)
    watch.take(Snapshot(member(20), (), (back, member(40))), nanos(trio.current_time()))
    watch.take(Snapshot(member(20), (), (member(40),)), nanos(trio.current_time()))
    assert (watch.looks, len(watch.ghosts), watch.findings) == (5, 1, [])


def test_events_lost_between_survivors_miss_the_bar() -> None:
    found = Round(Fault.CUT, ("a" * 32, "b" * 32), 0, pauses_s=[0.1], lost=1)
    traced: dict[Fault, list[Times]] = {Fault.KILL: [], Fault.STOP: []}
    missed = [line.name for line in judge(Outcome([found], traced)) if not line.is_met]
    assert missed == ["events between survivors lost, in all rounds"]


# ── figures ───────────────────────────────────────────────────────────────────────────────────


def test_a_pause_reaches_from_one_arrival_to_the_next() -> None:
    pair = Pair(0, 0, times=[1.0, 1.1, 3.0, 3.1], numbers=[0, 1, 5, 6])
    assert pair.pause(2.0, 2.5) == pytest.approx(1.9)
    assert pair.pause(1.05, 3.05) == pytest.approx(1.9)
    assert pair.pause(0.9, 1.05) == pytest.approx(0.1)
    assert pair.pause(3.05, 5.1) == pytest.approx(2.0), "nothing has come since"
    assert Pair(0, 0).pause(1.0, 4.0) == pytest.approx(3.0), "nothing has ever come"
    assert (pair.lost(1.0, 3.1), pair.lost(3.0, 3.1), pair.lost(9, 10)) == (3, 0, 0)


def test_a_bar_without_a_measurement_is_not_met() -> None:
    assert not bar("x", [], 0.99, 1.0).is_met
    assert bar("x", [], 0.99, None).is_met
    assert bar("x", [0.5, 1.0], 0.99, 1.0).is_met
    assert not bar("x", [0.5, 1.1], 0.99, 1.0).is_met
    assert not Bar("x", 1, 0).is_met
    assert "NOT MET" in str(Bar("x", 1, 0))


def test_distributions_are_told_apart() -> None:
    assert distance([1, 2, 3], [1, 2, 3]) == 0
    assert distance([1, 2], [3, 4]) == 1
    assert distance([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5


# ── the switchboard ───────────────────────────────────────────────────────────────────────────


class End:
    """A socket of the test, with a time limit."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(10)
        self.sock = sock

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (data := self.sock.recv(size - len(found))):
            found += data
        return found

    def hears(self) -> bool:
        """Say whether anything comes within a moment, an end included."""
        self.sock.settimeout(0.3)
        try:
            self.sock.recv(1)
        except TimeoutError:
            return False
        finally:
            self.sock.settimeout(10)
        return True


class Station:
    """A listener in the place of a broker, behind a proxy."""

    def __init__(self, board: Board, stack: ExitStack) -> None:
        self._stack = stack
        self._server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._server.settimeout(10)
        self.proxy = board.ask("proxy", self._server.getsockname()[1])

    def call(self, other: Station) -> tuple[End, bytes]:
        """Call another through its proxy, with a greeting; returns it too."""
        sock = socket.create_connection(("127.0.0.1", other.proxy))
        end = End(self._stack.enter_context(sock))
        peer = Peer("a" * 32, 1, f"chordal://127.0.0.1:{self.proxy}")
        hello = Hello("test", PROTOCOL_VERSION, peer.uid, 1, peer, LinkClass.NORMAL, None, 1)
        greeting = GREETINGS.encode(hello)
        end.sock.sendall(greeting)
        return end, greeting

    def answer(self) -> End:
        sock, _ = self._server.accept()
        return End(self._stack.enter_context(sock))


class Stations:
    """A switchboard with stations behind it."""

    def __init__(self, board: Board, stack: ExitStack) -> None:
        self.board = board
        self._stack = stack

    def make(self) -> Station:
        return Station(self.board, self._stack)


@pytest.fixture
def stations() -> Iterator[Stations]:
    with switchboard() as board, ExitStack() as stack:
        yield Stations(board, stack)


def test_bytes_pass_both_ways_and_so_does_the_end(stations: Stations) -> None:
    a, b = stations.make(), stations.make()
    caller, greeting = a.call(b)
    called = b.answer()
    assert called.read(len(greeting)) == greeting
    block = random.Random(1).randbytes(3_000_000)
    called.sock.sendall(b"welcome")
    assert caller.read(7) == b"welcome"
    caller.sock.sendall(block[:100_000])
    assert called.read(100_000) == block[:100_000]
    caller.sock.close()
    assert called.read(1) == b""


def test_a_link_cut_breaks_and_is_not_made_anew_before_it_is_mended(stations: Stations) -> None:
    a, b, c = stations.make(), stations.make(), stations.make()
    caller, greeting = a.call(b)
    called = b.answer()
    assert called.read(len(greeting)) == greeting
    assert stations.board.ask("cut", b.proxy, a.proxy, "closed") == 1
    assert caller.read(1) == b""
    assert called.read(1) == b""
    again, _ = b.call(a)  # the other way round
    assert again.read(1) == b""
    other, greeting = c.call(b)
    assert b.answer().read(len(greeting)) == greeting, "other links are left alone"
    other.sock.close()
    stations.board.ask("mend", a.proxy, b.proxy)
    _, greeting = a.call(b)
    assert b.answer().read(len(greeting)) == greeting


def test_in_the_dark_nothing_comes_through_until_it_is_over(stations: Stations) -> None:
    a, b = stations.make(), stations.make()
    caller, greeting = a.call(b)
    called = b.answer()
    assert called.read(len(greeting)) == greeting
    assert stations.board.ask("cut", a.proxy, b.proxy, "dark") == 1
    caller.sock.sendall(b"lost?")
    assert not called.hears()
    late, _ = a.call(b)
    assert not late.hears()
    assert stations.board.ask("mend", a.proxy, b.proxy) == 2
    assert called.read(5) == b"lost?"
    assert late.read(1) == b"", "a call in the dark never came through"
    called.sock.sendall(b"no")
    assert caller.read(2) == b"no"


def test_where_a_broker_is_gone_calls_are_refused(stations: Stations) -> None:
    a, b = stations.make(), stations.make()
    caller, greeting = a.call(b)
    called = b.answer()
    assert called.read(len(greeting)) == greeting
    stations.board.ask("deaf", b.proxy)
    with pytest.raises(ConnectionRefusedError):
        a.call(b)
    called.sock.sendall(b"still here")
    assert caller.read(10) == b"still here"
    stations.board.ask("heed", b.proxy)
    _, greeting = a.call(b)
    assert b.answer().read(len(greeting)) == greeting


def test_ports_for_brokers_are_not_those_of_callers() -> None:
    ports = free_ports(8, random.Random(3))
    assert len(set(ports)) == 8
    with socket.create_server(("127.0.0.1", ports[0])):
        assert ports[0] not in free_ports(8, random.Random(3))
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < low
