"""Lists of revoked identities at one broker: believed, passed on, refused, and how often."""

from __future__ import annotations

from pathlib import Path

from ges.topology.revocation_lists import UNCHECKED_KEPT, Outcome, RevocationLists
from ges.wire.broker_messages import RevocationNotice
from overlay.authority.authority import Authority
from overlay.authority.revoking import revoke_uid
from overlay.ids import nanos
from overlay.security.identity import Role, load_identity
from overlay.security.revocation import Revocations
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
