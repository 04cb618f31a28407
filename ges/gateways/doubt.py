"""How long no mask was sure at one broker: a share of its time on the ring."""

from __future__ import annotations

from overlay.ids import Nanos


class Doubt:
    """The share of time in which events that are published here cannot name whom they are for."""

    def __init__(self) -> None:
        self._since: Nanos | None = None  #: this was noted last; None: the broker is off the ring
        self._is_unsure = False
        self._unsure: Nanos = 0
        self._all: Nanos = 0

    def note(self, *, is_unsure: bool | None, now: Nanos) -> None:
        """Note how it is from now on; None: the broker is off the ring, which does not count."""
        if self._since is not None:
            self._all += now - self._since
            self._unsure += now - self._since if self._is_unsure else 0
        self._since = None if is_unsure is None else now
        self._is_unsure = bool(is_unsure)

    def share(self, now: Nanos) -> float:
        """Return the share up to now, from 0 to 1."""
        open_ns = now - self._since if self._since is not None else 0
        unsure = self._unsure + (open_ns if self._is_unsure else 0)
        return unsure / (self._all + open_ns) if self._all + open_ns else 0.0
