"""The walk round a live ring."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
import trio
from click.testing import CliRunner, Result
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, hang
from ges.cli.main import cli
from ges.client import Client, keepalive
from ges.errors import ConnectionLost
from ges.operations.walk import IN_VAIN_S, LATER_PATIENCE_S, PATIENCE_S, Walk, walk_ring
from ges.wire.status import Status
from overlay.ids import Peer
from ring.invariants import ideal_pointers
from ring.wire.messages import Member
from tests.ges.operations.test_backup_check import whole_ring


async def walk(url: str) -> Walk:
    return await walk_ring(url, identity=None, overlay="chordal", timeout_s=1)


@pytest.mark.parametrize("command", ["ring", "graph"])
@pytest.mark.parametrize("words", ["", "the walk ends: chordal://a:1: no answer"])
def test_who_prints_a_part_of_the_ring_says_so(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fake(url: str, **rest: object) -> Walk:
        return Walk((), (words,) if words else (), words)

    monkeypatch.setattr("ges.operations.walk.walk_ring", fake)
    done = CliRunner().invoke(cli, [command])
    assert done.exit_code == (1 if words and command == "graph" else 0)
    assert done.stderr == (
        f"chordal: warning: {words}; what lies beyond is not shown\n" if words else ""
    )


@pytest.mark.parametrize("n", [1, 2, 5])
async def test_it_meets_everybody_in_order(brokers: Brokers, n: int) -> None:
    ring = await brokers.ring_of(n)
    found = await walk(ring[-1].url)
    assert found.findings == ()
    assert {status.uid for status in found.brokers} == {b.node.peer.uid for b in ring}
    assert found.brokers[0].url == ring[-1].url
    ids = [status.member.ring_id for status in found.brokers if status.member is not None]
    first = ids.index(min(ids))
    assert ids[first:] + ids[:first] == sorted(ids)


async def test_it_counts(brokers: Brokers) -> None:
    (broker,) = await brokers.ring_of(1)
    found = await walk(broker.url)
    assert found.expecting(1).findings == ()
    assert found.expecting(2).findings == ("the ring has 1 broker, 2 are expected",)


async def test_after_a_death_it_goes_on_without_the_dead(brokers: Brokers) -> None:
    ring = await brokers.ring_of(4)
    brokers.kill(ring[0])
    await brokers.whole()
    found = await walk(ring[1].url)
    assert (len(found.brokers), found.findings) == (3, ())


async def test_it_goes_on_past_a_broker_that_does_not_answer(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "KEEP_ALIVE_SECONDS", 0.02)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 0.2)
    ring = await brokers.ring_of(4)
    silent = ring[0].node.ring.right[0]
    hang(next(b for b in ring if b.node.peer.uid == silent.uid), monkeypatch)
    with trio.fail_after(20):
        found = await walk(ring[0].url)
    assert {status.uid for status in found.brokers} == {
        b.node.peer.uid for b in ring if b.node.peer.uid != silent.uid
    }
    (finding,) = found.findings
    assert finding.startswith(f"broker {silent.uid[:8]} at {silent.peer.url} does not answer (")
    assert "is pointed at by 3 of the 3 met" in finding
    assert (found.silent, found.ends_early) == (found.findings, "")
    assert found.expecting(4) is found, "how many there are is not known"
    for command, warning in ((["ring"], True), (["graph"], True), (["ring", "--check"], False)):
        done = await command_line(*command, "--broker", ring[0].url, "--timeout", "1")
        assert done.exit_code == (0 if command == ["ring"] else 1), done.output
        words = f"chordal: warning: broker {silent.uid[:8]} at "
        assert (words in done.stderr) is warning
        assert warning or "what they survive is not known" in done.stdout


async def test_it_passes_over_whom_nobody_can_call(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = await brokers.ring_of(3)
    bad = Member(Peer("e" * 32, 1, "http://x"), 1)
    right, status = (bad, b.node.ring.right[0]), b.status
    monkeypatch.setattr(
        b.parts.intake, "_describe", lambda: msgspec.structs.replace(status(), right=right)
    )
    found = await walk(a.url)
    assert {status.uid for status in found.brokers} == {x.node.peer.uid for x in (a, b, c)}
    words = "broker eeeeeeee is passed over: 'http://x' is not a broker URL"
    assert found.passed_over == (words,)
    assert words in found.findings
    assert found.ends_early == ""
    for command in (["ring"], ["graph"], ["ring", "--check"]):
        done = await command_line(*command, "--broker", a.url)
        assert done.exit_code == (1 if "--check" in command else 0), done.stderr
        assert words in done.stderr or words in str(done.exception)
    monkeypatch.setattr(
        b.parts.intake, "_describe", lambda: msgspec.structs.replace(status(), right=(bad,))
    )
    found = await walk(b.url)
    assert {status.uid for status in found.brokers} == {x.node.peer.uid for x in (a, b, c)}
    assert found.passed_over == (words,)
    assert any("has right [eeeeeeee], should have" in finding for finding in found.findings)


async def test_what_a_broker_calls_itself_is_printed_as_it_is(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = await brokers.ring_of(1)
    status = msgspec.structs.replace(a.status(), url="[/x] :smile: \x1b[2J")
    monkeypatch.setattr(a.parts.intake, "_describe", lambda: status)
    for command in ("ring", "status"):
        done = await command_line(command, "--broker", a.url)
        assert done.exit_code == 0, done.stderr
        assert r"'[/x] :smile: \x1b[2J'" in done.stdout


async def command_line(*words: str) -> Result:
    """Run a command beside the brokers."""
    return await trio.to_thread.run_sync(CliRunner().invoke, cli, words)


async def test_it_tells_two_rings_that_should_be_one(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = await brokers.ring_of(3)
    monkeypatch.setattr(a.node.ring._hood, "left", (c.node.ring.member, c.node.ring.member))
    found = await walk(b.url)
    assert any("twice" in finding for finding in found.findings)
    assert any("should have" in finding for finding in found.findings)


async def test_a_first_broker_that_is_silent_is_named() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"chordal://127.0.0.1:{listener.socket.getsockname()[1]}"
    with pytest.raises(ConnectionLost, match=f"{url}: no answer in time"):
        await walk_ring(url, identity=None, overlay="chordal", timeout_s=0.1)
    await listener.aclose()


async def test_where_nobody_answers_there_is_nothing_to_walk() -> None:
    with pytest.raises(ConnectionLost, match="connection refused"):
        await walk_ring("chordal://127.0.0.1:1", identity=None, overlay="chordal", timeout_s=0.1)


# ── a ring whose brokers fall silent, in virtual time ─────────────────────────────────────────


class Silenced:
    """Stands in for :func:`ges.client.connect`, at a ring in which some brokers stand still.

    All others answer at once. They drop one that stands still after so many seconds: ``dropping``,
    by who does and whom.
    """

    def __init__(self, n: int, silent: Collection[int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.ring = [Member(Peer(f"{at:032x}", 1, f"chordal://{at}.test:1"), at) for at in range(n)]
        self.silent = silent
        self.replaced = False  #: others answer at the addresses of those
        self.dropping: dict[tuple[int, int], float] = {}
        self.chords: dict[int, int] = {}
        self.asked: list[int] = []
        monkeypatch.setattr("ges.operations.walk.connect", self.connect)

    def heals(self, seconds: float) -> None:
        """All drop those who stand still at that time."""
        self.dropping = {(a.ring_id, b): seconds for a in self.ring for b in self.silent}

    def status(self, at: int) -> Status:
        now = trio.current_time() - self.began
        if at in self.silent:
            return whole_ring(1, records=0)[0]
        near = [m for m in self.ring if now < self.dropping.get((at, m.ring_id), math.inf)]
        left, right = ideal_pointers(near, near.index(self.ring[at]))
        chord = self.ring[self.chords.get(at, at)]
        chords = (chord,) if chord in near and chord.ring_id != at else ()
        said = whole_ring(1, records=0)[0]
        member = self.ring[at]
        return msgspec.structs.replace(
            said, uid=member.uid, member=member, left=left, right=right, chords=chords
        )

    @asynccontextmanager
    async def connect(self, url: str, *, timeout: float, **_: object) -> AsyncIterator[Client]:
        at = next(m.ring_id for m in self.ring if m.peer.url == url)
        self.asked.append(at)
        if at in self.silent and not self.replaced:
            await trio.sleep(timeout)
            raise ConnectionLost(f"no broker to attach to: {url}: no answer in time")
        yield cast("Client", Answering(self, at, url))

    async def walk(self) -> tuple[Walk, list[int], float]:
        """Walk from broker 0; returns ring ids of those met as well, and seconds it took."""
        self.began = trio.current_time()
        found = await walk_ring(self.ring[0].peer.url)
        ids = [status.member.ring_id for status in found.brokers if status.member is not None]
        return found, ids, trio.current_time() - self.began


class Answering:
    def __init__(self, ring: Silenced, at: int, url: str) -> None:
        self.broker_url = url
        self._ring, self._at = ring, at

    async def status(self) -> Status:
        await trio.lowlevel.checkpoint()
        return self._ring.status(self._at)


SILENT = [[1], [2], [3], [5], [2, 3], [1, 2], [4, 5], [1, 3], [2, 4], [1, 5]]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("silent", SILENT, ids=str)
async def test_it_sees_the_ring_close_over_who_stands_still_or_is_replaced(
    silent: list[int],
    replaced: bool,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replaced: another broker, which is elsewhere on the ring, answers at its address."""
    ring = Silenced(6, silent, monkeypatch)
    ring.heals(2.0)
    ring.replaced = replaced
    found, ids, took = await ring.walk()
    assert found.findings == ()
    assert ids == [at for at in range(6) if at not in silent]
    assert 2 <= found.began - ring.began <= took < 3, "little longer than the ring takes"


async def test_it_waits_a_little_for_those_who_drop_it_later(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one that has it for a chord, and for one that has it for right-right."""
    ring = Silenced(9, [3], monkeypatch)
    ring.chords = {7: 3}
    ring.heals(2.0)
    ring.dropping |= {(1, 3): 2.7, (7, 3): 3.4}
    found, ids, took = await ring.walk()
    assert (found.findings, ids) == ((), [0, 1, 2, 4, 5, 6, 7, 8])
    assert took == pytest.approx(3.4, abs=0.5)


@pytest.mark.parametrize("behind", [1, 7])
async def test_who_still_points_at_one_that_the_way_round_misses_is_waited_for(
    behind: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Silenced(9, [3], monkeypatch)
    ring.chords = {7: 3}
    ring.heals(0.0)
    ring.dropping[behind, 3] = 1.0
    found, ids, took = await ring.walk()
    assert (found.findings, ids) == ((), [0, 1, 2, 4, 5, 6, 7, 8])
    assert took == pytest.approx(1, abs=0.5)


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [(False, "no answer in time"), (True, "another broker answers there")],
    ids=["silent", "replaced"],
)
@pytest.mark.parametrize("silent", SILENT, ids=str)
async def test_who_is_not_dropped_is_passed_and_named(
    silent: list[int],
    replaced: bool,
    reason: str,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is said of the pointers beside: they may be as they should."""
    ring = Silenced(6, silent, monkeypatch)
    ring.replaced = replaced
    found, ids, took = await ring.walk()
    assert ids == [at for at in range(6) if at not in silent]
    assert found.findings == found.silent
    assert sorted(line.split(f" does not answer ({reason})")[0] for line in found.silent) == [
        f"broker 00000000 at chordal://{at}.test:1" for at in silent
    ]
    assert took == pytest.approx(PATIENCE_S + LATER_PATIENCE_S * (len(silent) - 1), abs=0.5)


@pytest.mark.parametrize(
    ("naming", "words"),
    [([7], "00000000"), ([0, 6, 7, 8], "00000000, 00000000, 00000000, 1 more")],
)
async def test_who_lives_and_stands_nowhere_is_named_with_those_that_point_at_it(
    naming: list[int], words: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Silenced(9, [], monkeypatch)
    ring.chords = dict.fromkeys(naming, 3)
    ring.dropping = {(at, 3): 0.0 for at in range(9) if at not in (3, *naming)}
    found, ids, _ = await ring.walk()
    assert ids == [0, 1, 2, 4, 5, 6, 7, 8]
    assert found.findings == (
        "broker 00000000 at chordal://3.test:1 is pointed at by "
        f"{words}, but not met on the way round",
    )


async def test_behind_two_that_stand_still_it_turns_back_for_the_nearest(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 0 knows of 7 and 8 beyond them; that there are 3 to 6 it learns there."""
    ring = Silenced(9, [1, 2], monkeypatch)
    found, ids, _ = await ring.walk()
    assert ids == [0, 3, 4, 5, 6, 7, 8]
    assert found.findings == found.silent


async def test_a_walk_among_many_that_stand_still_ends(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Silenced(60, range(1, 60, 2), monkeypatch)
    found, ids, took = await ring.walk()
    assert took <= IN_VAIN_S + PATIENCE_S
    assert found.ends_early == "the walk ends: 15 s were waited for brokers that do not answer"
    assert found.findings == (found.ends_early, *found.silent)
    assert ids == list(range(0, 2 * len(found.silent), 2))


async def test_one_that_only_pauses_is_met(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Silenced(6, [], monkeypatch)
    connect = ring.connect

    @asynccontextmanager
    async def pausing(url: str, **rest: float) -> AsyncIterator[Client]:
        await trio.sleep(3.0 if url == ring.ring[2].peer.url else 0.0)
        async with connect(url, timeout=rest["timeout"]) as client:
            yield client

    monkeypatch.setattr("ges.operations.walk.connect", pausing)
    found, ids, _ = await ring.walk()
    assert (found.findings, ids) == ((), list(range(6)))
