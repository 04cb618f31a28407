"""Whom the admin server lets in.

Three things are looked at. A page of another site must not read what a browser here can reach: so
the name under which the server was called (``Host``) must be an address, or a name of its own, as
otherwise another site could give its own name this server's address. A browser says of which site a
request is, and those of others are refused. And where there is a token, a request must show it: in
``Authorization: Bearer``, or, once, in the page's URL, which gives the browser a cookie in its
place. A certificate that the server has verified does as well. An address that has shown some wrong
tokens has to wait before it shows the next.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from ges.http.answers import Reply, Request, refused
from ges.http.guesses import Guesses
from overlay.ids import Nanos

COOKIE = "chordal_admin"
#: Paths that say no more than whether the broker works, to whatever restarts it.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
BRAKED = 429
_METHODS = ("GET", "HEAD")
_FROM_ELSEWHERE = ("cross-site", "same-site")


_SHOW_TOKEN = refused(
    401,
    "show the token of --admin-token-file: 'Authorization: Bearer TOKEN', "
    "or, in a browser, /?token=TOKEN",
    ("www-authenticate", 'Bearer realm="chordal"'),
)


class Noting(Protocol):
    """Takes note of a token that did not let somebody in."""

    def __call__(self, host: str, *, is_looked_at: bool) -> None:
        """``is_looked_at``: it is wrong; else nobody knows, as the address had shown too many."""


def _nothing(host: str, *, is_looked_at: bool) -> None:
    """Take no note."""


class Gate:
    """Judges requests; ``secret`` is drawn by the process and makes its cookies."""

    def __init__(
        self,
        names: Collection[str],
        token: str | None,
        secret: bytes,
        *,
        wants_certificate: bool = False,
        note: Noting = _nothing,
    ) -> None:
        """Take what is asked for.

        Args:
            names: of hosts under which the server may be called, beside addresses.
            token: that a request must show; None: there is none.
            secret: see above.
            wants_certificate: who shows a certificate that counts needs no token.
            note: told of each wrong token.
        """
        self._names = frozenset(name.rstrip(".").lower() for name in names) | {"localhost"}
        self._token = token
        self._wants_certificate = wants_certificate
        self._pass = "" if token is None else _mac(secret, token)
        self._guesses = Guesses()
        self._note = note

    @property
    def is_guarded(self) -> bool:
        """Whether something must be shown here."""
        return self._token is not None or self._wants_certificate

    def judge(self, request: Request, now: Nanos) -> Reply | None:
        """Return why a request is not let in, or that it has to come again; None: it is let in.

        Of an address that has shown too many wrong tokens none is looked at for a while.
        """
        headers = request.headers
        if request.method not in _METHODS:
            return refused(405, "this server is only read from", ("allow", ", ".join(_METHODS)))
        needs_token = not (request.is_certified or self._shows_pass(request))
        if (shown := _bearer(request)) is not None:
            judged = self._try(shown, request, now)
            if judged is None:  # no page of another site can do that
                return None
            if judged.status == BRAKED and needs_token:
                return judged
        if not self._is_own_name(headers.get("host", "")):
            return refused(421, "call this server by its address, or by the name it listens on")
        is_visit = headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in _FROM_ELSEWHERE and not is_visit:
            return refused(403, "pages of other sites may not read from this server")
        is_open = not self.is_guarded or request.path in OPEN_PATHS
        if is_open or not needs_token:
            return None
        if self._token is None:
            return refused(401, "show a certificate of an authority in client-ca.crt")
        if request.path == "/" and (shown := request.query.get("token")) is not None:
            judged = self._try(shown, request, now)
            if judged is not None:
                return judged
            cookie = f"{COOKIE}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
            return Reply(303, headers=(("location", "/"), ("set-cookie", cookie)))
        return _SHOW_TOKEN

    def _try(self, shown: str, request: Request, now: Nanos) -> Reply | None:
        """Return why a token that is shown does not do; None: it does."""
        if self._token is None:
            return _SHOW_TOKEN
        host = request.client[0] if request.client is not None else ""
        if seconds := self._guesses.wait_seconds(host, now):
            self._note(host, is_looked_at=False)
            words = f"too many wrong tokens from this address; try again in {seconds} s"
            return refused(BRAKED, words, ("retry-after", str(seconds)))
        if _same(shown, self._token):
            return None
        self._guesses.missed(host, now)
        self._note(host, is_looked_at=True)
        return _SHOW_TOKEN

    def _shows_pass(self, request: Request) -> bool:
        if self._token is None:
            return False
        cookies = request.headers.get("cookie", "").split(";")
        pairs = (cookie.strip().partition("=") for cookie in cookies)
        return any(name == COOKIE and _same(value, self._pass) for name, _, value in pairs)

    def _is_own_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        name = name.rstrip(".").lower()
        return name in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _bearer(request: Request) -> str | None:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else None


def _same(one: str, other: str) -> bool:
    """Say whether two texts are the same, in a time that depends on neither, nor on its length."""
    digests = (hashlib.sha256(text.encode(errors="replace")).digest() for text in (one, other))
    return hmac.compare_digest(*digests)


def _mac(secret: bytes, token: str) -> str:
    return hmac.new(secret, token.encode(), hashlib.sha256).hexdigest()
