"""A list of revoked identities, handed to one broker: what it ends, everywhere, and for good."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers, secure_uids
from benchmarks.stage.waiting import until
from ges.broker import Broker, BrokerConfig
from ges.client import connect
from ges.errors import ConnectionLost, SpreadRefused
from ges.wire.asked import Ask
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import RevocationTaken, Subscribe
from overlay.address import parse_url
from overlay.authority.authority import Authority, create_authority, issue_identity
from overlay.authority.revoking import revoke_certificate, revoke_uid
from overlay.errors import IdentityError
from overlay.ids import LinkClass
from overlay.net.transport import TcpTransport
from overlay.security.identity import Role, load_identity
from overlay.security.keyfiles import REVOKED
from overlay.security.revocation import RevocationList
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello
from tests.ges.conftest import DAY, Issue
from tests.ges.sessions.test_clients import Raw
from tests.ges.whole.test_renewal import started, url
from tests.helpers.secured import is_meshed, unreached

SECURE = LinkClass.SECURE
DEADLINE_SECONDS = 30


async def spread(revoked: RevocationList, at: str, identity: Path | None = None) -> None:
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(at, identity=identity, reattach=False) as client:
            await client.spread(revoked)


def numbers(ring: list[Broker]) -> list[int]:
    found = (broker.status().identity for broker in ring)
    return [identity.revocations for identity in found if identity is not None]


def bit_of(broker: Broker, here: Broker) -> int:
    """Return a broker as another one names it, as a mask."""
    return 1 << here.node.gateways.slots[broker.node.peer.uid]


async def test_a_revoked_broker_is_cut_off_by_all_at_once(
    brokers: Brokers, issue: Issue, authority: Authority, tmp_path: Path
) -> None:
    """Its links go down, others stay up, secure events flow on among those that are left."""
    folders = [issue(Role.BROKER) for _ in range(4)]
    ring = await started(brokers, folders)
    gone, others = ring[3], ring[:3]
    me = issue(Role.CLIENT)
    revoked = revoke_uid(authority, load_identity(folders[3]).uid)
    await spread(revoked, ring[0].url)
    await until(lambda: numbers(ring) == [1, 1, 1, 1])
    assert secure_uids(gone) == set()
    assert all(gone.node.peer.uid not in secure_uids(broker) for broker in others)
    await until(lambda: all(unreached(each) == bit_of(gone, each) for each in others))
    async with (
        connect(url(others[0]), identity=me) as publisher,
        connect(url(others[2]), identity=me) as reader,
        reader.subscribe("a") as events,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await publisher.publish("a", b"x", link_class=SECURE, confirm=True)
            assert (await anext(events)).payload == b"x"
        with pytest.raises(ConnectionLost):
            async with connect(url(gone), identity=me, timeout=0.5, reattach=False):
                pass
    assert secure_uids(gone) == set()


async def test_a_revoked_client_is_detached_and_not_let_in_again(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    me, other = issue(Role.CLIENT), issue(Role.CLIENT)

    async def revoked_meanwhile() -> None:
        async with connect(url(ring[1]), identity=me, reattach=False):
            await spread(revoke_certificate(authority, me), url(ring[0]), other)
            await trio.sleep_forever()

    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(url(ring[1]), identity=other, reattach=False) as stays:
            with pytest.raises(ConnectionLost):
                await revoked_meanwhile()
            with pytest.raises(ConnectionLost):
                async with connect(url(ring[0]), identity=me, timeout=0.5):
                    pass
            await stays.publish("a", b"x", link_class=SECURE, confirm=True)
    assert ring[1].driver.counters["clients_revoked"] == 1


@pytest.mark.parametrize("who", ["client", "broker"])
async def test_who_is_cut_off_by_the_list_it_hands_in_is_told_that_it_was_taken(
    brokers: Brokers, issue: Issue, authority: Authority, who: str
) -> None:
    """Its own identity is on the list, or that of the broker it is attached to."""
    folders, me = [issue(Role.BROKER), issue(Role.BROKER)], issue(Role.CLIENT)
    ring = await started(brokers, folders)
    own = revoke_certificate(authority, me if who == "client" else folders[0])
    await spread(own, url(ring[0]), me)
    await until(lambda: numbers(ring) == [1, 1])
    assert ring[0].driver.counters["clients_revoked"] == 1
    with pytest.raises(ConnectionLost):
        async with connect(url(ring[0]), identity=me, timeout=0.5):
            pass


async def test_the_answer_is_the_last_that_it_is_sent_and_then_it_is_cut_off(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    """Whether it closes or not."""
    me = issue(Role.CLIENT)
    broker = await brokers.start(identity=issue(Role.BROKER))
    identity = load_identity(me)
    wire = await TcpTransport(identity).connect(parse_url(url(broker)))
    hello = Hello("chordal", PROTOCOL_VERSION, identity.uid, 1, None, SECURE, None, 0)
    revoked = revoke_certificate(authority, me)
    async with wire.stream:
        await wire.stream.send_all(GREETINGS.encode(hello))
        client = Raw(wire.stream)
        await client.say(Subscribe(1, Ask("a")), RevocationNotice(revoked.crl, b""))
        while not isinstance(answer := await client.hear(), RevocationTaken):
            assert answer is not None
        assert answer == RevocationTaken(None)
        assert broker.clients.size == 0
        async with connect(url(broker), identity=issue(Role.CLIENT)) as other:
            await other.publish("a", b"x", link_class=SECURE, confirm=True)
        assert await client.hear() is None


async def test_a_client_does_not_go_to_a_broker_it_knows_to_be_revoked(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    """Whoever has the broker's key can still serve with it; its list comes from other brokers."""
    folders = [issue(Role.BROKER), issue(Role.BROKER)]
    ring = await started(brokers, folders)
    me = issue(Role.CLIENT)
    revoked = revoke_uid(authority, load_identity(folders[1]).uid)
    thief = issue(Role.BROKER)
    for name in ("identity.crt", "identity.key"):
        (thief / name).write_bytes((folders[1] / name).read_bytes())
    await spread(revoked, ring[0].url)
    await until(lambda: numbers(ring) == [1, 1])
    brokers.kill(ring[1])
    posing = await brokers.start(identity=thief, seeds=())
    (me / REVOKED).write_bytes(revoked.pem)
    with pytest.raises(ConnectionLost, match="revoked"):
        async with connect(url(posing), identity=me, timeout=0.5):
            pass


@pytest.mark.parametrize("is_attached", [True, False])
async def test_a_client_remembers_what_its_broker_told_it_of_others(
    brokers: Brokers, issue: Issue, authority: Authority, *, is_attached: bool
) -> None:
    """It is told as the list comes, or as it attaches later; its folder does not have it."""
    folders, me = [issue(Role.BROKER), issue(Role.BROKER)], issue(Role.CLIENT)
    told = await brokers.start(identity=folders[0])
    posing = Broker(BrokerConfig(port=0, profile="local", identity=folders[1]))
    async with trio.open_nursery() as nursery:
        await nursery.start(posing.run)  # alone, and so without the list

        async def use_both() -> None:
            revoked = revoke_certificate(authority, folders[1])
            if not is_attached:
                await spread(revoked, told.url)
            both = f"{url(told)},{url(posing)}"
            async with connect(both, identity=me, timeout=1) as client:
                if is_attached:
                    await spread(revoked, told.url)
                await client.publish("a", b"", confirm=True)
                brokers.kill(told)
                await trio.sleep_forever()

        with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionLost, match="is revoked"):
            await use_both()
        nursery.cancel_scope.cancel()


async def test_a_client_leaves_its_broker_when_it_hears_that_it_is_revoked(
    brokers: Brokers, issue: Issue, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ges.broker.certified_peers.CertifiedPeers.cut", lambda peers, is_over, reason: None
    )
    folder = issue(Role.BROKER)
    broker = await brokers.start(identity=folder)

    async def use() -> None:
        async with connect(url(broker), identity=issue(Role.CLIENT), reattach=False):
            await spread(revoke_certificate(authority, folder), broker.url)
            await trio.sleep_forever()

    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionLost):
        await use()


async def test_a_list_passes_through_brokers_that_cannot_check_it(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    """One broker with an identity, plain ones around it, and another that joins by them later."""
    first = await brokers.start(identity=issue(Role.BROKER), look_seconds=0.1)
    plain = [await brokers.start() for _ in range(2)]
    await brokers.whole()
    newcomer = issue(Role.BROKER)  # before: its folder is without the list
    revoked = revoke_certificate(authority, issue(Role.CLIENT))
    await spread(revoked, first.url)
    await until(lambda: all(len(broker.node.revocation_lists.known) == 1 for broker in plain))
    late = await brokers.start(identity=newcomer, seeds=brokers.seeds(plain[1]))
    await until(lambda: numbers([first, late]) == [1, 1])


@pytest.mark.parametrize("has_data", [True, False])
async def test_a_list_is_kept_over_a_restart_and_an_old_one_does_not_come_back(
    issue: Issue, authority: Authority, tmp_path: Path, *, has_data: bool
) -> None:
    """Without a folder of data it is kept in the identity's, or who is revoked would be let in."""
    folder, home = issue(Role.BROKER), tmp_path / "home" if has_data else None
    old = revoke_certificate(authority, issue(Role.CLIENT))
    new = revoke_certificate(authority, issue(Role.CLIENT))
    assert (old.number, new.number) == (1, 2)
    config = BrokerConfig(port=0, profile="local", identity=folder, directory=home)
    for lists in ((new, old), (old,)):
        broker = Broker(config)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            for revoked in lists:
                await spread(revoked, broker.url)
            assert numbers([broker]) == [2]
            assert broker.status().identity.revoked == 2  # type: ignore[union-attr]
            nursery.cancel_scope.cancel()


async def test_a_list_dropped_into_the_identitys_folder_is_taken_up(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    folders = [issue(Role.BROKER) for _ in range(3)]
    ring = await started(brokers, folders)
    revoked = revoke_certificate(authority, folders[2])
    (folders[0] / REVOKED).write_bytes(revoked.pem)
    await until(lambda: numbers(ring) == [1, 1, 1])
    assert secure_uids(ring[2]) == set()


@pytest.mark.parametrize("where", ["identity", "data"])
def test_a_broker_with_a_damaged_list_does_not_start(
    where: str, issue: Issue, tmp_path: Path
) -> None:
    """It would let those in that are on it."""
    folder = issue(Role.BROKER)
    data = tmp_path / "data"
    data.mkdir()
    ((folder if where == "identity" else data) / REVOKED).write_text("no list")
    with pytest.raises(IdentityError, match=f"{REVOKED}: not a PEM list"):
        Broker(BrokerConfig(port=0, identity=folder, directory=data))


async def test_a_foreign_list_is_refused_and_goes_nowhere(
    brokers: Brokers, issue: Issue, tmp_path: Path
) -> None:
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    foreign = create_authority(tmp_path / "foreign", name="test", lifetime=10 * DAY)
    victim = load_identity(ring[1].config.identity or tmp_path).uid
    issue_identity(
        foreign, tmp_path / "same", role=Role.BROKER, uid=victim, lifetime=timedelta(days=1)
    )
    forged = revoke_uid(foreign, victim)
    with pytest.raises(SpreadRefused, match="not from this authority"):
        await spread(forged, ring[0].url)
    assert numbers(ring) == [0, 0]
    assert is_meshed(ring)


async def test_a_broker_without_identity_says_that_it_cannot_check(
    brokers: Brokers, issue: Issue, authority: Authority
) -> None:
    broker = await brokers.start()
    with pytest.raises(SpreadRefused, match="no identity"):
        await spread(revoke_certificate(authority, issue(Role.CLIENT)), broker.url)
