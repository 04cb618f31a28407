"""Tokens and their files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from ges.access.token_file import (
    MAX_BOOK_BYTES,
    issue_token,
    load_book,
    load_token,
    revoke_token,
    write_token,
)
from ges.access.tokens import TokenBook, parse_book
from ges.errors import TokenError

NOW = 1_800_000_000


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_a_token_is_known_until_it_expires(book: Path) -> None:
    token = issue_token(book, "line-1", NOW, 60)
    found = load_book(book).identify(token, NOW + 59.9)
    assert found is not None
    assert found.name == "line-1"
    assert load_book(book).identify(token, NOW + 60) is None
    forever = issue_token(book, "line-2", NOW, None)
    assert load_book(book).identify(forever, 2**40) is not None


def test_a_token_revoked_is_not_known_and_one_of_the_same_name_is_another(book: Path) -> None:
    old = issue_token(book, "line-1", NOW, None)
    revoke_token(book, "line-1")
    assert load_book(book).identify(old, NOW) is None
    new = issue_token(book, "line-1", NOW, None)
    assert load_book(book).identify(old, NOW) is None
    assert load_book(book).identify(new, NOW) is not None


def test_what_is_no_token_of_the_book(book: Path) -> None:
    token = issue_token(book, "line.1", NOW, None)
    known = load_book(book)
    other = issue_token(book.parent / "other", "line.1", NOW, None)
    wrong = [
        other,
        token[:-1],
        token + "a",
        token.upper(),
        "",
        ".",
        "line.1",
        "line.1.",
        "x." + 43 * "a",
    ]
    assert [text for text in wrong if known.identify(text, NOW)] == []
    assert known.identify(token, NOW) is not None


def test_the_book_holds_no_token_and_only_its_owner_may_read_it(book: Path) -> None:
    os.umask(os.umask(0))
    token = issue_token(book, "line-1", NOW, None)
    secret = token.rpartition(".")[2]
    assert secret not in book.read_text()
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    issue_token(book, "line-2", NOW, None)
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    assert [path.name for path in book.parent.iterdir()] == ["tokens.json"], (
        "nothing is left behind"
    )


def test_the_book_is_replaced_whole(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue_token(book, "line-1", NOW, None)
    before = book.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TokenError, match="No space left"):
        issue_token(book, "line-2", NOW, None)
    assert book.read_bytes() == before
    assert [path.name for path in book.parent.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("name", ["", ".a", "a b", "a/b", "ä", "x" * 65, "a\n", "+"])
def test_what_cannot_name_a_token(book: Path, name: str) -> None:
    with pytest.raises(TokenError, match="cannot name a token"):
        issue_token(book, name, NOW, None)


def test_a_name_is_given_once(book: Path) -> None:
    issue_token(book, "line-1", NOW, None)
    with pytest.raises(TokenError, match="already"):
        issue_token(book, "line-1", NOW, None)
    with pytest.raises(TokenError, match="no token 'line-2'"):
        revoke_token(book, "line-2")


def record(**changes: object) -> dict[str, object]:
    return {"name": "a", "sha256": "0" * 64, "issued_unix_s": 0, "expires_unix_s": None, **changes}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        json.dumps({"tokens": [record(name="a b")]}),
        json.dumps({"tokens": [record(sha256="0")]}),
        json.dumps({"tokens": [record(expires_unix_s="soon")]}),
        json.dumps({"tokens": [record(secret="x")]}),
        json.dumps({"tokens": [record(), record()]}),
    ],
)
def test_what_is_no_book(content: str) -> None:
    with pytest.raises(TokenError, match=r"^tokens\.json: .*'chordal token issue'"):
        parse_book(content.encode(), "tokens.json")


def test_a_book_survives_its_file(book: Path) -> None:
    for number in range(3):
        issue_token(book, f"line-{number}", NOW, 60 * number or None)
    records = load_book(book).records
    assert [found.name for found in records] == ["line-0", "line-1", "line-2"]
    assert parse_book(TokenBook(records).encode(), "x").records == records


def test_files_open_to_others_are_not_used(book: Path, tmp_path: Path) -> None:
    token = issue_token(book, "line-1", NOW, None)
    book.chmod(0o620)
    with pytest.raises(TokenError, match="writable by group or others; chmod 600"):
        load_book(book)
    mine = tmp_path / "mine"
    write_token(mine, token)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    assert load_token(mine) == token
    mine.chmod(0o640)
    with pytest.raises(TokenError, match="open to group or others; chmod 600"):
        load_token(mine)
    with pytest.raises(TokenError, match="not overwritten"):
        write_token(mine, token)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff\xfe", b"a" * 10_000, b"line-1.aaaaaaaaaaaa", b"aaaa"]
)
def test_a_file_that_holds_no_token_is_named_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(TokenError, match=r"mine.*'chordal token issue'") as caught:
        load_token(path)
    assert "aaaa" not in str(caught.value)


def test_what_is_no_file_of_a_sane_size_is_not_read(book: Path, tmp_path: Path) -> None:
    book.touch(0o600)
    os.truncate(book, MAX_BOOK_BYTES + 1)  # it takes no room
    with pytest.raises(TokenError, match=rf"tokens\.json: larger than {MAX_BOOK_BYTES} bytes"):
        load_book(book)
    book.unlink()
    book.symlink_to("/dev/null")
    for load in (load_book, load_token):
        with pytest.raises(TokenError, match=r"tokens\.json: Not a regular file"):
            load(book)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match=r"mine: No such file.*'chordal token issue'"):
        load_token(tmp_path / "mine")
    with pytest.raises(TokenError, match="a folder that exists"):
        issue_token(tmp_path / "no" / "book", "a", NOW, None)
