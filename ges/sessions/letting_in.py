"""Which of the clients that greet are let in; they prove their tokens, and do not send them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ges.access.admission import Admission, Admitted, Rejection
from ges.access.token_proof import NONCE_BYTES, Exchange, broker_proof
from overlay.errors import ProtocolError
from overlay.limits import Limits
from overlay.links.counted_log import CountedLog
from overlay.links.first_message import read_greeting
from overlay.machine import Refused
from overlay.net.connection import BROKEN
from overlay.net.transport import Wire
from overlay.shares import Shares, Source, source_of
from overlay.wire.codec import FrameReader
from overlay.wire.greetings import GREETINGS, Challenge, Hello, Refusal, TokenProof

EXPOSED = (
    "a token is not taken over a plain connection from another host, which others could use; "
    "attach over chordals:// with an identity"
)


@dataclass(frozen=True, slots=True)
class LetIn:
    """A client that may attach."""

    admitted: Admitted
    source: Source  #: to whom it counts
    token_proof: bytes | None = None  #: that the broker has its token in its book


class LettingIn:
    """Judges clients that greet, before they attach."""

    def __init__(
        self,
        admission: Admission,
        counted_log: CountedLog,
        broker_uid: Callable[[], str],
        overlay: str,
        limits: Limits,
    ) -> None:
        self._admission = admission
        self._counted_log = counted_log
        self._broker_uid = broker_uid
        self._overlay = overlay
        self._limits = limits
        self._proving = Shares(limits.strangers, of_one=limits.strangers_per_host, reserved=0)

    async def judge(self, hello: Hello, wire: Wire, reader: FrameReader) -> LetIn | Refusal:
        """Return who a client is, or why it is not let in; it is asked for a proof if it names one.

        Raises:
            ProtocolError: what it answers is no proof, or does not come in time.
        """
        admission = self._admission
        source = source_of(wire.remote, wire.identity.uid if wire.identity is not None else None)
        proven: tuple[Exchange, bytes] | None = None
        if hello.token_name is not None and hello.nonce is not None and admission.knows_tokens:
            if wire.is_exposed:
                return self._reject(EXPOSED, wire)
            if self._proving.crowd(source) is not None:
                return Refusal(Refused.BUSY, "too many clients prove their tokens at this moment")
            self._proving.take(source)
            try:
                proven = await self._challenge(hello, hello.token_name, hello.nonce, wire, reader)
            finally:
                self._proving.free(source)
        found = admission.admit(hello.token, wire.identity, exposed=wire.is_exposed, proven=proven)
        if isinstance(found, Rejection):
            return self._reject(found.reason, wire)
        if found.record is None:
            return LetIn(found, source)
        answer = broker_proof(found.record.sha256, proven[0]) if proven is not None else None
        return LetIn(found, Source(f"token {found.record.name}", is_proven=True), answer)

    def judge_password(
        self,
        user: str | None,
        password: bytes | None,
        host: str,
        certificate: str | None = None,
        *,
        is_private: bool,
    ) -> LetIn | str:
        """Return who a client is that shows a token as user name and password, or why not.

        ``certificate``: fingerprint of the one that it has shown, if it has.
        """
        found = self._admission.admit_by_password(user, password, is_private=is_private)
        if isinstance(found, Rejection):
            self._counted_log.note(
                "clients_not_authenticated", "client refused", why=found.reason, host=host
            )
            return found.reason
        if found.record is None:
            return LetIn(found, source_of(host, certificate))
        return LetIn(found, Source(f"token {found.record.name}", is_proven=True))

    async def _challenge(
        self, hello: Hello, name: str, client_nonce: bytes, wire: Wire, reader: FrameReader
    ) -> tuple[Exchange, bytes]:
        broker, nonce = self._broker_uid(), secrets.token_bytes(NONCE_BYTES)
        exchange = Exchange(self._overlay, name, hello.uid, broker, client_nonce, nonce)
        try:
            with trio.fail_after(self._limits.handshake_seconds):
                await wire.stream.send_all(GREETINGS.encode(Challenge(broker, nonce)))
                answer = await read_greeting(wire.stream, reader)
        except trio.TooSlowError:
            raise ProtocolError("a client that names a token gives no proof in time") from None
        except BROKEN as error:
            raise ProtocolError("a client that names a token goes without a proof") from error
        if not isinstance(answer, TokenProof):
            raise ProtocolError(f"{type(answer).__name__} is no proof of a token")
        return exchange, answer.proof

    def _reject(self, reason: str, wire: Wire) -> Refusal:
        self._counted_log.note(
            "clients_not_authenticated", "client refused", why=reason, host=wire.remote
        )
        return Refusal(Refused.NOT_AUTHENTICATED, reason)
