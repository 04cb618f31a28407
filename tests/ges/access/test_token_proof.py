"""What proves that a client has a token, and what does not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ges.access.token_file import issue_token, load_book
from ges.access.token_proof import (
    Exchange,
    broker_proof,
    client_proof,
    is_from_a_broker,
    split_token,
    verify,
)
from ges.access.tokens import TokenBook, parse_book

NOW = 1_800_000_000
EXCHANGE = Exchange("chordal", "line-1", "c" * 32, "b" * 32, b"1" * 32, b"2" * 32)

#: A book as versions before the proof wrote it, and its token.
OLD_TOKEN = "line-1." + "A" * 43
OLD_BOOK = """{"tokens": [{"name": "line-1", "issued_unix_s": 0, "expires_unix_s": null,
 "sha256": "d41f7a6b8ac0d4d1c9a3b0ea29cbd1d5a1a5ec5ea33d9d3e5b1b2f5f2d0d7c3a"}]}"""


@pytest.fixture
def token(tmp_path: Path) -> str:
    return issue_token(tmp_path / "tokens.json", "line-1", NOW, 60)


@pytest.fixture
def book(tmp_path: Path, token: str) -> TokenBook:
    return load_book(tmp_path / "tokens.json")


def proof_of(token: str, exchange: Exchange = EXCHANGE) -> bytes:
    return client_proof(split_token(token)[1], exchange)


def test_the_proof_is_good_until_the_token_expires(book: TokenBook, token: str) -> None:
    found = verify(book, EXCHANGE, proof_of(token), NOW + 59.9)
    assert found is not None
    assert found.name == "line-1"
    assert verify(book, EXCHANGE, proof_of(token), NOW + 60) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"overlay": "other"},
        {"name": "line-2"},
        {"client": "d" * 32},
        {"broker": "d" * 32},
        {"client_nonce": b"3" * 32},
        {"broker_nonce": b"3" * 32},
        {"overlay": "chordal" + "line-1", "name": ""},
        {"client_nonce": b"1" * 31, "broker_nonce": b"1" + b"2" * 32},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_a_proof_is_good_for_one_exchange_alone(
    book: TokenBook, token: str, changes: dict[str, Any]
) -> None:
    """So it is of no use to who has seen it, at this broker or another."""
    other = replace(EXCHANGE, **changes)
    assert verify(book, other, proof_of(token), NOW) is None
    assert proof_of(token, other) != proof_of(token)


def test_wrong_proofs(book: TokenBook, token: str, tmp_path: Path) -> None:
    stranger = issue_token(tmp_path / "other", "line-1", NOW, None)
    (record,) = book.records
    right = proof_of(token)
    wrong = [
        proof_of(stranger),
        b"",
        right[:-1],
        bytes([right[0] ^ 1]) + right[1:],
        split_token(token)[1].encode(),
        bytes.fromhex(record.sha256),
        client_proof(record.sha256, EXCHANGE),
        broker_proof(record.sha256, EXCHANGE),
    ]
    assert [proof for proof in wrong if verify(book, EXCHANGE, proof, NOW)] == []


def test_neither_the_proof_nor_the_book_has_the_token_in_it(book: TokenBook, token: str) -> None:
    secret = split_token(token)[1].encode()
    said = proof_of(token) + broker_proof(book.records[0].sha256, EXCHANGE)
    assert secret not in book.encode()
    assert not any(secret[at : at + 6] in said for at in range(len(secret) - 6))


def test_a_broker_proves_that_its_book_has_the_token(book: TokenBook, token: str) -> None:
    secret = split_token(token)[1]
    (record,) = book.records
    right = broker_proof(record.sha256, EXCHANGE)
    assert is_from_a_broker(right, secret, EXCHANGE)
    other = replace(EXCHANGE, broker_nonce=b"3" * 32)
    for wrong in (None, b"", proof_of(token), broker_proof(record.sha256, other)):
        assert not is_from_a_broker(wrong, secret, EXCHANGE)


def test_books_of_earlier_versions_are_good() -> None:
    """They have the hash of the secret, which is what it takes."""
    from hashlib import sha256

    digest = sha256(OLD_TOKEN.rpartition(".")[2].encode()).hexdigest()
    text = re.sub(r'"sha256": "[0-9a-f]*"', f'"sha256": "{digest}"', OLD_BOOK)
    book = parse_book(text.encode(), "old")
    assert verify(book, EXCHANGE, proof_of(OLD_TOKEN), NOW) is not None
