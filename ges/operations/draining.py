"""Have one broker leave its ring, and see that it is gone."""

from __future__ import annotations

from contextlib import suppress

import trio

from ges.errors import ConnectionLost, OperationRefused
from ges.operations.attached import LEAST_DIGITS, Operator, Place
from ges.wire.operator_messages import Drain
from overlay.address import parse_url
from overlay.errors import ConfigError

LEAVE_SECONDS = 10.0  #: for a broker to leave, beside the grace
MOST_GRACE_S = 60.0  #: that a broker is expected to give, where it is not told
AGAIN_SECONDS = 0.1
TRY_SECONDS = 0.5


async def find_broker(operator: Operator, target: str) -> Place:
    """Return the broker that ``target`` names: its URL, or a uid of the ring or its first digits.

    Raises:
        ConfigError: no broker's uid begins so, or those of several do.
        ConnectionLost: no broker answers.
    """
    if "://" in target:
        address = parse_url(target)
        async with operator.attached(address.url, operator.timeout_s) as client:
            return Place((await client.status()).uid, address.url)
    text = target.lower()
    if len(text) < LEAST_DIGITS:
        raise ConfigError(
            f"{target!r} names no broker; write its URL, or {LEAST_DIGITS} digits of its uid"
        )
    places = [p for p in await operator.brokers(is_one=False) if p.uid.startswith(text)]
    if len(places) != 1:
        number = len(places) or "no"
        raise ConfigError(f"{number} brokers of this ring have uids that begin with {target!r}")
    return places[0]


async def drain(operator: Operator, place: Place, grace_s: float | None) -> None:
    """Ask a broker to leave after its clients; it has begun when this returns.

    Raises:
        OperationRefused: this operator may not.
        ConnectionLost: the broker does not answer.
    """
    async with operator.attached(place.url, operator.timeout_s) as client:
        await client.operate(Drain(None if grace_s is None else round(1000 * grace_s)))


async def wait_until_gone(operator: Operator, place: Place, seconds: float) -> None:
    """Wait until nobody listens where a broker was, or a new one takes clients there.

    Raises:
        OperationRefused: it is still there after ``seconds``.
    """
    address = parse_url(place.url)
    with trio.move_on_after(seconds):
        while True:
            try:
                stream = await trio.open_tcp_stream(address.host, address.port)
            except OSError:
                return
            await stream.aclose()
            with suppress(ConnectionLost):  # it takes nobody, as it leaves
                async with operator.attached(place.url, TRY_SECONDS):
                    return
            await trio.sleep(AGAIN_SECONDS)
    raise OperationRefused(
        f"{place.url}: the broker drains, and is still there after {seconds:g} s; its log says "
        "what it waits for, and a second SIGTERM ends that"
    )
