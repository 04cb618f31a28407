"""What a client without a library says first."""

from __future__ import annotations

import trio

from ges.access.token_proof import Exchange, client_proof, split_token
from overlay.ids import LinkClass, uid_of
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Challenge, Hello, TokenProof

SECRET = b"c" * 32
NONCE = b"n" * 32
UID = uid_of(SECRET)


def client_hello(
    secret: bytes = SECRET, *, token: str | None = None, token_name: str | None = None
) -> Hello:
    """Return the greeting of a client that proves its uid by ``secret``.

    ``token`` is sent, as by clients of earlier versions; of one that is named the proof is to
    follow (:func:`prove_token`).
    """
    return Hello(
        "chordal",
        PROTOCOL_VERSION,
        uid_of(secret),
        1,
        None,
        LinkClass.NORMAL,
        None,
        0,
        token=token,
        secret=secret,
        token_name=token_name,
        nonce=NONCE if token_name is not None else None,
    )


async def prove_token(stream: trio.abc.Stream, token: str) -> None:
    """Greet with a token's name, and prove that one has it."""
    name, secret = split_token(token)
    hello = client_hello(token_name=name)
    await stream.send_all(GREETINGS.encode(hello))
    reader = FrameReader()
    while (found := reader.next_frame()) is None:
        reader.feed(await stream.receive_some())
    asked = MessageCodec(Challenge).decode(found[1])
    assert isinstance(asked, Challenge)
    exchange = Exchange(hello.overlay, name, hello.uid, asked.broker, NONCE, asked.nonce)
    await stream.send_all(GREETINGS.encode(TokenProof(client_proof(secret, exchange))))
