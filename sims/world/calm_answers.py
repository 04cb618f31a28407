"""Pings and questions to chords that are answered at the moment at which they are asked.

An example: A asks all its chords for theirs, every ten seconds or so. Each of them names whom it
named before. What changes is when both ends have heard each other, and perhaps the ranks that A
counts. :class:`Answers` looks the answers up where they are, and notes at both ends what a message
and its answer would have changed there, with the times at which these would have come. It does so
only if nothing is amiss between the two: else there are messages, as in any world.

Something else that happens at either end while they would have been under way, a millisecond or so,
sees them as having come already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from overlay.ids import Nanos
from overlay.machine import Send
from ring.coordination.parts import Parts
from ring.wire.messages import ChordAnswer, ChordQuery, Member, Pong
from sims.world.network import Latency
from sims.world.timeline import Timeline
from sims.world.world import Host, Pipe

#: A member and its rank, as a chord names it.
Named = tuple[Member | None, int]


class Answers:
    """Answers at once what a broker asks of others, where that is all there is to it."""

    def __init__(
        self,
        timeline: Timeline,
        hosts: Mapping[str, Host],
        parts: Mapping[str, Parts],
        latency: Latency,
    ) -> None:
        self._timeline = timeline
        self._hosts = hosts
        self._parts = parts
        self._latency = latency
        #: Told of what was left out: who would have sent it, and what; None: nobody wants to know.
        self.on_left_out: Callable[[str, Send], None] | None = None

    def is_answered(self, uid: str, other: str, token: int, wire: Pipe) -> bool:
        """Do a ping and its answer in one step, if that is all there is to it."""
        ours, theirs = self._hosts[uid], self._hosts[other]
        if theirs.wires.get(uid) is not wire or wire.silenced:
            return False
        if not is_undisturbed(ours) or not is_undisturbed(theirs):
            return False
        here, there = self._parts[uid], self._parts[other]
        ahead, back = here.links.up.get(other), there.links.up.get(uid)
        if ahead is None or back is None or not here.core.joined or not there.core.joined:
            return False
        if here.core.detours or there.core.detours or there.link_backups.has_news(uid):
            return False
        if concerns(here, other) or concerns(there, uid):
            return False
        asked, answered = self._round_trip(uid, other, wire)
        if self.on_left_out is not None:
            self.on_left_out(other, Send(uid, Pong(token)))
        there.core.told[uid] = back.heard_at = asked
        ahead.heard_at = answered
        if token:
            now, here.core.now = here.core.now, answered
            here.detector.on_pong(other, token)
            here.core.now = now
        return True

    def ask(self, uid: str, chords: Sequence[Member]) -> list[Named] | None:
        """Return what the chords of a broker answer to it; None if one is to be asked."""
        here, ours = self._parts[uid], self._hosts[uid]
        if here.core.detours or not is_undisturbed(ours):
            return None
        up, wires, hosts, parts = here.links.up, ours.wires, self._hosts, self._parts
        answers = []
        for level, chord in enumerate(chords):
            other = chord.peer.uid
            theirs, wire = hosts[other], wires.get(other)
            if wire is None or theirs.wires.get(uid) is not wire or wire.silenced:
                return None
            if not theirs.alive or theirs.paused or theirs.clock is not None or other not in up:
                return None
            there = parts[other]
            if not there.core.joined or there.core.detours or uid not in there.links.up:
                return None
            if concerns(here, other) or concerns(there, uid):
                return None
            answer = there.chords.named(uid, level)
            if answer is None:
                return None
            answers.append(answer)
        return answers

    def note_asked(self, uid: str, chords: Sequence[Member]) -> None:
        """A broker has asked its chords, and taken the answers."""
        here, now, parts = self._parts[uid], self._timeline.now, self._parts
        up, told, wires, watched = (
            here.links.up,
            here.core.told,
            self._hosts[uid].wires,
            here.detector,
        )
        for level, chord in enumerate(chords):
            other = chord.peer.uid
            there = parts[other]
            asked = answered = now
            if watched.watches(other) or there.detector.watches(uid):
                asked, answered = self._round_trip(uid, other, wires[other])
            told[other] = now
            there.core.told[uid] = there.links.up[uid].heard_at = asked
            up[other].heard_at = answered
            if self.on_left_out is not None:
                member, rank = there.chords.named(uid, level) or (None, 0)
                self.on_left_out(uid, Send(other, ChordQuery(level)))
                self.on_left_out(other, Send(uid, ChordAnswer(level, member, rank)))

    def _round_trip(self, uid: str, other: str, wire: Pipe) -> tuple[Nanos, Nanos]:
        """Return when a message that is sent now comes, and when its answer does."""
        now, last, latency = self._timeline.now, wire.last, self._latency
        asked = max(now + latency.way(uid, other).at(now), last.get(uid, 0) + 1)
        answered = max(asked + latency.way(other, uid).at(asked), last.get(other, 0) + 1)
        last[uid], last[other] = asked, answered
        return asked, answered


class AskChords(NamedTuple):
    """A :class:`ring.circle.chords.Shortcut`: what the chords of one broker name."""

    answers: Answers
    uid: str

    def ask(self, chords: Sequence[Member]) -> list[Named] | None:
        """Return what each would answer, member and rank; None if they are to be asked."""
        return self.answers.ask(self.uid, chords)

    def done(self, chords: Sequence[Member]) -> None:
        """All the answers were taken: both ends have heard each other."""
        self.answers.note_asked(self.uid, chords)


def is_undisturbed(host: Host) -> bool:
    """Say whether a process runs, and its clock is right."""
    return host.alive and not host.paused and host.clock is None


def concerns(parts: Parts, uid: str) -> bool:
    """Say whether a sign of life of ``uid`` would change anything."""
    return (
        uid in parts.suspicions.open or parts.tests.concerns(uid) or parts.dead_runs.concerns(uid)
    )
