"""Pings and questions to chords that are answered at the moment at which they are asked.

An example: A asks all its chords for theirs, every ten seconds or so. Each of them names whom it
named before. The answer changes no more than the times at which both ends have heard each other,
and perhaps the ranks that A counts. :class:`Answers` looks the answers up where they are, and notes
at both ends what a message and its answer would have changed there, with the times at which these
would have come. It does so only if nothing is amiss between the two: else there are messages, as in
any world.

Something else that happens at either end while they would have been under way, a millisecond or so,
sees them as having come already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from overlay.ids import Nanos
from overlay.machine import Send
from ring.circle.links import RingLink
from ring.coordination.parts import Parts
from ring.wire.messages import ChordAnswer, ChordQuery, Member, Pong, Purpose
from sims.world.network import Latency
from sims.world.timeline import Timeline
from sims.world.world import Host, Pipe

#: A member and its rank, as a chord names it.
Named = tuple[Member | None, int]


#: Of a link to a chord: ours, the chord's, and whom the chord has told something when.
_Ends = tuple[RingLink, RingLink, dict[str, Nanos]]


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
        self.is_used = True  #: else all that is asked is asked by messages
        self._at_rest: set[str] = set()  #: uids
        self._ends: list[_Ends] = []  #: of the links to those that were asked last
        #: Told of what was left out: who would have sent it, and what; None: nobody wants to know.
        self.on_left_out: Callable[[str, Send], None] | None = None

    def look(self, uid: str) -> None:
        """Something has happened at a broker: see whether a sign of life changes anything there."""
        parts = self._parts[uid]
        if (
            self.is_used
            and is_undisturbed(self._hosts[uid])
            and parts.core.joined
            and not parts.core.detours
            and not parts.suspicions.open
            and parts.tests.is_at_rest
            and parts.dead_runs.is_at_rest
        ):
            self._at_rest.add(uid)
        else:
            self._at_rest.discard(uid)

    def is_answered(self, uid: str, other: str, token: int, wire: Pipe) -> bool:
        """Do a ping and its answer in one step, if that is all there is to it."""
        at_rest = self._at_rest
        if uid not in at_rest or other not in at_rest or wire.silenced:
            return False
        if self._hosts[other].wires.get(uid) is not wire:
            return False
        here, there = self._parts[uid], self._parts[other]
        ahead, back = here.links.up.get(other), there.links.up.get(uid)
        if ahead is None or back is None or there.link_backups.has_news(uid):
            return False
        now = self._timeline.now
        asked, answered = self._round_trip(uid, other, wire) if token else (now, now)
        if self.on_left_out is not None:
            self.on_left_out(other, Send(uid, Pong(token)))
        there.core.told[uid] = back.heard_at = asked
        ahead.heard_at = answered
        if token:
            here.core.now = answered
            here.detector.on_pong(other, token)
            here.core.now = now
        return True

    def ask(self, uid: str, chords: Sequence[Member]) -> list[Named] | None:
        """Return what the chords of a broker answer to it; None if one is to be asked."""
        at_rest, hosts, parts = self._at_rest, self._hosts, self._parts
        if uid not in at_rest:
            return None
        up, wires = parts[uid].links.up, hosts[uid].wires
        answers, ends = [], []
        for level, chord in enumerate(chords):
            other = chord.peer.uid
            wire = wires.get(other)
            if wire is None or other not in at_rest or wire.silenced:
                return None
            if hosts[other].wires.get(uid) is not wire:
                return None
            there = parts[other]
            link, back = up.get(other), there.links.up.get(uid)
            if link is None or back is None:
                return None  # there is a link of which one of them has not heard yet
            answer = there.chords.named(uid, level)
            if answer is None:
                return None
            answers.append(answer)
            ends.append((link, back, there.core.told))
        self._ends = ends
        return answers

    def note_asked(self, uid: str, chords: Sequence[Member]) -> None:
        """A broker has asked its chords, and taken the answers."""
        now, told = self._timeline.now, self._parts[uid].core.told
        for level, (chord, (link, back, told_back)) in enumerate(
            zip(chords, self._ends, strict=True)
        ):
            other = chord.peer.uid
            asked = answered = now
            if link.purpose is Purpose.RING or link.remote is Purpose.RING:
                wire = self._hosts[uid].wires[other]
                asked, answered = self._round_trip(uid, other, wire)
            told[other] = now
            told_back[uid] = back.heard_at = asked
            link.heard_at = answered
            if self.on_left_out is not None:
                member, rank = self._parts[other].chords.named(uid, level) or (None, 0)
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
