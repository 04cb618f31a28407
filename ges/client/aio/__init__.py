"""The client library under asyncio, with the same names and promises as :mod:`ges.client`.

::

    async with connect("chordal://127.0.0.1:9470") as client:
        async with client.subscribe("sensors/#") as events:
            await client.publish("sensors/7", b"21.5")
            async for event in events:
                print(event.topic, event.payload)

What a client decides, and the client itself, are the same code as under trio; here are sockets,
waiting and cancellation: ``connecting`` (the door), ``attachment`` (to a broker, and to the next
one), ``search`` (for a broker), ``calling`` (a broker), ``connection`` (to it, with its queue and
TLS), ``races`` (of several tasks). It runs on every event loop that asyncio knows, uvloop included.
"""

from __future__ import annotations

from ges.client.aio.connecting import connect
from ges.client.client import Client
from ges.client.gaps import Gap
from ges.client.subscription import Activity, Subscription
from ges.wire.client_messages import Level
from ges.wire.delivered import Event
from ges.wire.status import Status
from overlay.ids import LinkClass

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
