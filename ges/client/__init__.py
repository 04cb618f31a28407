"""The client library. Runs on trio; its door is :func:`connect`.

``client`` (publish and subscribe), ``attachment`` (to a broker, and to the next one), ``search``
(for a broker), ``keepalive``, ``watermarks`` (what has come already), ``outgoing`` (packing
events), ``certified`` (a certificate that changes).
"""

from __future__ import annotations

from ges.client.client import Client, Subscription, connect

__all__ = ["Client", "Subscription", "connect"]
