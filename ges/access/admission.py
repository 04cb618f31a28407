"""Who a client of this broker is, and what it may: the rules and the tokens in force now.

Both come from files. A file that is wrong as the broker starts keeps it from starting; one that has
become wrong later is reported, and what was in force stays so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ges.access.rules import (
    MAX_FILE_BYTES,
    NOBODY,
    AccessRules,
    Permissions,
    Principal,
    parse_access,
)
from ges.access.token_file import file_mark, load_book
from ges.access.token_proof import Exchange, verify
from ges.access.tokens import TokenRecord
from ges.errors import AccessError
from overlay.security.identity import PeerIdentity
from overlay.security.regular_file import read_regular

UNREAD = (-1, -1, -1)  #: the mark of no file


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that was let in."""

    principal: Principal
    record: TokenRecord | None  #: of its token
    permissions: Permissions | None  #: None: everything is allowed


@dataclass(frozen=True, slots=True)
class Rejection:
    """A client that was not, and why."""

    reason: str


class Admission:
    """Judges clients as they greet, and again when files have changed."""

    def __init__(
        self, access: Path | None, tokens: Path | None, unix_time: Callable[[], float]
    ) -> None:
        """Read the files.

        Raises:
            AccessError: the rules cannot be read, or are wrong.
            TokenError: the tokens cannot be read, or are wrong.
        """
        self._access_path = access
        self._tokens_path = tokens
        self._unix_time = unix_time
        self._rules: AccessRules | None = read_access(access) if access is not None else None
        self._mark: tuple[int, int, int] | None = file_mark(tokens) if tokens is not None else None
        self._book = load_book(tokens) if tokens is not None else None

    @property
    def knows_tokens(self) -> bool:
        """Whether clients are asked to prove the tokens that they name."""
        return self._book is not None

    def admit(
        self,
        token: str | None,
        identity: PeerIdentity | None,
        *,
        exposed: bool,
        proven: tuple[Exchange, bytes] | None = None,
    ) -> Admitted | Rejection:
        """Judge a client that greets.

        Args:
            token: as it was sent, by a client of an earlier version, which proves none; not looked
                at where this broker knows no tokens.
            identity: what its certificate says.
            exposed: others may have read the token on its way.
            proven: the token that it has named and the proof that it has it.
        """
        record = None
        if token is not None and exposed:
            return Rejection(
                "a token came over a plain connection from another host and must be held for "
                "stolen: revoke it, and attach over chordals://"
            )
        if token is not None and identity is None and self._book is not None:
            return Rejection(
                "a token is proven and not sent over a plain connection; update the client's "
                "library to this broker's version, or attach over chordals:// with an identity"
            )
        if self._book is not None and (token is not None or proven is not None):
            now = self._unix_time()
            record = (
                verify(self._book, *proven, now)
                if proven is not None
                else self._book.identify(token or "", now)
            )
            if record is None:
                return Rejection("the token is not known to this broker, or has expired")
        principal = NOBODY
        if identity is not None or record is not None:
            principal = Principal(
                identity.uid if identity is not None else None,
                identity.role if identity is not None else None,
                record.name if record is not None else None,
            )
        return Admitted(principal, record, self.permissions(principal))

    def admit_by_password(
        self, user: str | None, password: bytes | None, *, is_private: bool
    ) -> Admitted | Rejection:
        """Judge a client that shows a token as others show a user name and a password.

        The user name is the token's name, and the password its secret, or the whole token.
        ``is_private``: it came over TLS. Elsewhere it is refused, as another listener there would
        learn it: such a client proves nothing, it sends.
        """
        if self._book is None or (user is None and password is None):
            return Admitted(NOBODY, None, self.permissions(NOBODY))
        if not is_private:
            return Rejection(
                "a user name and a password are a token here, and one that is sent goes over TLS "
                "alone; start the broker with --mqtt-tls"
            )
        secret = (password or b"").decode(errors="replace")
        token = secret if not user or secret.startswith(f"{user}.") else f"{user}.{secret}"
        record = self._book.identify(token, self._unix_time())
        if record is None:
            return Rejection("the token is not known to this broker, or has expired")
        principal = Principal(None, None, record.name)
        return Admitted(principal, record, self.permissions(principal))

    def admits_broker(self, host: str | None) -> bool:
        """Say whether a broker at that IP address may link to this one; None: it has none."""
        return self._rules is None or host is None or self._rules.admits_broker(host)

    def permissions(self, principal: Principal) -> Permissions | None:
        """Return what ``principal`` may do by the rules in force; None: everything."""
        return self._rules.permissions(principal) if self._rules is not None else None

    def is_good(self, record: TokenRecord) -> bool:
        """Say whether a token that was good still is."""
        return (
            self._book is not None
            and self._book.get(record.name) == record
            and not record.is_expired(self._unix_time())
        )

    def look_at(self, access: Path | None, tokens: Path | None) -> None:
        """Read these files from now on; what is in force stays so until they are read."""
        if tokens != self._tokens_path:
            self._tokens_path, self._mark = tokens, UNREAD
        self._access_path = access

    def read_rules_again(self) -> bool:
        """Put the present content of the rule file in force; False: there is and was none.

        Raises:
            AccessError: it is wrong; the earlier rules stay in force.
        """
        had_rules = self._rules is not None
        self._rules = read_access(self._access_path) if self._access_path is not None else None
        return had_rules or self._rules is not None

    def read_tokens_again(self) -> bool:
        """Put the present tokens in force if their file has changed, and say whether it has.

        Raises:
            TokenError: it is wrong; the earlier tokens stay in force.
        """
        path = self._tokens_path
        mark = file_mark(path) if path is not None else None
        if mark == self._mark:
            return False
        self._mark = mark  # a wrong file is reported once
        self._book = load_book(path) if path is not None else None
        return True


def read_access(path: Path) -> AccessRules:
    """Read a file of rules.

    Raises:
        AccessError: it cannot be read, is no regular file, too large, or wrong.
    """
    try:
        data, _ = read_regular(path, MAX_FILE_BYTES)
        return parse_access(data.decode(), str(path))
    except OSError as error:
        mend = "--access wants a file of rules, see docs/access.md"
        raise AccessError(f"{path}: {error.strerror or error}; {mend}") from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{path}: no text in UTF-8 ({error.reason})") from error
