"""Heartbeats of a link on which nothing happens, taken many at once.

An example: B beats to A, its left neighbour, every half second. As long as both live and the link
is in order, a heartbeat changes four things: when B has last told A something, when A has last
heard B, how late B's heartbeats come, and when the next one is due. A driver that knows when each
heartbeat leaves and arrives can do without the message and the two timers: it takes B's timer and
A's out of their tables (:meth:`CalmBeats.begin`, :meth:`CalmWatch.begin`), has the four things
changed when somebody is about to look at them, and puts the timers back once the link is calm no
more. The simulator does so (:mod:`sims.world.quiet`); brokers do not.

Each class is one end's part, and knows that broker alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.ids import Nanos
from ring.coordination.parts import Parts
from ring.core import Timer
from ring.detection.detector import SUPPRESSED


class CalmBeats:
    """The sender's part: its heartbeats to its only monitor."""

    __slots__ = ("_beat", "_key", "_parts", "_turn", "due", "monitor", "until")

    def __init__(self, parts: Parts, monitor: str, due: Nanos) -> None:
        self._parts = parts
        self._beat = parts.detector.beat_to(monitor)
        self._key = (Timer.HEARTBEAT, monitor)
        self.monitor = monitor
        self.due = due  #: when the next one is
        self._turn: int | None = None  #: of the timer that was taken
        self.until: Nanos | None = None  #: what is due then is to be done in earnest; None: nothing

    @classmethod
    def begin(cls, parts: Parts, now: Nanos) -> CalmBeats | None:
        """Take the timer of the heartbeats; None if they are not calm."""
        monitor = parts.detector.only_monitor
        if monitor is None:
            return None
        due = parts.core.timers.deadline((Timer.HEARTBEAT, monitor))
        if due is None:
            return None
        beats = cls(parts, monitor, due)
        if not beats.is_calm(now):
            return None
        return beats

    def take_timer(self) -> None:
        """From now on heartbeats are sent by :meth:`sent`."""
        taken = self._parts.core.timers.take(self._key)
        if taken is not None:
            self._turn = taken[1]

    def is_calm(self, now: Nanos) -> bool:
        """Say whether the next heartbeat is a heartbeat and nothing else."""
        parts, monitor = self._parts, self.monitor
        beat = self._beat
        link = parts.links.up.get(monitor)
        if beat is None or parts.detector.beat_to(monitor) is not beat or beat.in_place:
            return False
        if link is None or link.detoured or parts.detector.only_monitor != monitor:
            return False
        if parts.core.timers.deadline(self._key) not in (None, self.due):
            return False
        self.until = parts.link_backups.silent_until()
        return self.until is None or self.until > max(now, self.due)

    def sent(self, until: Nanos) -> list[Nanos]:
        """Send what is due by ``until``; return when each left.

        See :meth:`ring.detection.detector.Detector.on_heartbeat_due`, which does one at a time.
        """
        beat, core, monitor = self._beat, self._parts.core, self.monitor
        assert beat is not None
        due, period, told = self.due, core.config.heartbeat_ns, core.told.get(monitor, 0)
        times = []
        while due <= until:
            before, beat.looked_at = beat.looked_at, due
            if told > before and beat.suppressed < SUPPRESSED:
                beat.suppressed += 1
                if told + period > due:
                    due = told + period
                    continue
            else:
                beat.suppressed = 0
            told = due
            times.append(due)
            due += period
        if due > self.due:
            self._turn = core.timers.turn()
        self.due = due
        if times:
            core.told[monitor] = told
        return times

    def end(self) -> None:
        """Put the timer back, if these heartbeats still are to be sent."""
        parts = self._parts
        beat, timers = self._beat, parts.core.timers
        if beat is None or parts.detector.beat_to(self.monitor) is not beat:
            return
        if self._key not in timers:
            timers.set(self._key, self.due, self._turn)


class CalmWatch:
    """The monitor's part: what it hears."""

    __slots__ = ("_armed", "_key", "_link", "_parts", "_watch", "sender")

    def __init__(self, parts: Parts, sender: str) -> None:
        self._parts = parts
        self._watch = parts.detector.watch_of(sender)
        self._link = parts.links.up.get(sender)
        self._key = (Timer.SILENT, sender)
        self._armed: Nanos | None = None  #: when the timer is next that was taken; None: it was not
        self.sender = sender

    def take_timer(self) -> None:
        """From now on the sender is heard by :meth:`heard`."""
        taken = self._parts.core.timers.take(self._key)
        if taken is not None:
            self._armed = taken[0]

    def is_calm(self, version: int, now: Nanos) -> bool:
        """Say whether a heartbeat that names that version of a view is a sign of life, no more."""
        parts, sender, watch, link = self._parts, self.sender, self._watch, self._link
        if watch is None or link is None or parts.links.up.get(sender) is not link:
            return False
        if watch.link is not link or parts.detector.watch_of(sender) is not watch or link.detoured:
            return False
        if link.view is None or link.view.version < version:
            return False
        config = parts.core.config
        if link.heard_at + config.heartbeat_ns + config.lateness_ns <= now:
            return False
        if self._armed is None and self._key not in parts.core.timers:
            return False
        return (
            parts.core.joined
            and watch.lateness.samples > 0
            and parts.detector.is_in_time(watch)
            and sender not in parts.suspicions.open
            and not parts.tests.concerns(sender)
            and not parts.dead_runs.concerns(sender)
        )

    def heard(self, times: Iterable[Nanos], now: Nanos) -> None:
        """Heartbeats have come at these times up to ``now``; nothing else was done here meanwhile.

        The timer comes up too early again and again, and is set anew by what was heard until then.
        """
        watch, link, armed = self._watch, self._link, self._armed
        assert watch is not None
        assert link is not None
        assert armed is not None
        config = self._parts.core.config
        silence = config.heartbeat_ns + config.lateness_ns
        heard, period, most = link.heard_at, config.heartbeat_ns, config.lateness_max_ns
        lateness = watch.lateness
        mean, deviation = lateness.mean, lateness.deviation
        for at in times:
            while armed < at:
                armed = max(armed + 1, heard + silence)
            late = at - heard - period
            error = (0 if late < 0 else min(late, most)) - mean  # as MeanDeviation.add
            mean += error // 8
            deviation += (abs(error) - deviation) // 4
            if at > heard:
                heard = at
        lateness.mean, lateness.deviation = mean, deviation
        while armed <= now:
            armed = max(armed + 1, heard + silence)
        link.heard_at, self._armed = heard, armed

    def end(self) -> None:
        """Put the timer back, if that neighbour still is watched."""
        parts, watch, sender = self._parts, self._watch, self.sender
        if watch is None or parts.detector.watch_of(sender) is not watch:
            return
        armed, timers = self._armed, parts.core.timers
        if armed is None or parts.links.up.get(sender) is not self._link:
            return
        if self._key not in timers:
            timers.set(self._key, armed)
