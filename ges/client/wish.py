"""What a client is asked for: to whom it is to be attached, and how it calls itself there."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ges.access.tokens import check_token
from overlay.address import Address, is_loopback, parse_urls
from overlay.errors import ConfigError
from overlay.ids import SECRET_BYTES, uid_of
from overlay.security.identity import Identity, load_identity
from overlay.wire.greetings import check_overlay

TOKEN_EXPOSED = (
    "a token is not sent over a plain connection to another host: anybody on the way could take "
    "it; write chordals:// and give an identity"
)

log = logging.getLogger("ges.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """To whom a client wants to be attached, and how it calls itself."""

    addresses: tuple[Address, ...]
    identity: Identity | None
    overlay: str
    uid: str
    incarnation: int
    timeout: float  #: infinite: for ever
    reattach: bool
    on_waiting: Callable[[str], None] = (
        log.warning
    )  #: told once a search for whom it waits, and why
    token: str | None = field(default=None, repr=False)
    secret: bytes | None = field(default=None, repr=False)  #: proves the uid, as a certificate may
    only_looks: bool = False  #: it asks for the status, and no more


def check_wish(
    urls: Sequence[str],
    identity: str | Path | None,
    *,
    overlay: str,
    token: str | None,
    timeout: float,
    reattach: bool,
    on_waiting: Callable[[str], None] | None = None,
    only_looks: bool = False,
) -> Wish:
    """Return the wish that these arguments say; see :func:`ges.client.connect`.

    Raises:
        ConfigError: a URL is none, some are chordals:// and some are not, the identity cannot be
            used, ``timeout`` is no time, or a token would go over a plain connection to another
            host.
    """
    if not timeout >= 0:
        raise ConfigError(f"timeout={timeout}: give seconds, or math.inf to wait for ever")
    addresses = parse_urls(list(urls))
    if not addresses:
        raise ConfigError("no broker URL given; write chordal://HOST:PORT")
    if len({address.tls for address in addresses}) > 1:
        raise ConfigError(
            "write all URLs with chordals://, or none: a client is secure or it is not"
        )
    if token is not None:
        check_token(token, "the argument token")
        for address in addresses:
            if not address.tls and not is_loopback(address.host):
                raise ConfigError(f"{address.url}: {TOKEN_EXPOSED}")
    own = load_identity(Path(identity)) if identity is not None else None
    if own is None and any(address.tls for address in addresses):
        raise ConfigError("chordals:// needs an identity; give the folder of one")
    secret: bytes | None = None
    if own is not None and addresses[0].tls:
        uid = own.uid
    else:  # the broker sees no certificate
        secret = secrets.token_bytes(SECRET_BYTES)
        uid = uid_of(secret)
    return Wish(
        addresses=tuple(addresses),
        identity=own,
        overlay=check_overlay(overlay),
        uid=uid,
        incarnation=time.time_ns(),
        timeout=timeout,
        reattach=reattach,
        on_waiting=on_waiting or log.warning,
        token=token,
        secret=secret,
        only_looks=only_looks,
    )
