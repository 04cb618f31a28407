"""The walk round a live ring."""

from __future__ import annotations

import msgspec
import pytest
import trio
from click.testing import CliRunner, Result

from ges import patience
from ges.cli.main import cli
from ges.errors import ConnectionLost
from ges.walk import Walk, walk_ring
from overlay.ids import Peer
from ring.messages import Member
from tests.helpers.brokers import Brokers, hang


async def walk(url: str) -> Walk:
    return await walk_ring(url, identity=None, overlay="chordal", timeout_s=1)


@pytest.mark.parametrize("command", ["ring", "graph"])
@pytest.mark.parametrize("words", ["", "the walk ends: chordal://a:1: no answer"])
def test_who_prints_a_part_of_the_ring_says_so(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fake(url: str, **rest: object) -> Walk:
        return Walk((), (words,) if words else (), words)

    monkeypatch.setattr("ges.walk.walk_ring", fake)
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


async def test_it_ends_where_a_broker_does_not_answer(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "KEEP_ALIVE_SECONDS", 0.02)
    monkeypatch.setattr(patience, "SILENCE_SECONDS", 0.2)
    ring = await brokers.ring_of(3)
    silent = ring[0].node.ring.right[0]
    hang(next(b for b in ring if b.node.peer.uid == silent.uid), monkeypatch)
    with trio.fail_after(20):
        found = await walk(ring[0].url)
    assert len(found.brokers) == 1
    assert found.findings[0].startswith(f"the walk ends: {silent.peer.url}")
    assert found.ends_early == found.findings[0]
    assert any(silent.uid[:8] in finding and "not met" in finding for finding in found.findings)


async def test_it_passes_over_whom_nobody_can_call(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = await brokers.ring_of(3)
    bad = Member(Peer("e" * 32, 1, "http://x"), 1)
    right, status = (bad, b.node.ring.right[0]), b.status
    monkeypatch.setattr(b, "status", lambda: msgspec.structs.replace(status(), right=right))
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
    monkeypatch.setattr(b, "status", lambda: msgspec.structs.replace(status(), right=(bad,)))
    found = await walk(b.url)
    assert len(found.brokers) == 1
    ends = f"the walk ends: nobody right of {b.node.peer.uid[:8]} can be called"
    assert found.ends_early == ends
    assert ends in found.findings


async def test_what_a_broker_calls_itself_is_printed_as_it_is(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = await brokers.ring_of(1)
    status = msgspec.structs.replace(a.status(), url="[/x] :smile: \x1b[2J")
    monkeypatch.setattr(a, "status", lambda: status)
    for command in ("ring", "status"):
        done = await command_line(command, "--broker", a.url)
        assert done.exit_code == 0, done.stderr
        assert r"'[/x] :smile: \x1b[2J'" in done.stdout


async def command_line(*words: str) -> Result:
    """Run a command beside the brokers."""
    return await trio.to_thread.run_sync(CliRunner().invoke, cli, words)


async def test_who_looks_again_waits_less_for_those_on_the_way(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = await brokers.ring_of(3)
    silent = ring[0].node.ring.right[0]
    hang(next(b for b in ring if b.node.peer.uid == silent.uid), monkeypatch)
    with trio.fail_after(20):
        found = await walk_ring(
            ring[0].url, identity=None, overlay="chordal", timeout_s=100, step_s=0.3
        )
    assert len(found.brokers) == 1
    assert found.findings[0].startswith("the walk ends: ")


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
