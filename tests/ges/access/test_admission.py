"""The tokens in force while their file changes behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ges.access.admission import Admission, Admitted, Rejection
from ges.access.token_file import issue_token, revoke_token
from ges.access.token_proof import Exchange, client_proof, split_token
from ges.access.tokens import TokenRecord
from ges.errors import TokenError
from overlay.ids import Uid
from overlay.security.identity import PeerIdentity, Role

NOW = 1_000_000


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def token(book: Path) -> str:
    return issue_token(book, "line-1", NOW, None)


@pytest.fixture
def admission(book: Path, token: str) -> Admission:
    return Admission(None, book, lambda: NOW)


def prove(admission: Admission, token: str) -> Admitted | Rejection:
    name, secret = split_token(token)
    exchange = Exchange("chordal", name, "c" * 32, "b" * 32, b"1" * 32, b"2" * 32)
    proven = exchange, client_proof(secret, exchange)
    return admission.admit(None, None, exposed=False, proven=proven)


def record_of(admission: Admission, token: str) -> TokenRecord:
    """Return the record of a token that is let in."""
    found = prove(admission, token)
    assert isinstance(found, Admitted)
    assert found.record is not None
    return found.record


def test_a_new_token_of_the_same_name_ends_the_old_one(
    admission: Admission, book: Path, token: str
) -> None:
    """Also where the file is looked at only when both are done."""
    record = record_of(admission, token)
    revoke_token(book, "line-1")
    new = issue_token(book, "line-1", NOW, None)
    assert admission.read_tokens_again()
    assert not admission.is_good(record)
    assert isinstance(prove(admission, token), Rejection)
    assert admission.is_good(record_of(admission, new))


def test_a_book_that_has_become_wrong_leaves_the_tokens_in_force(
    admission: Admission, book: Path, token: str
) -> None:
    record = record_of(admission, token)
    book.write_text("{")
    with pytest.raises(TokenError, match="no book of tokens"):
        admission.read_tokens_again()
    assert admission.is_good(record)
    assert record_of(admission, token) == record
    assert not admission.read_tokens_again(), "a wrong file is reported once"


def test_a_token_that_is_sent_is_taken_over_tls_alone(admission: Admission, token: str) -> None:
    """As by clients of earlier versions; who is at the other end of a plain connection?"""
    identity = PeerIdentity(Uid("c" * 32), Role.CLIENT)
    found = admission.admit(token, identity, exposed=False)
    assert isinstance(found, Admitted)
    assert found.principal.token == "line-1"
    plain = admission.admit(token, None, exposed=False)
    assert isinstance(plain, Rejection)
    assert "update the client's library" in plain.reason
    assert token not in plain.reason
