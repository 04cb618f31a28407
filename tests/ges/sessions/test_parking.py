"""Secure events that wait: bounded, in order, delivered when a path appears, ended in time."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, connect
from ges.errors import PublishRefused
from ges.gateways.gateways_part import GatewaysPart
from ges.sessions import parked_events, parking
from ges.sessions.parking import MAX_PARKED, MAX_PARKED_BYTES, Parking
from ges.wire.event_flags import SECURE_FLAG
from ges.wire.event_runs import event_runs
from ges.wire.events import NO_DUTY, Head, pack_event
from overlay.errors import ConfigError
from overlay.ids import LinkClass, nanos
from overlay.security.identity import Role
from overlay.shares import Source
from overlay.wire.frames import EVENT, frame
from tests.ges.conftest import Issue
from tests.ges.whole.test_renewal import LOOK_SECONDS, started, url
from tests.helpers.secured import is_meshed, unreached

SECURE = LinkClass.SECURE
DEADLINE_SECONDS = 20
WAIT = nanos(10)


def head(sequence: int) -> Head:
    return Head(SECURE, SECURE_FLAG, 0, 0, 0, NO_DUTY, b"p" * 16, 1, sequence, 0, b"a")


def no(session: str, head: Head) -> str | None:
    return "no path"


def yes(session: str, head: Head) -> str | None:
    return None


# What is held


def test_one_source_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One certificate parks by twenty connections, each within what one client may."""
    monkeypatch.setattr(parking, "MAX_ALL_PARKED", 40)
    held: Parking[str] = Parking(lambda session: Source(session[0], is_proven=True))
    why = [held.park(f"a{n}", head(k), b"x", 0, WAIT) for n in range(20) for k in range(2)]
    assert why == [None] * 20 + ["a may have 20 parked events, and has 20"] * 20
    assert held.park("b1", head(1), b"x", 0, WAIT) is None
    held.forget("a0")
    assert held.park("a1", head(3), b"x", 0, WAIT) is None


def test_events_leave_in_order_when_a_path_appears() -> None:
    parking: Parking[str] = Parking()
    for sequence in (1, 2, 3):
        assert parking.park("s", head(sequence), b"x", 0, WAIT) is None
    assert parking.release(1, no) == ([], [])
    free, over = parking.release(2, yes)
    assert [parked.head.sequence for _, parked in free] == [1, 2, 3]
    assert over == []
    assert (parking.size, parking.bytes, parking.next_deadline()) == (0, 0, None)
    assert not parking.holds("s")


def test_none_overtakes_one_that_still_waits() -> None:
    """Only the first topic has no path: the second event waits behind it all the same."""
    parking: Parking[str] = Parking()
    for sequence in (1, 2):
        parking.park("s", head(sequence), b"x", 0, WAIT)
    blocked, _ = parking.release(1, lambda _, head: "no" if head.sequence == 1 else None)
    assert blocked == []
    assert parking.size == 2


def test_one_expires_with_what_was_in_its_way() -> None:
    parking: Parking[str] = Parking()
    parking.park("s", head(1), b"x", 0, WAIT)
    parking.park("s", head(2), b"x", 0, 3 * WAIT)
    assert parking.next_deadline() == WAIT
    assert parking.release(WAIT - 1, no) == ([], [])
    free, over = parking.release(WAIT, no)
    assert [(parked.head.sequence, why) for _, parked, why in over] == [(1, "no path")]
    assert (free, parking.size, parking.next_deadline()) == ([], 1, 3 * WAIT)


def test_what_one_client_can_park_is_bounded() -> None:
    parking: Parking[str] = Parking()
    for sequence in range(MAX_PARKED):
        assert parking.park("s", head(sequence + 1), b"", 0, WAIT) is None
    assert "parked already" in (parking.park("s", head(9999), b"", 0, WAIT) or "")
    assert parking.park("t", head(1), bytes(MAX_PARKED_BYTES), 0, WAIT) is None
    assert "parked already" in (parking.park("t", head(2), b"x", 0, WAIT) or "")
    assert parking.size == MAX_PARKED + 1


def test_what_all_can_park_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ges.sessions.parking.MAX_ALL_PARKED", 6)
    monkeypatch.setattr("ges.sessions.parking.MAX_ALL_PARKED_BYTES", 200)
    parking: Parking[int] = Parking(lambda session: Source(f"{session // 3}", is_proven=True))
    for session in range(2):
        assert parking.park(session, head(1), bytes(45), 0, WAIT) is None
    assert parking.park(3, head(1), bytes(95), 0, WAIT) is None
    assert "185 of 200 bytes of parked" in (parking.park(6, head(1), bytes(16), 0, WAIT) or "")
    for session in (2, 4, 5):
        assert parking.park(session, head(1), b"", 0, WAIT) is None
    assert "6 of 6 parked events are taken" in (parking.park(6, head(1), b"", 0, WAIT) or "")
    assert parking.forget(0) == 1
    assert parking.park(6, head(1), bytes(16), 0, WAIT) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 20))))
def test_the_books_are_right(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens: each event leaves once, in the order of its session, or is forgotten."""
    parking: Parking[str] = Parking()
    left: dict[str, list[int]] = {}
    put: dict[str, list[int]] = {}
    gone = 0
    for now, (session, action, amount) in enumerate(steps):
        if action <= 2:
            sequence = len(put.setdefault(session, [])) + 1
            put[session].append(sequence)
            assert parking.park(session, head(sequence), bytes(amount), now, amount) is None
        elif action == 3:
            gone += parking.forget(session)
        else:
            free, over = parking.release(now, yes if action == 4 else no)
            for name, parked in [*free, *((name, parked) for name, parked, _ in over)]:
                left.setdefault(name, []).append(parked.head.sequence)
            assert all(parked.until <= now for _, parked, _ in over)
        total = sum(map(len, put.values()))
        assert parking.size == total - gone - sum(map(len, left.values()))
    for session in "abc":
        gone += parking.forget(session)
    assert (parking.size, parking.bytes) == (0, 0)
    for sequences in left.values():
        assert len(set(sequences)) == len(sequences)


# Through the door


def break_tls(ring: list[Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    """End all secure links and let none come up until the patch is undone."""
    for broker in ring:
        monkeypatch.setattr(broker.node._secure_links, "_wanted", lambda uid: None)
        for (_, link_class), link in list(broker.driver.links.items()):
            if link_class is SECURE:
                link.connection.abort()


async def mend_tls(ring: list[Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for broker in ring:
        for uid in list(broker.node._normal_links):
            broker.driver._perform(broker.node._secure_links.seek(uid))


async def publish(client: Client, number: int, park: float = 0.0) -> None:
    await client.publish("a", b"%d" % number, link_class=SECURE, park=park)


async def test_parked_events_are_delivered_in_order_when_a_path_appears(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    me = issue(Role.CLIENT)
    async with (
        connect(url(ring[0]), identity=me) as publisher,
        connect(url(ring[1]), identity=me) as reader,
        reader.subscribe("a") as events,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            break_tls(ring, monkeypatch)
            await until(lambda: unreached(ring[0]))
            for number in range(5):
                await publish(publisher, number, park=30)
            await until(lambda: ring[0].status().parked == 5)
            with pytest.raises(PublishRefused, match="no all-secure path"):
                await publisher.publish("a", b"now or never", link_class=SECURE, confirm=True)
            await publisher.publish("a", b"open", confirm=False)
            assert (await anext(events)).payload == b"open"
            await mend_tls(ring, monkeypatch)
            got = [int((await anext(events)).payload) for _ in range(5)]
            await publisher.flush()
    assert got == list(range(5))
    assert ring[0].status().parked == 0
    assert ring[0].driver.counters["events_parked_sent"] == 5


async def test_rules_that_change_hold_for_what_is_parked(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[allow]]\nsubject = "anyone"\npublish = ["a", "b"]\nsubscribe = ["#"]\n')
    a = await brokers.start(identity=issue(Role.BROKER), access=rules, look_seconds=LOOK_SECONDS)
    ring = [a, await brokers.start(identity=issue(Role.BROKER), look_seconds=LOOK_SECONDS)]
    await brokers.whole()
    await until(lambda: is_meshed(ring))
    me = issue(Role.CLIENT)
    async with (
        connect(url(a), identity=me) as publisher,
        connect(url(ring[1]), identity=me) as reader,
        reader.subscribe("#") as events,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            break_tls(ring, monkeypatch)
            await until(lambda: unreached(a))
            for topic in ("a", "b", "a", "b"):
                await publisher.publish(topic, b"", link_class=SECURE, park=30)
            await until(lambda: a.status().parked == 4)
            rules.write_text(rules.read_text().replace('"a", ', ""))
            await a.reload()
            assert a.status().parked == 2, "they do not wait for a path to be refused"
            await mend_tls(ring, monkeypatch)
            assert [(await anext(events)).topic for _ in range(2)] == ["b", "b"]
            with pytest.raises(PublishRefused, match=r"denied to .* \(and 1 more"):
                await publisher.flush()
    assert a.driver.counters["events_denied"] == 2


async def test_while_no_mask_is_sure_secure_events_wait_in_order_whatever_they_allow(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    me = issue(Role.CLIENT)
    async with (
        connect(url(a), identity=me) as publisher,
        connect(url(b), identity=me) as reader,
        reader.subscribe("a") as events,
    ):
        with trio.fail_after(DEADLINE_SECONDS), monkeypatch.context() as units_change:
            units_change.setattr(GatewaysPart, "is_for_all", False)
            for number in range(3):
                await publish(publisher, number)
            await until(lambda: a.status().parked == 3)
        with trio.fail_after(DEADLINE_SECONDS):
            await publish(publisher, 3)
            assert [int((await anext(events)).payload) for _ in range(4)] == [*range(4)]
            await publisher.flush()
    assert a.driver.counters["events_parked_sent"] == 3
    assert a.driver.counters["events_sent_to_all"] == 0


async def test_after_twenty_seconds_such_an_event_is_refused_with_the_reason(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked_events, "UNSURE_NS", nanos(0.2))
    a, _ = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    monkeypatch.setattr(GatewaysPart, "is_for_all", False)
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        with trio.fail_after(DEADLINE_SECONDS), pytest.raises(PublishRefused, match="not sure yet"):
            await client.publish("a", b"", link_class=SECURE, confirm=True)


async def test_what_has_no_room_any_more_when_its_path_appears_is_refused(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have had values retained meanwhile: nobody is told that this one is."""
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    async with (
        connect(url(ring[0]), identity=issue(Role.CLIENT)) as client,
        connect(url(ring[1]), identity=issue(Role.CLIENT)) as reader,
        reader.subscribe("a"),
    ):
        break_tls(ring, monkeypatch)
        await until(lambda: unreached(ring[0]))
        await client.publish("a", b"1", link_class=SECURE, park=60, retain=True)
        await until(lambda: ring[0].status().parked == 1)
        ring[0].stack.retaining.values.bound(1)
        await mend_tls(ring, monkeypatch)
        with trio.fail_after(DEADLINE_SECONDS), pytest.raises(PublishRefused, match="clear some"):
            await client.flush()


def framed(body: bytes) -> tuple[bytes, list[int]]:
    data = frame(EVENT, body)
    return data, [0, len(data)]


async def test_none_slips_past_what_is_parked_when_the_path_has_just_come(
    brokers: Brokers, issue: Issue
) -> None:
    """The path is there, and those that wait have not been sent yet."""
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    parked = a.parts.parked
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        await publish(client, 1, park=60)
        await until(lambda: parked.size == 1 and parked.next_deadline() != 0)  # it was looked at
        (session,) = a.clients._sessions
        event = pack_event(True, session.publisher, session.incarnation, 2, 0, b"a", b"", b"")
        (run,) = event_runs(*framed(event))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(a.stack, "why_not", lambda session, head: None)
            a.parts.intake._take_events(session, run)
        assert a.driver.counters["events_refused"] == 1
        assert a.driver.counters["events_published"] == 0


async def test_a_parked_event_expires_and_its_publisher_is_told(
    brokers: Brokers, issue: Issue
) -> None:
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        with trio.fail_after(DEADLINE_SECONDS):
            begun = trio.current_time()
            await publish(client, 1, park=0.4)
            with pytest.raises(PublishRefused, match=r"expired, parked for 0.4 s: no all-secure"):
                await client.flush()
            assert trio.current_time() - begun >= 0.4
            await client.flush()
    assert a.driver.counters["events_parked_expired"] == 1
    assert a.status().parked == 0


async def test_flush_waits_for_what_is_parked_although_a_later_event_is_refused(
    brokers: Brokers, issue: Issue
) -> None:
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        with trio.fail_after(DEADLINE_SECONDS):
            await publish(client, 1, park=1.0)
            await publish(client, 2)
            with pytest.raises(PublishRefused, match="no all-secure path"):
                await client.flush()
            with pytest.raises(PublishRefused, match="expired"):
                await client.flush()
            await client.flush()


async def test_what_is_parked_goes_with_its_publisher(brokers: Brokers, issue: Issue) -> None:
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        await publish(client, 1, park=60)
        await until(lambda: a.status().parked == 1)
    await until(lambda: a.status().parked == 0)
    assert a.driver.counters["events_parked_dropped"] == 1


async def test_parked_events_that_memory_is_wanted_for_are_refused(
    brokers: Brokers, issue: Issue
) -> None:
    """Those first of the client that has most."""
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with (
        connect(url(a), identity=issue(Role.CLIENT)) as client,
        connect(url(a), identity=issue(Role.CLIENT)) as other,
    ):
        for number in (1, 2):
            await publish(client, number, park=60)
        await publish(other, 1, park=60)
        await until(lambda: a.status().parked == 3)
        parked = a.parts.parked
        parked.shed(parked.memory - 1)
        assert a.status().parked == 1
        with (
            trio.fail_after(DEADLINE_SECONDS),
            pytest.raises(PublishRefused, match="this broker has no memory left for it"),
        ):
            await client.flush()
        parked.shed(0)
        with (
            trio.fail_after(DEADLINE_SECONDS),
            pytest.raises(PublishRefused, match="no memory left"),
        ):
            await other.flush()
        assert parked.memory == 0


async def test_nothing_is_parked_that_came_over_a_plain_hop(brokers: Brokers, issue: Issue) -> None:
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with connect(a.url) as client:
        with pytest.raises(PublishRefused, match="hop to the broker is not secure"):
            await publish(client, 1, park=60)
        client._attachment.state.secure = True  # one that does not check, and sends it all the same
        with trio.fail_after(DEADLINE_SECONDS):
            await publish(client, 2, park=60)
            with pytest.raises(PublishRefused, match="hop from the client"):
                await client.flush()
    assert a.driver.counters["events_parked"] == 0


@pytest.mark.parametrize(
    ("park", "link_class"), [(5.0, LinkClass.NORMAL), (-1, SECURE), (1e6, SECURE)]
)
async def test_a_park_that_makes_no_sense(
    brokers: Brokers, issue: Issue, park: float, link_class: LinkClass
) -> None:
    broker = await brokers.start(identity=issue(Role.BROKER))
    async with connect(url(broker), identity=issue(Role.CLIENT)) as client:
        with pytest.raises(ConfigError, match="park is for secure events"):
            await client.publish("a", b"", link_class=link_class, park=park)


async def test_who_is_alone_parks_until_somebody_here_subscribes(
    brokers: Brokers, issue: Issue
) -> None:
    a, _ = await brokers.ring_of(2, issue(Role.BROKER))
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        await publish(client, 1, park=60)
        await until(lambda: a.status().parked == 1)
        async with client.subscribe("a") as events:
            with trio.fail_after(DEADLINE_SECONDS):
                assert (await anext(events)).payload == b"1"
