"""How a client finds a broker: it tries those it knows in turn, and greets them."""

from __future__ import annotations

import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import trio

from ges.access.tokens import check_token
from ges.client.certified import reread
from ges.errors import ConnectionLost
from ges.wire.client_messages import Attached
from overlay.address import Address, is_loopback, parse_urls, shown
from overlay.errors import ConfigError, ConnectionFailed, ProtocolError
from overlay.ids import SECRET_BYTES, LinkClass, uid_of
from overlay.machine import Refused
from overlay.net.call_failures import is_cut
from overlay.net.connection import BROKEN
from overlay.net.transport import ProcessTransport, Wire, close
from overlay.security.identity import Identity, load_identity
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import MAX_CONTROL_BYTES, MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Hello, Refusal, check_overlay
from overlay.wire.versions import DIALECT, OF_CLIENTS
from overlay.wording import printable

ATTACH_SECONDS = 2.0  #: for one broker to take us
RETRY_SECONDS = 0.05  #: first pause after all brokers known have failed; doubles
RETRY_MAX_SECONDS = 1.0
TELL_SECONDS = 0.5  #: without a broker; then it is said for whom the client waits, and why

_NO_ANSWER = "no answer in time"

TOKEN_EXPOSED = (
    "a token is not sent over a plain connection to another host: anybody on the way could take "
    "it; write chordals:// and give an identity"
)

log = logging.getLogger("ges.client")

#: Refusals that no waiting and no other broker will change.
_HOPELESS = frozenset({Refused.OTHER_OVERLAY, Refused.OTHER_VERSION, Refused.NOT_AUTHENTICATED})

#: What a broker may answer to a client's greeting.
_ANSWERS = MessageCodec(Attached, Refusal)

#: Where no URL is known that cannot be tried.
NOTHING: Mapping[str, str] = MappingProxyType({})

Found = tuple[Address, Wire, FrameReader, Attached]


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


def check_wish(
    urls: Sequence[str],
    identity: str | Path | None,
    *,
    overlay: str,
    token: str | None,
    timeout: float,
    reattach: bool,
    on_waiting: Callable[[str], None] | None = None,
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
    )


class BrokerSearch:
    """Looks for a broker that takes us."""

    def __init__(self, wish: Wish, transport: ProcessTransport, rng: random.Random) -> None:
        self.wish = wish
        self._transport = transport
        self._rng = rng

    async def find(
        self,
        choices: Callable[[], Iterable[Address]],
        unusable: Mapping[str, str] = NOTHING,
        *,
        is_first: bool = False,
    ) -> Found:
        """Try the brokers known, again and again, until one takes us.

        ``choices`` returns them, in the order to try them in; ``unusable`` are URLs that cannot be
        tried, and why not. In the first search (``is_first``) it is of no use to go on when each of
        them answers what another try would not change, such as a foreign certificate. Later it is:
        a broker took us before, and what stands in its place may go.

        Raises:
            ConnectionLost: none did in time, or none ever will.
        """
        answers: dict[str, str] = {}
        found: Found | None = None
        problem: ConnectionLost | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell, choices, answers)
                try:
                    found = await self._try(choices, answers, is_first=is_first)
                except ConnectionLost as error:  # carried out of the nursery, which would wrap it
                    problem = error
                nursery.cancel_scope.cancel()
        except BaseException:  # who called us was cancelled just as a broker had taken us
            if found is not None:
                await close(found[1].stream)
            raise
        if problem is not None:
            raise problem
        if found is not None:
            return found
        answers |= unusable
        told = "; ".join(f"{shown(url)}: {answer}" for url, answer in answers.items())
        raise ConnectionLost(f"no broker to attach to: {told or 'none is known'}")

    async def _tell(
        self, choices: Callable[[], Iterable[Address]], answers: Mapping[str, str]
    ) -> None:
        """Say for whom we wait, if we do not find anybody at once."""
        await trio.sleep(TELL_SECONDS)
        so_far = {address.url: "not tried yet" for address in choices()} | dict(answers)
        brokers = ", ".join(
            f"{shown(url)} ({'no answer yet' if answer == _NO_ANSWER else answer})"
            for url, answer in so_far.items()
        )
        timeout = self.wish.timeout
        how_long = "until one answers" if timeout == math.inf else f"for {timeout:g} s"
        self.wish.on_waiting(f"waiting for a broker at {brokers}; trying {how_long}")

    async def _try(
        self,
        choices: Callable[[], Iterable[Address]],
        answers: dict[str, str],
        *,
        is_first: bool,
    ) -> Found | None:
        """Return who takes us; None: nobody in time, or ever, and ``answers`` says why."""
        pause = RETRY_SECONDS
        with trio.move_on_after(self.wish.timeout):
            while True:
                may_change = not is_first
                for address in choices():
                    answers.setdefault(address.url, _NO_ANSWER)
                    is_final = False
                    try:
                        with trio.fail_after(ATTACH_SECONDS):
                            return await self._greet(address)
                    except ConnectionFailed as error:
                        answers[address.url], is_final = error.reason, error.is_final
                    except trio.TooSlowError:
                        answers[address.url] = _NO_ANSWER
                    except ProtocolError as error:
                        answers[address.url] = f"does not speak chordal ({printable(str(error))})"
                        is_final = True
                    except BROKEN as error:
                        answers[address.url] = str(error) or "connection lost"
                        is_final = not is_cut(error)
                    may_change = may_change or not is_final
                if not may_change:
                    return None
                await trio.sleep(pause * (0.5 + self._rng.random()))
                pause = min(2 * pause, RETRY_MAX_SECONDS)
        return None

    async def _greet(self, address: Address) -> Found:
        if self._transport.credentials is not None:
            reread(self._transport.credentials)
        async with AsyncExitStack() as stack:
            wire = await self._transport.connect(address)
            stack.push_async_callback(close, wire.stream)
            wish = self.wish
            if wish.token is not None and wire.is_exposed:
                raise ConnectionFailed(address.url, TOKEN_EXPOSED, is_final=True)
            hello = Hello(
                wish.overlay,
                DIALECT.highest,
                wish.uid,
                wish.incarnation,
                None,
                LinkClass.SECURE if address.tls else LinkClass.NORMAL,
                None,
                0,
                DIALECT.lowest,
                DIALECT.names + OF_CLIENTS,
                wish.token,
                wish.secret,
            )
            await wire.stream.send_all(GREETINGS.encode(hello))
            reader = FrameReader(MAX_CONTROL_BYTES)
            while (found := reader.next_frame()) is None:
                data = await wire.stream.receive_some(4096)
                if not data:
                    raise ConnectionFailed(address.url, "closed without an answer")
                reader.feed(data)
            answer = _ANSWERS.decode(found[1])
            if isinstance(answer, Refusal):
                reason = printable(answer.detail) or answer.reason.value
                if answer.reason in _HOPELESS:
                    raise ConnectionLost(f"{address.url}: {reason}")
                raise ConnectionFailed(address.url, reason)
            if not isinstance(answer, Attached):
                raise ProtocolError(f"{type(answer).__name__} is no answer to a greeting")
            if DIALECT.accept(answer.version, ()) is None:
                raise ProtocolError(f"it wants to speak version {answer.version}")
            if wire.identity is not None and wire.identity.uid != answer.broker:
                raise ProtocolError("the certificate names another uid than the broker gives")
            if answer.secure and wire.identity is None:
                raise ProtocolError("it calls a plain connection secure")
            reader.limit(MAX_FRAME_BYTES)
            reader.agree(answer.version)
            stack.pop_all()
            return address, wire, reader, answer
