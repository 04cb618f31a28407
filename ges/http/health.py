"""Whether a broker lives, and whether it is ready to serve; for whatever restarts or calls it."""

from __future__ import annotations

import msgspec

from ges.broker import Broker
from ges.http.answers import JSON, Reply


def alive() -> Reply:
    """The event loop turns, as it answers."""
    return Reply(200, b'{"status":"ok"}\n', JSON)


def ready(broker: Broker) -> Reply:
    """Say whether clients should come here: the broker has joined, and the ring is whole here."""
    reasons = why_not_ready(broker)
    body = {"status": "unavailable", "reasons": reasons} if reasons else {"status": "ok"}
    return Reply(503 if reasons else 200, msgspec.json.encode(body) + b"\n", JSON)


def why_not_ready(broker: Broker) -> list[str]:
    """Return what keeps a broker from being ready; empty: it is."""
    if not broker.is_composed:
        return ["the broker does not listen yet"]
    if broker.is_leaving:
        return ["the broker is leaving the ring"]
    if broker.is_draining:
        return ["the broker drains: its clients go to other brokers"]
    ring = broker.node.ring
    if ring.member is None:
        return ["the broker is not on the ring"]
    if not ring.is_whole:
        return ["the ring is not whole here: its neighbours do not agree where it stands"]
    return []
