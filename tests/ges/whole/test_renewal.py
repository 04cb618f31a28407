"""Certificates of seconds: renewed on live brokers, and the end of those that are not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers, secure_uids
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.broker.identity_watch import IdentityWatch
from ges.client import connect
from ges.errors import ConnectionLost
from overlay.authority.authority import Authority, load_authority, renew_identity
from overlay.authority.rotation import finish_rotation, rotate_authority
from overlay.ids import LinkClass, nanos
from overlay.security.identity import Role
from tests.ges.conftest import Issue
from tests.helpers.secured import is_meshed

SECURE = LinkClass.SECURE
LOOK_SECONDS = 0.1
DEADLINE_SECONDS = 40


async def started(brokers: Brokers, identities: list[Path]) -> list[Broker]:
    ring = [await brokers.start(identity=i, look_seconds=LOOK_SECONDS) for i in identities]
    await brokers.whole()
    await until(lambda: is_meshed(ring))
    return ring


def url(broker: Broker) -> str:
    assert broker.secure_url is not None
    return broker.secure_url


def watch_links(ring: list[Broker], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every secure link that is seen to go down by the end that has it."""
    seen: list[str] = []
    for broker in ring:
        handle = broker.node.handle

        def noting(event, now, handle=handle):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            if type(event).__name__ == "LinkDown" and event.link_class is SECURE:
                seen.append(f"{event.uid[:8]} {event.reason}")
            return handle(event, now)

        monkeypatch.setattr(broker.node, "handle", noting)
    return seen


async def test_an_identity_open_to_too_many_is_warned_of_once(
    brokers: Brokers, issue: Issue
) -> None:
    folder = issue(Role.BROKER)
    open_to_all(folder)
    with structlog.testing.capture_logs() as lines:
        broker = await brokers.start(identity=folder, look_seconds=LOOK_SECONDS)
        # It has looked twice more once it complains of what it cannot use.
        (folder / "identity.crt").write_bytes(b"rubbish")
        await until(lambda: watch_of(broker).has_complained)
    told = [line for line in lines if line["event"] == "identity open to too many"]
    assert [line["log_level"] for line in told] == ["warning"] * 2
    assert [line["why"].partition(": ")[2] for line in told] == [
        f"open to group or others; chmod 700 {folder}",
        f"writable by group or others; chmod 644 {folder / 'authority.crt'}",
    ]
    assert {line["broker"] for line in told} == {broker.node.peer.uid[:8]}


def open_to_all(folder: Path) -> None:
    folder.chmod(0o777)
    (folder / "authority.crt").chmod(0o666)


def serials(ring: list[Broker]) -> set[str]:
    found = (broker.status().identity for broker in ring)
    return {identity.serial for identity in found if identity is not None}


async def test_events_flow_on_while_certificates_of_seconds_are_renewed(
    brokers: Brokers, issue: Issue, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker outlives several certificates; every event comes once, in order, by the links."""
    life = timedelta(seconds=6)
    folders = [issue(Role.BROKER, life) for _ in range(3)]
    ring = await started(brokers, folders)
    down = watch_links(ring, monkeypatch)
    me = issue(Role.CLIENT)
    first, rounds, total = serials(ring), 4, 0
    got: list[int] = []
    is_over = False

    async def publish() -> None:
        nonlocal total
        async with connect(url(ring[0]), identity=me, reattach=False) as client:
            while not is_over:
                total += 1
                await client.publish("a", b"%d" % total, link_class=SECURE, confirm=True)
                await trio.sleep(0.005)

    with trio.fail_after(DEADLINE_SECONDS):
        async with (
            connect(url(ring[1]), identity=me, reattach=False) as reader,
            reader.subscribe("a", link_class=SECURE) as events,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(publish)
            begun = trio.current_time()
            for number in range(rounds):
                for folder in folders:
                    renew_identity(authority, folder, lifetime=life, new_key=number % 2 == 1)
                await until(lambda n=number: renewals(ring) == [n + 1] * 3)  # type: ignore[misc]
                # A time in which the certificates go on ageing; the first ones end in it.
                await trio.sleep_until(begun + 2.0 * (number + 1))
            assert trio.current_time() - begun > life.total_seconds()
            is_over = True
            while len(got) < total or not got:
                got += [int(event.payload) for event in await events.batch()]
    assert got == list(range(1, total + 1))
    assert total > 100
    assert down == []
    assert len(serials(ring) | first) == 6
    assert [broker.driver.counters["links_expired"] for broker in ring] == [0, 0, 0]
    assert [broker.stack.ordering.lost for broker in ring] == [0, 0, 0]


def renewals(ring: list[Broker]) -> list[int]:
    return [broker.driver.counters["identity_renewals"] for broker in ring]


async def test_the_authority_is_changed_under_running_brokers(
    brokers: Brokers, issue: Issue, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step of the change all brokers are linked, old to old, new to old, new to new."""
    # It is after this that a broker looks whether all its links are renewed.
    monkeypatch.setattr("ges.broker.identity_watch.RENEW_AGAIN_NS", nanos(1.0))
    folders = [issue(Role.BROKER) for _ in range(3)]
    me = issue(Role.CLIENT)
    ring = await started(brokers, folders)
    down = watch_links(ring, monkeypatch)

    async def passes() -> None:
        async with (
            connect(url(ring[0]), identity=me) as publisher,
            connect(url(ring[2]), identity=me) as reader,
            reader.subscribe("a") as events,
        ):
            with trio.fail_after(DEADLINE_SECONDS):
                await publisher.publish("a", b"x", link_class=SECURE, confirm=True)
                assert (await anext(events)).payload == b"x"

    rotated = rotate_authority(authority, lifetime=timedelta(days=5))
    for number, folder in enumerate(folders):
        renew_identity(rotated, folder, lifetime=timedelta(days=1))
        await until(lambda n=number: renewals(ring)[n] == 1)  # type: ignore[misc]
        await until(lambda: are_fresh(ring))
        await passes()
    assert {broker.status().identity.authorities for broker in ring} == {2}  # type: ignore[union-attr]
    renew_identity(rotated, me, lifetime=timedelta(days=1))
    finished = finish_rotation(load_authority(authority.directory))
    for folder in folders:
        renew_identity(finished, folder, lifetime=timedelta(days=1))
    await until(lambda: renewals(ring) == [2, 2, 2])
    await until(lambda: are_fresh(ring))
    await passes()
    assert {broker.status().identity.authorities for broker in ring} == {1}  # type: ignore[union-attr]
    assert down == []


async def hold(where: str, identity: Path) -> None:
    async with connect(where, identity=identity, reattach=False):
        await trio.sleep_forever()


def watch_of(broker: Broker) -> IdentityWatch:
    """Return what looks after a broker's identity."""
    assert broker.parts.secured is not None
    return broker.parts.secured.identity_watch


def are_fresh(ring: list[Broker]) -> bool:
    """No link is left that stands on a certificate its holder shows no more."""
    return all(watch_of(broker).is_settled for broker in ring)


async def test_a_certificate_that_is_not_renewed_ends_links_and_clients(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end, not at the next handshake; nor does the broker count on clients to leave."""

    async def stay(*_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("ges.client.attachment.stay_certified", stay)
    short = timedelta(seconds=5)
    ring = await started(brokers, [issue(Role.BROKER, short), issue(Role.BROKER)])
    failing, lasting = ring
    me = issue(Role.CLIENT)
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(url(lasting), identity=me) as stays:
            with pytest.raises(ConnectionLost):
                await hold(url(failing), me)
            await until(lambda: secure_uids(lasting) == secure_uids(failing) == set())
            found = await stays.status()
    ended = [broker.driver.counters["links_expired"] for broker in ring]
    assert sum(ended) >= 1
    assert failing.driver.counters["clients_expired"] == 1
    assert failing.status().identity.expires_in_s <= 0  # type: ignore[union-attr]
    assert all(link.link_class is not SECURE for link in found.links)


async def test_a_client_whose_certificate_ends_is_detached_and_returns_with_a_renewed_one(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    (broker,) = await started(brokers, [issue(Role.BROKER)])
    me = issue(Role.CLIENT, timedelta(seconds=3))
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(url(broker), identity=me) as client:
            await until(lambda: broker.driver.counters["clients_expired"])
            renew_identity(authority, me, lifetime=timedelta(days=1))
            await until(lambda: client.gaps)
            await client.publish("a", b"x", confirm=True)
    assert broker.driver.counters["clients_expired"] == 1


async def test_a_client_and_its_broker_are_renewed_while_it_stays_attached(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    """Certificates of seconds at both ends of the hop; nothing published over it is lost."""
    life = timedelta(seconds=4)
    folder, me = issue(Role.BROKER, life), issue(Role.CLIENT, life)
    (broker,) = await started(brokers, [folder])
    with trio.fail_after(DEADLINE_SECONDS):
        async with (
            connect(url(broker), identity=me, reattach=False) as client,
            client.subscribe("a", link_class=SECURE) as events,
        ):
            begun, number = trio.current_time(), 0
            while (now := trio.current_time()) < begun + 1.5 * life.total_seconds():
                if now > begun + number * 1.0:
                    for who in (folder, me):
                        renew_identity(authority, who, lifetime=life)
                    number += 1
                await client.publish("a", link_class=SECURE, confirm=True)
                await anext(events)
                await trio.sleep(0.02)
    assert broker.driver.counters["clients_expired"] == 0


async def test_a_client_leaves_a_broker_whose_certificate_ends(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one that goes on as if nothing were the matter."""
    monkeypatch.setattr("ges.broker.identity_watch.IdentityWatch.look", lambda watch: None)
    (broker,) = await started(brokers, [issue(Role.BROKER, timedelta(seconds=3))])
    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionLost):
        await hold(url(broker), issue(Role.CLIENT))


async def test_a_folder_changed_into_something_unusable_is_not_taken_up(
    brokers: Brokers, issue: Issue
) -> None:
    folders = [issue(Role.BROKER), issue(Role.BROKER)]
    ring = await started(brokers, folders)
    before = serials(ring)
    other = issue(Role.BROKER)
    for name in ("identity.crt", "identity.key"):
        (folders[0] / name).write_bytes((other / name).read_bytes())
    (folders[1] / "identity.crt").write_bytes(b"rubbish")
    # Looked at, and looked at again: a second look is what tells a change from its middle.
    await until(lambda: all(watch_of(broker).has_complained for broker in ring))
    assert serials(ring) == before
    assert all(len(secure_uids(broker)) == 1 for broker in ring)
