"""The client library for scripts and notebooks: the same names as :mod:`ges.client`, and no await.

::

    with connect("chordal://127.0.0.1:9470") as client:
        with client.subscribe("sensors/#") as events:
            client.publish("sensors/7", b"21.5")
            for event in events:
                print(event.topic, event.payload)

Each call waits until it is done. The client itself runs under asyncio in a thread of its own, so it
stays attached while the script computes, and it works in a notebook, which has an event loop
already. ``client`` (the door, and the client), ``subscription`` (what is read), ``thread`` (of the
client).
"""

from __future__ import annotations

from ges.client.gaps import Gap
from ges.client.sync.client import Client, connect
from ges.client.sync.subscription import Activity, Subscription
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
