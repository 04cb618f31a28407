"""Brokers that this one is cut off from for a while, on purpose: no link to them, either way."""

from __future__ import annotations

from overlay.ids import Nanos


class Severed:
    """Whom no links are made to, and taken from. Each cut ends by itself."""

    def __init__(self) -> None:
        self._until: dict[str, Nanos] = {}

    def sever(self, uid: str, until: Nanos) -> None:
        """Begin a cut, or let one last longer or shorter."""
        self._until[uid] = until

    def unite(self, uid: str) -> None:
        """End a cut, if there is one."""
        self._until.pop(uid, None)

    def count(self, now: Nanos) -> int:
        """Return how many brokers are cut off; forgets cuts that are over."""
        self._until = {uid: until for uid, until in self._until.items() if until > now}
        return len(self._until)

    def has(self, uid: str | None, now: Nanos) -> bool:
        """Say whether that broker is cut off now."""
        return uid in self._until and self._until[uid] > now
