"""How a client proves that it has a token, without sending it. Pure.

The client greets with the name of its token, the broker answers with a challenge, and the client
with a proof; then the broker proves in its turn that its book has the token. A listener at the
broker's place, or between the two, has nothing afterwards that would let it in anywhere::

    stored    = SHA-256(secret)                       the book has this, and not the secret
    exchange  = both ends' nonces, uids, and the name
    proof     = secret XOR HMAC(stored, "client" exchange)
    answer    = HMAC(stored, "broker" exchange)

So it is in SCRAM (RFC 5802), whose ``ClientKey`` is the secret here: a password has to be made hard
to guess first, and 256 random bits are. As there, who has stolen the book can answer a client, but
prove nothing to a broker unless it has listened to the client as well.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from ges.access.tokens import TokenBook, TokenRecord, secret_hash

NONCE_BYTES = 32
PROOF_BYTES = 43  #: characters of a secret

_NOBODY = secret_hash("")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What both ends of a connection have said of themselves, and of the token."""

    overlay: str
    name: str  #: of the token
    client: str  #: its uid
    broker: str  #: its uid
    client_nonce: bytes
    broker_nonce: bytes

    @property
    def text(self) -> bytes:
        """All of it, such that no two exchanges have the same."""
        words = (self.overlay, self.name, self.client, self.broker)
        parts = (*(word.encode() for word in words), self.client_nonce, self.broker_nonce)
        return b"chordal token 1" + b"".join(len(p).to_bytes(4, "big") + p for p in parts)


def split_token(token: str) -> tuple[str, str]:
    """Return the name and the secret of a checked token."""
    name, _, secret = token.rpartition(".")
    return name, secret


def client_proof(secret: str, exchange: Exchange) -> bytes:
    """Return what proves to a broker that the client has the token."""
    return _xor(secret.encode(), _mask(secret_hash(secret), exchange))


def broker_proof(stored: str, exchange: Exchange) -> bytes:
    """Return what proves to a client that the broker's book has its token.

    ``stored``: the hash of its secret, as the book has it.
    """
    return hmac.digest(bytes.fromhex(stored), b"broker" + exchange.text, "sha256")


def is_from_a_broker(proof: bytes | None, secret: str, exchange: Exchange) -> bool:
    """Say whether the other end has the token in its book."""
    return hmac.compare_digest(proof or b"", broker_proof(secret_hash(secret), exchange))


def verify(
    book: TokenBook, exchange: Exchange, proof: bytes, now_unix_s: float
) -> TokenRecord | None:
    """Return the record of the token that was proven, if it is good at ``now_unix_s``; or None.

    A wrong name takes as long as a wrong proof.
    """
    record = book.get(exchange.name)
    stored = record.sha256 if record is not None else _NOBODY
    secret = _xor(proof, _mask(stored, exchange))
    is_right = hmac.compare_digest(hashlib.sha256(secret).hexdigest(), stored)
    if record is None or not is_right or record.is_expired(now_unix_s):
        return None
    return record


def _mask(stored: str, exchange: Exchange) -> bytes:
    """Return what nobody knows who has neither the secret nor the book, as long as a secret is."""
    mask = hmac.digest(bytes.fromhex(stored), b"client" + exchange.text, "sha512")
    return mask[:PROOF_BYTES]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))
