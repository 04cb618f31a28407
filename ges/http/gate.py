"""Whom the admin server lets in.

Three things are looked at. A page of another site must not read what a browser here can reach: so
the name under which the server was called (``Host``) must be an address, or a name of its own, as
otherwise another site could give its own name this server's address. A browser says of which site a
request is, and those of others are refused. And where there is a token, a request must show it: in
``Authorization: Bearer``, or, once, in the page's URL, which gives the browser a cookie in its
place. A certificate that the server has verified does as well.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from ges.http.answers import Reply, Request, refused

COOKIE = "chordal_admin"
#: Paths that say no more than whether the broker works, to whatever restarts it.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_METHODS = ("GET", "HEAD")
_FROM_ELSEWHERE = ("cross-site", "same-site")


class Gate:
    """Judges requests; ``secret`` is drawn by the process and makes its cookies."""

    def __init__(
        self,
        names: Collection[str],
        token: str | None,
        secret: bytes,
        *,
        wants_certificate: bool = False,
    ) -> None:
        """``names``: of hosts under which the server may be called, beside addresses."""
        self._names = frozenset(name.rstrip(".").lower() for name in names) | {"localhost"}
        self._token = token
        self._wants_certificate = wants_certificate
        self._pass = "" if token is None else _mac(secret, token)

    @property
    def is_guarded(self) -> bool:
        """Whether something must be shown here."""
        return self._token is not None or self._wants_certificate

    def judge(self, request: Request) -> Reply | None:
        """Return why a request is not let in, or that it has to come again; None: it is let in."""
        headers = request.headers
        if request.method not in _METHODS:
            return refused(405, "this server is only read from", ("allow", ", ".join(_METHODS)))
        if self._shows_token(request):  # no page of another site can do that
            return None
        if not self._is_own_name(headers.get("host", "")):
            return refused(421, "call this server by its address, or by the name it listens on")
        is_visit = headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in _FROM_ELSEWHERE and not is_visit:
            return refused(403, "pages of other sites may not read from this server")
        is_open = not self.is_guarded or request.path in OPEN_PATHS
        if is_open or request.is_certified or self._shows_pass(request):
            return None
        if self._token is None:
            return refused(401, "show a certificate of an authority in client-ca.crt")
        if request.path == "/" and _same(request.query.get("token", ""), self._token):
            cookie = f"{COOKIE}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
            return Reply(303, headers=(("location", "/"), ("set-cookie", cookie)))
        return refused(
            401,
            "show the token of --admin-token-file: 'Authorization: Bearer TOKEN', "
            "or, in a browser, /?token=TOKEN",
            ("www-authenticate", 'Bearer realm="chordal"'),
        )

    def _shows_token(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        return (
            self._token is not None
            and scheme.lower() == "bearer"
            and _same(shown.strip(), self._token)
        )

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


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def _mac(secret: bytes, token: str) -> str:
    return hmac.new(secret, token.encode(), hashlib.sha256).hexdigest()
