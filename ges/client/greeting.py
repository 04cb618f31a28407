"""The greeting of a client and a broker, as the client sees it. Pure.

A client says who it is and which overlay it looks for; the broker takes it, or says why not. Here
is what goes over a connection until then, and what becomes of the answer.
"""

from __future__ import annotations

from ges.access.token_proof import Exchange, client_proof, is_from_a_broker, split_token
from ges.client.wish import TOKEN_EXPOSED, Wish
from ges.errors import ConnectionLost
from ges.wire.client_messages import Attached
from overlay.address import Address
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.ids import LinkClass
from overlay.machine import Refused
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import MAX_CONTROL_BYTES, MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Challenge, Hello, Refusal, TokenProof
from overlay.wire.versions import DIALECT
from overlay.wording import printable

#: Refusals that no waiting and no other broker will change.
_HOPELESS = frozenset({Refused.OTHER_OVERLAY, Refused.OTHER_VERSION, Refused.NOT_AUTHENTICATED})

#: What a broker may answer to a client's greeting.
_ANSWERS = MessageCodec(Attached, Refusal, Challenge)


class Greeting:
    """One greeting, over a connection that has just been made."""

    def __init__(
        self,
        wish: Wish,
        address: Address,
        *,
        certified: str | None,
        is_exposed: bool,
        nonce: bytes,
    ) -> None:
        """Begin.

        Args:
            wish: of the client.
            address: that was called.
            certified: the uid that the broker's certificate names; None: the connection is plain.
            is_exposed: others than this machine's users may read what goes over it.
            nonce: random bytes, for a client that has to prove its token.

        Raises:
            ConnectionFailed: it must not be used, as the client has a token.
        """
        if wish.token is not None and is_exposed:
            raise ConnectionFailed(address.url, TOKEN_EXPOSED, is_final=True)
        self._url = address.url
        self._certified = certified
        self._token = wish.token
        self._asked: Challenge | None = None
        self._exchange: Exchange | None = None
        self.reader = FrameReader(MAX_CONTROL_BYTES)  #: of the connection, also later
        self._hello = Hello(
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
            None,
            wish.secret,
            split_token(wish.token)[0] if wish.token is not None else None,
            nonce if wish.token is not None else None,
            only_looks=wish.only_looks,
        )
        self._to_send = GREETINGS.encode(self._hello)

    def take_bytes(self) -> bytes:
        """Return, once, what is to be sent now; empty: nothing."""
        data, self._to_send = self._to_send, b""
        return data

    def take(self, data: bytes | bytearray) -> Attached | None:
        """Take what has come from the broker; returns its answer once that is whole.

        Until then there may be something to send (:meth:`take_bytes`).

        Raises:
            ConnectionFailed: it does not take us, or has closed the connection (``data`` is empty).
            ConnectionLost: it does not, and nor will any other.
            ProtocolError: it is no broker of ours.
        """
        if not data:
            raise ConnectionFailed(self._url, "closed without an answer")
        self.reader.feed(data)
        found = self.reader.next_frame()
        return None if found is None else self._judge(found[1])

    def _judge(self, body: bytes) -> Attached | None:
        answer = _ANSWERS.decode(body)
        if isinstance(answer, Challenge) and self._asked is None:
            self._prove(answer)
            return None
        if isinstance(answer, Refusal):
            reason = printable(answer.detail) or answer.reason.value
            if answer.reason in _HOPELESS:
                raise ConnectionLost(f"{self._url}: {reason}")
            raise ConnectionFailed(self._url, reason)
        if not isinstance(answer, Attached):
            raise ProtocolError(f"{type(answer).__name__} is no answer to a greeting")
        if DIALECT.accept(answer.version, ()) is None:
            raise ProtocolError(f"it wants to speak version {answer.version}")
        if self._certified is not None and self._certified != answer.broker:
            raise ProtocolError("the certificate names another uid than the broker gives")
        if answer.secure and self._certified is None:
            raise ProtocolError("it calls a plain connection secure")
        if self._exchange is not None and not self._knows_token(answer):
            raise ProtocolError("it does not know the token that it lets us in for")
        self.reader.limit(MAX_FRAME_BYTES)
        self.reader.agree(answer.version)
        return answer

    def _prove(self, asked: Challenge) -> None:
        """Prove to the broker that we have our token; it is to prove that it knows it."""
        nonce = self._hello.nonce
        if self._token is None or nonce is None:
            raise ProtocolError("it asks for a token that nobody has named")
        name, secret = split_token(self._token)
        hello = self._hello
        self._asked = asked
        self._exchange = Exchange(hello.overlay, name, hello.uid, asked.broker, nonce, asked.nonce)
        self._to_send = GREETINGS.encode(TokenProof(client_proof(secret, self._exchange)))

    def _knows_token(self, answer: Attached) -> bool:
        assert self._asked is not None
        assert self._exchange is not None
        assert self._token is not None
        _, secret = split_token(self._token)
        return answer.broker == self._asked.broker and is_from_a_broker(
            answer.token_proof, secret, self._exchange
        )
