"""What strangers may do to the port of a broker, each kind an attack that a seed repeats.

An attack makes so many connections, some or all at a time, and closes them all in the end.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import trio

from benchmarks.stage import greetings
from ges.wire.asked import Ask
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import CLIENT_CODEC, KeepAlive, StatusRequest, Subscribe, Unsubscribe
from ges.wire.events import pack_event
from overlay.ids import SECRET_BYTES, LinkClass, Peer
from overlay.machine import Refused
from overlay.net.connection import BROKEN
from overlay.security.tls_handshake import ALPN
from overlay.wire.frames import DELIVERY, EVENT, HEADER, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Hello, Refusal, Welcome

AT_ONCE = 200  #: connections of one attack, unless all are to be open together
HOLD_SECONDS = 3.0  #: a broker drops who does not greet before that
TLS_RECORD = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  #: how a TLS handshake begins


@dataclass(frozen=True, slots=True)
class Target:
    """The port attacked, and what was recorded of a peer that called it."""

    port: int
    recorded: bytes  #: greeting, ring messages and events, as that peer sent them
    hold: float = HOLD_SECONDS  #: how long connections that wait for nothing are held
    host: str = "127.0.0.1"


async def say(target: Target, *words: bytes, hold: float, drip: float = 0.0) -> bool:
    """Connect, say ``words``, listen until cut off or ``hold`` seconds are over; then close.

    ``drip``: seconds between bytes. Returns whether there was a connection.
    """
    try:
        stream = await trio.open_tcp_stream(target.host, target.port)
    except OSError:
        return False
    with suppress(*BROKEN), trio.move_on_after(hold):
        for part in words:
            if drip:
                for byte in part:
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(drip)
            else:
                await stream.send_all(part)
        while await stream.receive_some(65536):
            pass
    await trio.aclose_forcefully(stream)
    return True


async def all_of(visits: Iterable[Callable[[], Awaitable[bool]]], at_once: int = AT_ONCE) -> int:
    """Make visits, so many at a time; returns how many got a connection."""
    limit = trio.CapacityLimiter(at_once)
    connected = 0

    async def visit(one: Callable[[], Awaitable[bool]]) -> None:
        nonlocal connected
        async with limit:
            is_connected = await one()
        connected += is_connected

    async with trio.open_nursery() as nursery:
        for one in visits:
            nursery.start_soon(visit, one)
    return connected


# ── what is said ──────────────────────────────────────────────────────────────────────────────


def client_hello(rng: random.Random) -> Hello:
    """Return the greeting of a client nobody knows: its secret, and so its uid, is drawn."""
    return greetings.client_hello(rng.randbytes(SECRET_BYTES))


def peer_hello(rng: random.Random) -> Hello:
    """Return a greeting of a broker that does not exist."""
    peer = Peer(rng.randbytes(16).hex(), 1, f"chordal://127.0.0.1:{rng.randrange(1, 1024)}")
    return Hello(
        "chordal", PROTOCOL_VERSION, peer.uid, 1, peer, LinkClass.NORMAL, None, 1, PROTOCOL_VERSION
    )


def client_session(rng: random.Random) -> list[bytes]:
    """Return the frames of a client that does everything right."""
    hello = client_hello(rng)
    events = [
        pack_event(
            secure=False,
            publisher=bytes.fromhex(hello.uid),
            incarnation=hello.incarnation,
            sequence=number,
            published_ns=0,
            topic=b"attack/%d" % rng.randrange(10),
            attributes=b"",
            payload=rng.randbytes(rng.randrange(200)),
        )
        for number in (1, 2, 3)
    ]
    return [
        GREETINGS.encode(hello),
        CLIENT_CODEC.encode(Subscribe(1, Ask("attack/+"))),
        *(frame(EVENT, event) for event in events),
        CLIENT_CODEC.encode(KeepAlive(7, answer=False)),
        CLIENT_CODEC.encode(StatusRequest()),
        CLIENT_CODEC.encode(Unsubscribe(1)),
    ]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with a few bytes changed, lost, said twice or put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) or 1)
        end = at + rng.randint(1, 40)
        what = rng.randrange(5)
        if what == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del found[at:end]
        elif what == 2:
            found[at:at] = found[at:end]
        elif what == 3:
            found[at:at] = rng.randbytes(rng.randint(1, 40))
        else:
            found[at:end] = rng.randbytes(4)
    return bytes(found)


def disorders(rng: random.Random) -> list[bytes]:
    """Return right frames where they do not belong, and headers that are wrong."""
    hello, session = GREETINGS.encode(client_hello(rng)), client_session(rng)
    peer = GREETINGS.encode(peer_hello(rng))
    welcome = GREETINGS.encode(Welcome(Peer("c" * 32, 1, "chordal://127.0.0.1:1"), 1))
    refusal = GREETINGS.encode(Refusal(Refused.BUSY, "later"))
    return [
        session[2] + hello,  # an event before any greeting
        session[1] + hello,
        hello + hello,
        peer + peer,
        hello + peer,
        peer + hello,
        peer + b"".join(session[1:]),  # a client's messages on a broker's link
        welcome,
        refusal,
        hello + welcome,
        hello + frame(DELIVERY, session[2][HEADER.size :]),
        hello + frame(3, session[2][HEADER.size :]),  # of no kind
        peer + frame(DELIVERY, b"x"),
        peer + frame(3, b"\xff" * 40),
        peer + frame(EVENT, b""),
        hello + frame(EVENT, b""),
        HEADER.pack(2**32 - 1, PROTOCOL_VERSION, EVENT),
        hello + HEADER.pack(2**32 - 1, PROTOCOL_VERSION, EVENT),
        hello + HEADER.pack(1, PROTOCOL_VERSION, EVENT),
        frame(0, GREETINGS.encode(client_hello(rng))[HEADER.size :], PROTOCOL_VERSION + 1),
    ]


# ── attacks ───────────────────────────────────────────────────────────────────────────────────


async def noise(target: Target, rng: random.Random, count: int) -> int:
    """Random bytes."""
    words = [rng.randbytes(rng.randint(1, 4096)) for _ in range(count)]
    return await all_of(partial(say, target, text, hold=0.2) for text in words)


async def truncated(target: Target, rng: random.Random, count: int) -> int:
    """The beginning of what a client, or a peer, says."""

    def cut() -> bytes:
        whole = rng.choice([b"".join(client_session(rng)), target.recorded[:4096]])
        return whole[: rng.randrange(len(whole))]

    return await all_of(partial(say, target, cut(), hold=0.2) for _ in range(count))


async def changed(target: Target, rng: random.Random, count: int) -> int:
    """Sessions of a client, and greetings of a peer, with bytes changed, lost and put in."""

    def change() -> bytes:
        peer = GREETINGS.encode(peer_hello(rng))
        return mutated(rng.choice([b"".join(client_session(rng)), peer]), rng)

    return await all_of(partial(say, target, change(), hold=0.2) for _ in range(count))


async def replayed(target: Target, rng: random.Random, count: int) -> int:
    """What a peer said as it called, and on, said once more."""
    words = [target.recorded[: rng.randint(60, 8192)] for _ in range(count)]
    return await all_of(partial(say, target, text, hold=0.2) for text in words)


async def disordered(target: Target, rng: random.Random, count: int) -> int:
    """Right frames in the wrong order, or from the wrong end."""
    words = [text for _ in range(-(-count // 20)) for text in disorders(rng)]
    return await all_of(partial(say, target, text, hold=0.2) for text in words[:count])


async def slow_loris(target: Target, rng: random.Random, count: int) -> int:
    """A greeting, a byte at a time."""
    words = [GREETINGS.encode(client_hello(rng)) for _ in range(count)]
    visits = (partial(say, target, text, hold=target.hold, drip=0.1) for text in words)
    return await all_of(visits, at_once=count)


async def half_tls(target: Target, rng: random.Random, count: int) -> int:
    """The beginning of a TLS handshake, and nothing more."""
    words = [TLS_RECORD[: rng.randint(1, len(TLS_RECORD))] for _ in range(count)]
    visits = (partial(say, target, text, hold=target.hold) for text in words)
    return await all_of(visits, at_once=count)


def tls_greeting() -> bytes:
    """Return the first bytes of somebody who speaks TLS as we do, and has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


async def tls_changed(target: Target, rng: random.Random, count: int) -> int:
    """TLS handshakes with bytes changed, lost and put in; some begin right and go on with noise."""

    def change() -> bytes:
        greeting = tls_greeting()
        if rng.randrange(2):
            return greeting[:1] + mutated(greeting[1:], rng)
        return greeting + rng.randbytes(rng.randrange(1, 4096))

    return await all_of(partial(say, target, change(), hold=0.2) for _ in range(count))


async def requests(target: Target, rng: random.Random, count: int) -> int:
    """Clients that ask for more than anybody can answer, and do not wait for the answers."""

    def ask() -> bytes:
        asked = rng.choice(
            [StatusRequest(), KeepAlive(1, answer=False), RevocationNotice(rng.randbytes(99), b"")]
        )
        return GREETINGS.encode(client_hello(rng)) + CLIENT_CODEC.encode(asked) * 5000

    return await all_of((partial(say, target, ask(), hold=1.0) for _ in range(count)), at_once=10)


async def gaps(target: Target, rng: random.Random, count: int) -> int:
    """Clients of whose events every other one is missing, so that all must wait."""

    def publish() -> bytes:
        hello = client_hello(rng)
        events = (
            pack_event(
                secure=False,
                publisher=bytes.fromhex(hello.uid),
                incarnation=hello.incarnation,
                sequence=2 * number,
                published_ns=0,
                topic=b"gap",
                attributes=b"",
                payload=b"",
            )
            for number in range(1, 1000)
        )
        return GREETINGS.encode(hello) + b"".join(frame(EVENT, event) for event in events)

    return await all_of((partial(say, target, publish(), hold=0.5) for _ in range(count)), 20)


async def half_frames(target: Target, rng: random.Random, count: int) -> int:
    """Clients that begin a large event, and stop in the middle."""

    def begin() -> bytes:
        hello = GREETINGS.encode(client_hello(rng))
        return hello + HEADER.pack(1024 * 1024, PROTOCOL_VERSION, EVENT) + bytes(512 * 1024)

    return await all_of((partial(say, target, begin(), hold=1.0) for _ in range(count)), at_once=20)


async def many_filters(target: Target, rng: random.Random, count: int) -> int:
    """Clients that subscribe to as many long filters as they may."""

    def subscribe() -> bytes:
        hello = GREETINGS.encode(client_hello(rng))
        deep = "/".join("abcdefgh" for _ in range(63))
        filters = (
            Subscribe(number, Ask(f"{rng.randrange(10**6)}/{deep}")) for number in range(1000)
        )
        return hello + b"".join(CLIENT_CODEC.encode(one) for one in filters)

    return await all_of((partial(say, target, subscribe(), hold=1.0) for _ in range(count)), 10)


async def idle(target: Target, rng: random.Random, count: int) -> int:
    """Connections that say nothing, all open together as far as the broker lets them."""
    visits = (partial(say, target, hold=target.hold) for _ in range(count))
    return await all_of(visits, at_once=count)


async def idle_clients(target: Target, rng: random.Random, count: int) -> int:
    """Clients that greet and then do nothing, all open together."""
    words = [GREETINGS.encode(client_hello(rng)) for _ in range(count)]
    visits = (partial(say, target, text, hold=target.hold) for text in words)
    return await all_of(visits, at_once=count)


Attack = Callable[[Target, random.Random, int], Awaitable[int]]

#: Attack, and how often in a short and in a long campaign.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    "noise": (noise, 100, 3000),
    "truncated": (truncated, 100, 3000),
    "changed": (changed, 200, 6000),
    "replayed": (replayed, 60, 1000),
    "disordered": (disordered, 60, 2000),
    "TLS changed": (tls_changed, 60, 2000),
    "requests": (requests, 6, 100),
    "gaps": (gaps, 10, 200),
    "half frames": (half_frames, 10, 200),
    "many filters": (many_filters, 2, 40),
    "slow loris": (slow_loris, 100, 2000),
    "half TLS": (half_tls, 100, 2000),
    "idle clients": (idle_clients, 200, 6000),
    "idle": (idle, 500, 10000),
}
