"""Notices that another process uses this broker's uid: others refuse its links then, and say so."""

from __future__ import annotations

from dataclasses import dataclass

from ges.telling.part import RingView
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Fact, LinkRefused, Notify, Refused

IN_USE_NS = nanos(1)  #: others must say so for that long ...
FORGET_IN_USE_NS = nanos(60)  #: ... and this is told once in that time


@dataclass(frozen=True, slots=True)
class UidInUse(Fact):
    """Others hold this broker's uid for that of another process, which started later."""

    url: str  #: of one who says so


class UidWatch:
    """Tells when others have met a later life of this broker that is in another process.

    One refusal proves nothing: this process may have begun a later life itself, and the refusal
    answers a call of the life before. So others must say it for a second.
    """

    def __init__(self, ring: RingView) -> None:
        self._ring = ring
        self._since: Nanos | None = None  #: when others began to say so
        self._is_told = False

    def on_refused(self, event: LinkRefused, now: Nanos) -> list[Effect]:
        """Take note that a link of the ring was refused."""
        if self._ring.member is None or event.reason is not Refused.UID_IN_USE:
            return []  # a newcomer is told why it has not joined
        if self._since is None or now > self._since + FORGET_IN_USE_NS:
            self._since, self._is_told = now, False
        elif now >= self._since + IN_USE_NS and not self._is_told:
            self._is_told = True
            return [Notify(UidInUse(event.url))]
        return []
