"""Tokens: how a client without a certificate says who it is.

A token is ``NAME.SECRET``; the secret is 32 random bytes, so a plain SHA-256 of it in the broker's
book cannot be turned back by guessing, and no slow hash is needed. The book has names, hashes and
times of expiry, and no token. Files are :mod:`ges.access.token_file`'s.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from ges.errors import TokenError

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
MAX_TOKEN_CHARACTERS = 128
MAX_TOKENS = 65536
SECRET_BYTES = 32

_NAME = re.compile(NAME_PATTERN)
_TOKEN = re.compile(rf"({NAME_PATTERN})\.([A-Za-z0-9_-]{{43}})")
_NO_HASH = "0" * 64

UnixSeconds = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class TokenRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the book knows of one token."""

    name: Annotated[str, msgspec.Meta(pattern=rf"^{NAME_PATTERN}$")]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]  #: of the secret
    issued_unix_s: UnixSeconds
    expires_unix_s: UnixSeconds | None  #: None: never

    def is_expired(self, now_unix_s: float) -> bool:
        """Say whether it has ended by ``now_unix_s`` (seconds of unix time)."""
        return self.expires_unix_s is not None and now_unix_s >= self.expires_unix_s


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: Annotated[tuple[TokenRecord, ...], msgspec.Meta(max_length=MAX_TOKENS)]


class TokenBook:
    """The tokens of one file, by name."""

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[TokenRecord] = ()) -> None:
        self._records = {record.name: record for record in records}

    @property
    def records(self) -> tuple[TokenRecord, ...]:
        """All, in order of issue."""
        return tuple(self._records.values())

    def get(self, name: str) -> TokenRecord | None:
        """Return what is known of the token called ``name``."""
        return self._records.get(name)

    def identify(self, token: str, now_unix_s: float) -> TokenRecord | None:
        """Return the record of a token that is good at ``now_unix_s``, or None.

        A wrong name takes as long as a wrong secret.
        """
        match = _TOKEN.fullmatch(token)
        name, secret = (match[1], match[2]) if match else ("", "")
        record = self._records.get(name)
        is_right = hmac.compare_digest(
            secret_hash(secret), record.sha256 if record is not None else _NO_HASH
        )
        if record is None or not is_right or record.is_expired(now_unix_s):
            return None
        return record

    def with_token(self, record: TokenRecord) -> TokenBook:
        """Return this book and ``record``.

        Raises:
            TokenError: there is one of that name, or the book is full.
        """
        if record.name in self._records:
            raise TokenError(
                f"there is a token {record.name!r} already; revoke it first, or take another name"
            )
        if len(self._records) >= MAX_TOKENS:
            raise TokenError(f"the book has {MAX_TOKENS} tokens; revoke those that have expired")
        return TokenBook((*self.records, record))

    def without(self, name: str) -> TokenBook:
        """Return this book without the token called ``name``.

        Raises:
            TokenError: there is none.
        """
        if name not in self._records:
            raise TokenError(f"there is no token {name!r}")
        return TokenBook(record for record in self.records if record.name != name)

    def encode(self) -> bytes:
        """Return the content of its file."""
        return msgspec.json.format(msgspec.json.encode(_File(self.records)), indent=1) + b"\n"


def parse_book(data: bytes, source: str) -> TokenBook:
    """Read a book; ``source`` names it in errors.

    Raises:
        TokenError: it is none.
    """
    mend = "name another file; 'chordal token issue' makes one"
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TokenError(f"{source}: no book of tokens ({error}); {mend}") from error
    if len({record.name for record in file.tokens}) < len(file.tokens):
        raise TokenError(f"{source}: two tokens share a name; {mend}")
    return TokenBook(file.tokens)


def check_token_name(name: str) -> str:
    """Return ``name`` if a token can be called so.

    Raises:
        TokenError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise TokenError(
            f"{name!r} cannot name a token: 1 to 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return name


def check_token(text: str, source: str) -> str:
    """Return ``text`` if it has the form of a token; errors name ``source``, and never the text.

    Raises:
        TokenError: it has not.
    """
    if not _TOKEN.fullmatch(text):
        raise TokenError(f"{source} holds no token; make one with 'chordal token issue'")
    return text


def secret_hash(secret: str) -> str:
    """Return what the book keeps of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
