"""The tokens in force while their file changes behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ges.access.admission import Admission, Admitted, Rejection
from ges.access.token_file import issue_token, revoke_token
from ges.access.tokens import TokenRecord
from ges.errors import TokenError

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


def record_of(admission: Admission, token: str) -> TokenRecord:
    """Return the record of a token that is let in."""
    found = admission.admit(token, None, exposed=False)
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
    assert isinstance(admission.admit(token, None, exposed=False), Rejection)
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
