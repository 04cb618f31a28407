"""The client library. Its door is :func:`connect`, for trio.

A program that publishes and subscribes needs this import alone, and :mod:`ges.errors` for what it
catches. Under asyncio its door is ``aio``, and ``sync`` for scripts that do not await.

On every event loop
    ``client`` (publish and subscribe), ``subscription`` (what is read: events, and whether it is
    active), ``waiting`` (for room, answers, confirmations), ``loop`` (what an event loop is to
    these), ``wish`` (what a client is asked for), ``certified`` (a certificate that changes),
    ``requests`` (that wait for a reply), ``plain_errors`` (out of groups).
Pure
    ``choices`` (what is chosen from a few), ``core`` (what is done with whatever the broker says),
    ``state`` (what a client knows), ``tries`` (whom to call next), ``greeting`` (who we are),
    ``hang_ups`` (brokers that take us and hang up), ``keepalive``, ``gaps``,
    ``watermarks`` (what has come already), ``resuming`` (asking for what was missed), ``outgoing``
    (packing events, and keeping them until they are confirmed) and ``open_run`` (those that are to
    be packed together).
On trio
    ``connecting`` (the door), ``attachment`` (to a broker, and to the next one), ``search`` (for a
    broker).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ges.client.client import Client
from ges.client.gaps import Gap
from ges.client.subscription import Activity, Subscription
from ges.wire.client_messages import Level
from ges.wire.delivered import Event
from ges.wire.status import Status
from overlay.ids import LinkClass

if TYPE_CHECKING:
    from ges.client.connecting import connect

__all__ = [
    "Activity",
    "Client",
    "Event",
    "Gap",
    "Level",
    "LinkClass",
    "Status",
    "Subscription",
    "connect",
]


def __getattr__(name: str) -> object:
    """Import the door when it is asked for: a program on asyncio does not load trio."""
    if name != "connect":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ges.client.connecting import connect

    return connect
