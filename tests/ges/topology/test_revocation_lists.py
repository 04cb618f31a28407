"""Lists of revoked identities at one broker: believed, passed on, refused, and how often."""

from __future__ import annotations

from pathlib import Path

from ges.topology.secure_graph import SecureGraph

from ges.node import BrokerNode
from ges.topology.revocation_lists import UNCHECKED_KEPT, Outcome, RevocationLists
from ges.wire.broker_messages import RevocationNotice, SecureState
from overlay.authority.authority import Authority
from overlay.authority.revoking import revoke_uid
from overlay.ids import LinkClass, Peer, nanos
from overlay.machine import LinkUp, MessageReceived
from overlay.rng import rng_for
from overlay.security.identity import Role, load_identity
from overlay.security.revocation import Revocations
from ring.config import LAN
from ring.facts import Found
from tests.ges.conftest import Issue

SECOND = nanos(1)


def notice(number: int) -> RevocationNotice:
    return RevocationNotice(b"%d" % number, b"")


def signed(authority: Authority, folder: Path) -> RevocationNotice:
    made = revoke_uid(authority, load_identity(folder).uid)
    return RevocationNotice(made.crl, made.voucher)


def test_with_an_identity_only_the_newest_true_list_is_kept(
    authority: Authority, issue: Issue
) -> None:
    first, second = (signed(authority, issue(Role.CLIENT)) for _ in range(2))
    lists = RevocationLists(Revocations((authority.certificate,)), ())
    assert list(lists.known) == []
    assert lists.take(notice(1), 0) is Outcome.FALSE
    assert lists.take(second, 0) is Outcome.NEWS
    assert lists.take(first, 0) is Outcome.OLD
    assert lists.take(second, 0) is Outcome.OLD
    assert list(lists.known) == [second]


def test_without_one_a_few_lists_are_passed_on_and_seldom() -> None:
    lists = RevocationLists(None, ())
    for number in range(UNCHECKED_KEPT):
        assert lists.take(notice(number), 0) is Outcome.NEWS
        assert lists.take(notice(number), 0) is Outcome.OLD
    assert lists.take(notice(99), SECOND) is Outcome.TOO_MANY
    assert notice(99) not in lists.known
    for second in range(UNCHECKED_KEPT, 50):
        assert lists.take(notice(100 + second), second * SECOND) is Outcome.NEWS
        assert len(lists.known) == UNCHECKED_KEPT
    assert not lists.forbids("a" * 32)


def test_who_is_revoked_counts_no_more_in_the_graph_of_secure_links() -> None:
    """Whatever it says of itself, or others say of it: it is neither waited for nor gone by."""
    revoked: set[str] = set()
    a, b, c = (name * 32 for name in "abc")
    graph = SecureGraph(a, revoked.__contains__)
    for uid, linked in ((a, (b,)), (b, (a, c)), (c, (b,))):
        graph.learn(SecureState(uid, 1, 1, 0, linked, withdrawn=False, complete=uid != b))
    assert graph.out_of_reach() == ()
    assert not graph.is_complete
    revoked.add(b)
    graph.reckon()
    assert graph.is_complete
    assert [state.origin for state in graph.out_of_reach()] == [c]
    assert not graph.reaches_anybody()


def test_a_new_list_changes_at_once_who_is_reached(authority: Authority, issue: Issue) -> None:
    """Behind a broker that is revoked are some that it alone led to."""
    folder = issue(Role.BROKER)
    between, own, far = load_identity(folder).uid, "b" * 32, "d" * 32
    node = BrokerNode(
        LAN,
        Peer(own, 1, "chordal://b.test:1", secure=True),
        rng_for(1, "b"),
        Revocations((authority.certificate,)),
    )
    node.handle(Found(), 0)
    other = Peer(between, 1, "chordal://a.test:1", secure=True)
    for link_class in (LinkClass.NORMAL, LinkClass.SECURE):
        node.handle(LinkUp(other, other.url, link_class), 0)
    for uid, linked in ((between, (own, far)), (far, (between,))):
        told = SecureState(uid, 1, 1, 7, linked, withdrawn=False)
        node.handle(MessageReceived(between, told), 0)
    assert node.secure_graph.out_of_reach() == ()
    node.handle(MessageReceived(between, signed(authority, folder)), 0)
    assert [state.origin for state in node.secure_graph.out_of_reach()] == [far]
