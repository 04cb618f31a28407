"""The clients of a whole ring: who is attached where, and cutting one off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from ges.client import Client, connect
from ges.errors import OperationRefused
from ges.operations.walk import walk_ring
from ges.wire.operator_messages import ClientsRequest, ClientStatus, Kick
from overlay.address import Address, parse_url
from overlay.errors import ChordalError, ConfigError
from overlay.ids import short

ASK_SECONDS = 5.0  #: for one broker to answer
BROKERS_AT_ONCE = 16
UID_DIGITS = 32
LEAST_DIGITS = 4  #: of a uid that is given in part


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator attaches to brokers."""

    urls: str
    identity: Path | None
    overlay: str
    timeout_s: float
    token: str | None
    on_waiting: Callable[[str], None]

    async def brokers(self, *, is_one: bool) -> list[Place]:
        """Return the brokers to ask: that at the URL given alone, or all of its ring.

        Raises:
            ConnectionLost: it does not answer.
        """
        if is_one:
            async with self.attached(self.urls, self.timeout_s) as client:
                status = await client.status()
                return [Place(status.uid, client.broker_url)]
        walk = await walk_ring(
            self.urls,
            identity=self.identity,
            overlay=self.overlay,
            timeout_s=self.timeout_s,
            on_waiting=self.on_waiting,
        )
        tls = parse_url(self.urls.split(",")[0]).tls
        found = []
        for status in walk.brokers:
            known = parse_url(status.url)
            found.append(Place(status.uid, Address(known.host, known.port, tls).url))
        return found + [Place("", "", words) for words in (*walk.silent, *walk.passed_over)]

    @asynccontextmanager
    async def attached(self, url: str, timeout_s: float = ASK_SECONDS) -> AsyncIterator[Client]:
        """Attach to one broker for the length of the block."""
        async with connect(
            url,
            identity=self.identity,
            overlay=self.overlay,
            token=self.token,
            timeout=timeout_s,
            reattach=False,
            on_waiting=self.on_waiting if url == self.urls else lambda _: None,
        ) as client:
            yield client


@dataclass(frozen=True, slots=True)
class Place:
    """A broker of the ring, or why it cannot be asked."""

    uid: str
    url: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Attached:
    """A client, where it is attached, and what goes to and fro a second, averaged."""

    broker: Place
    client: ClientStatus
    published_per_s: float | None  #: None: not measured
    delivered_per_s: float | None
    bytes_per_s: float | None  #: sent to it


async def list_clients(
    operator: Operator, over_s: float, *, is_one: bool
) -> tuple[list[Attached], list[str]]:
    """Return the clients of all brokers, or of one, and in words who could not be asked.

    The brokers are asked twice, ``over_s`` seconds apart, to see rates; 0: once, without rates.
    The operator's own connections are left out.

    Raises:
        ConnectionLost: the first broker does not answer.
        OperationRefused: it is the only one that was asked, and this client may not.
    """
    places = await operator.brokers(is_one=is_one)
    found: list[Attached] = []
    problems = [place.problem for place in places if place.problem]
    refused: list[OperationRefused] = []
    limiter = trio.CapacityLimiter(BROKERS_AT_ONCE)

    async def ask(place: Place) -> None:
        try:
            async with limiter:
                found.extend(await _ask(operator, place, over_s))
        except OperationRefused as error:
            refused.append(error)
        except ChordalError as error:
            problems.append(str(error))

    asked = [place for place in places if not place.problem]
    async with trio.open_nursery() as nursery:
        for place in asked:
            nursery.start_soon(ask, place)
    if refused and len(refused) == len(asked):
        raise refused[0]
    order = {place.uid: number for number, place in enumerate(places)}
    found.sort(key=lambda each: (order[each.broker.uid], each.client.uid, each.client.number))
    return found, [*problems, *map(str, refused)]


async def kick(operator: Operator, uid: str) -> list[Place]:
    """Cut off all clients of that uid, or of the one uid that begins so; returns where.

    Raises:
        ConfigError: it is no uid, or several clients' uids begin so.
        OperationRefused: no broker has such a client, or this operator may not.
        ConnectionLost: the first broker does not answer.
    """
    text = uid.lower()
    if not LEAST_DIGITS <= len(text) <= UID_DIGITS or set(text) - set("0123456789abcdef"):
        raise ConfigError(
            f"{uid!r} is no uid: {UID_DIGITS} hexadecimal digits, or the first {LEAST_DIGITS} or "
            "more; 'chordal clients' shows them"
        )
    if len(text) < UID_DIGITS:
        found, _ = await list_clients(operator, 0, is_one=False)
        uids = {each.client.uid for each in found if each.client.uid.startswith(text)}
        if len(uids) > 1:
            some = ", ".join(sorted(uids)[:3])
            raise ConfigError(f"{len(uids)} clients have uids that begin with {text}: {some}")
        if not uids:
            raise OperationRefused(f"no client's uid begins with {text}")
        (text,) = uids
        places = [each.broker for each in found if each.client.uid == text]
    else:
        places = [p for p in await operator.brokers(is_one=False) if not p.problem]
    done, refused = [], []
    for place in places:
        async with operator.attached(place.url) as client:
            try:
                await client.operate(Kick(text))
                done.append(place)
            except OperationRefused as error:
                refused.append(error)
    if not done:
        denied = [error for error in refused if "no client" not in str(error)]
        raise denied[0] if denied else OperationRefused(f"no broker has a client {text}")
    return done


async def _ask(operator: Operator, place: Place, over_s: float) -> list[Attached]:
    async with operator.attached(place.url) as client:
        began = trio.current_time()
        before = {each.number: each for each in await _pages(client)}
        await trio.sleep(over_s)
        after = await _pages(client) if over_s else list(before.values())
        seconds = trio.current_time() - began if over_s else 0.0
        return [
            _compare(place, before.get(each.number), each, seconds)
            for each in after
            if not each.is_asker
        ]


async def _pages(client: Client) -> list[ClientStatus]:
    found: list[ClientStatus] = []
    while True:
        answer = await client.operate(ClientsRequest(found[-1].number if found else 0))
        found.extend(answer.clients)
        if not answer.more or not answer.clients:
            return found


def _compare(
    place: Place, before: ClientStatus | None, after: ClientStatus, seconds: float
) -> Attached:
    if before is None or not seconds:
        return Attached(place, after, None, None, None)  # it has come just now
    return Attached(
        place,
        after,
        (after.published - before.published) / seconds,
        (after.delivered - before.delivered) / seconds,
        (after.sent_bytes - before.sent_bytes) / seconds,
    )


def where(places: Iterable[Place]) -> str:
    """Name brokers, for people."""
    return ", ".join(f"{short(place.uid)} at {place.url}" for place in places)
