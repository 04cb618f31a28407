"""Heartbeats on ring links, and the silence that makes a neighbour suspect.

Anything heard on a link counts as a sign of life. A slow observer doubts itself first: if our own
timers come much too late, the process stood still, and all deadlines move by that pause; else a
broker waking from ``SIGSTOP`` would accuse everybody it had not listened to.
"""

from __future__ import annotations

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.core import Core, Timer
from ring.links import Links
from ring.messages import Heartbeat, Member
from ring.neighbourhood import Neighbourhood


class Detector:
    """Sends this broker's heartbeats and watches those of its ring neighbours."""

    def __init__(self, core: Core, links: Links, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood

    def start(self) -> None:
        """Begin to send heartbeats, at a random phase."""
        self._core.arm(
            Timer.HEARTBEAT, "", self._core.rng.randrange(self._core.config.heartbeat_ns)
        )

    def forgive_pause(self, now: Nanos) -> None:
        """Called before timers run: notice that this process stood still."""
        core = self._core
        due = core.timers.next_deadline()
        if due is None or now - due <= core.config.heartbeat_ns:
            return
        pause = now - due
        core.timers.shift(pause)
        for link in self._links.up.values():
            link.heard_at = min(link.heard_at + pause, now)  # some may be heard since

    def on_heartbeat_due(self) -> None:
        core = self._core
        core.arm(Timer.HEARTBEAT, "", core.config.heartbeat_ns)
        beat = Heartbeat(self._neighbourhood.version)
        for uid, link in self._links.up.items():
            if link.on_ring:
                core.send(uid, beat)

    def on_silent(self, uid: str) -> Member | None:
        """Return the neighbour to suspect, or None if it was heard meanwhile."""
        core = self._core
        link = self._links.up.get(uid)
        if link is None:
            return None
        quiet_until = link.heard_at + core.config.silence_ns
        if quiet_until > core.now:
            core.timers.set((Timer.SILENT, uid), quiet_until)
            return None
        core.arm(Timer.SILENT, uid, core.config.silence_ns)
        if link.member is None:  # it never took its place: nobody to suspect, but no link either
            self._links.close(uid, Closed.LOST)
        return link.member
