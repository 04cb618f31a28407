"""Whether this broker is on the ring, for those who have to wait until it is.

A broker that has just started is not, and one that must join anew is not for a while. One that the
ring rejects before it has ever joined will never be.
"""

from __future__ import annotations

import trio


class OnRing:
    """Says whether the broker is a member of the ring, and lets others wait for it."""

    def __init__(self) -> None:
        self.rejection: str | None = None  #: why the ring will not have this broker
        self._member = trio.Event()
        self._decided = trio.Event()

    def is_set(self) -> bool:
        """Say whether this broker is a member now."""
        return self._member.is_set()

    async def wait(self) -> None:
        """Wait until this broker is a member."""
        await self._member.wait()

    async def decided(self) -> None:
        """Wait until this broker has joined for the first time, or is rejected."""
        await self._decided.wait()

    def joined(self) -> None:
        """This broker is a member from now on."""
        self._member.set()
        self._decided.set()

    def rejoining(self) -> None:
        """This broker is a member no longer, and joins anew."""
        if self._member.is_set():  # else those who wait would wait for the wrong event
            self._member = trio.Event()

    def rejected(self, reason: str) -> None:
        """The ring will not have this broker; once it has been a member, it goes on trying."""
        if not self._decided.is_set():
            self.rejection = reason
            self._decided.set()
