"""The client library. Runs on trio; its door is :func:`connect`.

A program that publishes and subscribes needs this import alone, and :mod:`ges.errors` for what it
catches.

``connecting`` (the door), ``client`` (publish and subscribe), ``subscription`` (what is read:
events, whether it is active, and gaps), ``attachment`` (to a broker, and to the next one),
``search`` (for a broker), ``certified`` (a certificate that changes). Pure are ``state`` (what a
client knows), ``keepalive``, ``watermarks`` (what has come already), ``resuming`` (asking for what
was missed), ``outgoing`` (packing events, and keeping them until they are confirmed) and
``open_run`` (those that are to be packed together).
"""

from __future__ import annotations

from ges.client.client import Client
from ges.client.connecting import connect
from ges.client.subscription import Activity, Gap, Subscription
from ges.wire.delivered import Event
from ges.wire.status import Status
from overlay.ids import LinkClass

__all__ = ["Activity", "Client", "Event", "Gap", "LinkClass", "Status", "Subscription", "connect"]
