"""How a client finds a broker: it tries those it knows in turn, and greets them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import MappingProxyType

import trio

from ges.client.certified import reread
from ges.errors import ConnectionLost
from ges.wire.client_messages import Attached
from overlay.address import Address, shown
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.ids import LinkClass
from overlay.machine import Refused
from overlay.net.connection import BROKEN
from overlay.net.transport import ProcessTransport, Wire, close
from overlay.security.identity import Identity
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import MAX_CONTROL_BYTES, MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from overlay.wire.versions import DIALECT

ATTACH_SECONDS = 2.0  #: for one broker to take us
RETRY_SECONDS = 0.05  #: first pause after all brokers known have failed; doubles
RETRY_MAX_SECONDS = 1.0

TOKEN_EXPOSED = (
    "a token is not sent over a plain connection to another host: anybody on the way could take "
    "it; write chordals:// and give an identity"
)

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
    timeout: float
    reattach: bool
    token: str | None = field(default=None, repr=False)
    secret: bytes | None = field(default=None, repr=False)  #: proves the uid, as a certificate may


class BrokerSearch:
    """Looks for a broker that takes us."""

    def __init__(self, wish: Wish, transport: ProcessTransport, rng: random.Random) -> None:
        self.wish = wish
        self._transport = transport
        self._rng = rng

    async def find(
        self, choices: Callable[[], Iterable[Address]], unusable: Mapping[str, str] = NOTHING
    ) -> Found:
        """Try the brokers known, again and again, until one takes us.

        ``choices`` returns them, in the order to try them in; ``unusable`` are URLs that cannot be
        tried, and why not.

        Raises:
            ConnectionLost: none did in time, or one says that none ever will.
        """
        answers: dict[str, str] = {}
        pause = RETRY_SECONDS
        with trio.move_on_after(self.wish.timeout):
            while True:
                for address in choices():
                    answers.setdefault(address.url, "no answer in time")
                    try:
                        with trio.fail_after(ATTACH_SECONDS):
                            return await self._greet(address)
                    except ConnectionFailed as error:
                        answers[address.url] = error.reason
                    except trio.TooSlowError:
                        answers[address.url] = "no answer in time"
                    except ProtocolError as error:
                        answers[address.url] = f"does not speak chordal ({error})"
                    except BROKEN as error:
                        answers[address.url] = str(error) or "connection lost"
                await trio.sleep(pause * (0.5 + self._rng.random()))
                pause = min(2 * pause, RETRY_MAX_SECONDS)
        answers |= unusable
        told = "; ".join(f"{shown(url)}: {answer}" for url, answer in answers.items())
        raise ConnectionLost(f"no broker to attach to: {told or 'none is known'}")

    async def _greet(self, address: Address) -> Found:
        if self._transport.credentials is not None:
            reread(self._transport.credentials)
        async with AsyncExitStack() as stack:
            wire = await self._transport.connect(address)
            stack.push_async_callback(close, wire.stream)
            wish = self.wish
            if wish.token is not None and wire.is_exposed:
                raise ConnectionFailed(address.url, TOKEN_EXPOSED)
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
                DIALECT.names,
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
                reason = answer.detail or answer.reason.value
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
