"""Chords by rank, with pointer doubling, each within a tolerance.

Level 0 is right-right; the chord of level j+1 is the level-j chord of one's level-j chord. So level
j leads about 2^(j+1) brokers to the right whatever the ids are, and the levels end by themselves
where the next one would come round to this broker again: about log2(n) of them.

Departs from the paper, which draws chords uniformly at random (004, section 3.2): with those,
greedy routes grow like sqrt(n).

A join or a death shifts the ranks of everybody beyond it by one, so exact ranks would cost O(n)
messages for each. Therefore a chord stays while its rank is within a tolerance, three quarters to
one and a half of 2^(j+1); only one out of it, or dead, makes place for another. An answer says how
many brokers to the right the one named stands, as its sender counts, so errors do not add up from
level to level. Where another broker is named than the chord, the rank of the chord follows from
that of the one named by their distances.

The broker that is named is taken if its rank is exact. Else a search looks for the broker at the
place where the exact one should stand by distance. Chords of chords would run together otherwise:
two brokers that share a chord are named the same one for the next level, and in the end a few
brokers would be the far chords of all.

A slow refresh asks all levels anew, O(log n) messages a broker, and keeps these counts true. Only
what leaves a hole is told at once, to those who asked for that level: a level that exists where
there was none, or one whose broker died; and another right-right, as the one broker that asked for
it may have taken the old one for the end of its levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from overlay.ids import Nanos, Peer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.circle.searches import Finding, Routing
from ring.core import Core, Timer
from ring.facts import ChordLost, ChordRepaired
from ring.geometry import RING_SIZE, clockwise
from ring.wire.messages import ChordAnswer, ChordQuery, Member

MAX_LEVELS = 31
MAX_ASKERS = 256
RIGHT_RIGHT = 2  #: its rank
LEAST, MOST = 0.75, 1.5  #: the tolerance: the rank of a chord that stays over the exact one


class Shortcut(Protocol):
    """Asks chords for theirs without messages, where a driver can look into other brokers."""

    def ask(self, chords: Sequence[Member]) -> Sequence[tuple[Member | None, int]] | None:
        """Return what each would answer, member and rank; None if they are to be asked."""

    def done(self, chords: Sequence[Member]) -> None:
        """All the answers were taken: both ends have heard each other."""


class Chords:
    """This broker's chords, nearest level first."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, routing: Routing
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._routing = routing
        self.levels: list[Member] = []  #: levels[0] is right-right
        self._ranks: list[int] = []  #: by level: how many brokers to the right, as counted
        self._asked: dict[int, str] = {}  #: level -> uid asked for its chord of that level
        self._answered: set[int] = set()  #: levels whose chord has answered
        self._sought: dict[int, tuple[Member, int]] = {}  #: level -> who was named, and its rank
        self._askers: dict[str, set[int]] = {}  #: uid -> levels it wants to be told of
        self._lost: dict[str, None] = {}  #: uids of dead chords that are not replaced yet
        self._moved_at: Nanos | None = None  #: when right-right last became another
        self._untold = False  #: askers do not know right-right as it is now
        self.shortcut: Shortcut | None = None  #: of a driver that can look into other brokers

    @property
    def wanted(self) -> dict[str, Peer]:
        """Peers beyond right-right to keep links to."""
        return {member.uid: member.peer for member in self.levels[1:]}

    def start(self) -> None:
        """Arm the timer of the next refresh, a jittered ``chord_refresh_ns`` from now."""
        self._core.arm(Timer.CHORDS, "", self._core.jitter(self._core.config.chord_refresh_ns))

    def on_refresh_due(self) -> bool:
        """Ask every level's chord again; say whether it is done already, and has moved none."""
        self.start()
        if self._untold:
            self._untold = False
            self._tell_askers(0)
        if self.shortcut is not None and self.confirm(self.shortcut):
            return True
        self._asked.clear()
        self._answered.clear()
        self.follow()
        return False

    def follow(self) -> None:
        """Make level 0 right-right as it is now, and ask for what is not known."""
        second = self._neighbourhood.right[1:2]
        if second and self._is_ring_of_three():
            second = ()
        if not second:
            self._cut(0)
        elif not self.levels:
            self._append(second[0], RIGHT_RIGHT)
        elif self.levels[0] != second[0] and not self._neighbourhood.candidates:
            self.levels[0] = second[0]  # who is still being linked might take its place again
            self._on_moved()
        for level, member in enumerate(self.levels):
            if level + 1 < MAX_LEVELS and level not in self._asked:
                if member.uid not in self._links.up:
                    break
                self._asked[level] = member.uid
                self._answered.discard(level)
                self._core.send(member.uid, ChordQuery(level))

    def on_query(self, uid: str, query: ChordQuery) -> None:
        """Name our chord of that level, and remember who asked."""
        if len(self._askers) < MAX_ASKERS or uid in self._askers:
            self._askers.setdefault(uid, set()).add(query.level)
        self._core.send(uid, self._answer(query.level))

    def on_answer(self, uid: str, answer: ChordAnswer) -> None:
        """Take the chord of level+1 from our chord of ``level``; late answers are ignored."""
        level = answer.level
        if self._asked.get(level) != uid or level >= len(self.levels):
            return
        member = answer.member
        if member is not None and self._neighbourhood.is_dead(member.uid, member.incarnation):
            return  # it will hear of that death, and tell us whom it puts in place
        self._answered.add(level)
        if member is not None and not self._extends(level, member):
            member = None
        rank = self._ranks[level] + (answer.rank or _exact(level))
        if member is not None and self.levels[level + 1 : level + 2] == [member]:
            self._ranks[level + 1] = rank
        elif level + 1 == len(self.levels) or not self._keeps(level + 1, member, rank):
            if member is None:
                self._cut(level + 1)
            else:
                self._place(level + 1, member, rank)
        self.follow()

    def named(self, asker: str, level: int) -> tuple[Member | None, int] | None:
        """Return what we answer to a query of ``asker``, which has asked before; else None."""
        if level not in self._askers.get(asker, ()):
            return None
        if level < len(self._ranks):
            return self.levels[level], self._ranks[level]
        return (None, 0) if level >= len(self.levels) else None

    def confirm(self, shortcut: Shortcut) -> bool:
        """Ask all levels without messages; say whether it was done, and moved no chord.

        Ranks are counted anew, as by :meth:`on_answer`. Where it would do more than that, nothing
        is changed, and all are to be asked in earnest.
        """
        levels, hood = self.levels, self._neighbourhood
        if self._lost or self._sought or self._untold:
            return False
        if not levels or hood.right[1:2] != (levels[0],):
            return False
        if len(self._asked) != len(levels) or len(self._answered) != len(levels):
            return False
        answers = shortcut.ask(levels)
        if answers is None:
            return False
        here, ranks, last = self._core.member.ring_id, self._ranks.copy(), len(levels) - 1
        reach = far = 0
        for level, (member, counted) in enumerate(answers):
            reach = (levels[level].ring_id - here) % RING_SIZE
            if member is not None:
                if hood.is_dead(member.uid, member.incarnation):
                    return False
                far = (member.ring_id - here) % RING_SIZE
                if far <= reach:
                    member = None  # it would come round
            if level == last:
                if member is not None:
                    return False
                break
            chord = levels[level + 1]
            rank = ranks[level] + (counted or _exact(level))
            if member is not None and (member is chord or member == chord):
                ranks[level + 1] = rank
                continue
            if not self._extends(level, chord):
                return False
            there = (chord.ring_id - here) % RING_SIZE
            known, way = (ranks[level], reach or 1) if member is None else (rank, far)
            stands = known * there / way
            if not _is_within_tolerance(level + 1, stands):
                return False
            ranks[level + 1] = round(stands)
        self._ranks = ranks
        shortcut.done(levels)
        return True

    def on_link_gone(self, uid: str) -> None:
        """Forget what was asked of, or by, a broker that is linked no more."""
        self._askers.pop(uid, None)
        self._asked = {level: other for level, other in self._asked.items() if other != uid}

    def on_dead(self, uid: str, heir: Member | None) -> None:
        """A broker is dead or gone: its heir, a rank off at most, takes its place."""
        self.on_link_gone(uid)
        for level, member in enumerate(self.levels[1:], start=1):
            if member.uid == uid:
                self._core.notify(ChordLost(uid))
                self._lost[uid] = None
                if heir is not None and self._extends(level - 1, heir):
                    self.levels[level] = heir
                    self._tell_askers(level)
                else:
                    self._asked.pop(level - 1, None)
                    self._cut(level)
                break

    def check(self) -> None:
        """Notice that all levels have been found anew and lead to linked brokers."""
        if not self._lost:
            return
        settled = all(
            level in self._answered and member.uid in self._links.up
            for level, member in enumerate(self.levels)
        )
        if settled:
            for uid in self._lost:
                self._core.notify(ChordRepaired(uid))
            self._lost.clear()

    def clear(self) -> None:
        """Forget all levels: this broker is off the ring."""
        self.levels.clear()
        self._ranks.clear()
        self._asked.clear()
        self._answered.clear()
        self._sought.clear()
        self._askers.clear()
        self._lost.clear()
        self._moved_at, self._untold = None, False

    def _on_moved(self) -> None:
        """Right-right is another. If it moves on and on, as when rings merge, wait for the end.

        Else each step would move the chords of O(log n) others; all are asked anew soon after.
        """
        core = self._core
        before, self._moved_at = self._moved_at, core.now
        if before is None or core.now - before > core.config.heartbeat_ns:
            self._asked.pop(0, None)
            self._tell_askers(0)
        elif not self._untold:
            self._untold = True
            core.arm(Timer.CHORDS, "", core.jitter(2 * core.config.heartbeat_ns))

    def _place(self, level: int, named: Member, rank: int) -> None:
        """Make ``named`` the chord of ``level`` if its ``rank`` is exact, else search for that one.

        Where the exact one would come round, ``named`` has to do.
        """
        here = self._core.member.ring_id
        way = clockwise(here, named.ring_id) * _exact(level) // rank
        if rank == _exact(level) or way >= RING_SIZE:
            self._set(level, named, rank)
        elif level not in self._sought:
            self._sought[level] = named, rank
            self._routing.find((here + way) % RING_SIZE, partial(self._on_searched, level))

    def _on_searched(self, level: int, finding: Finding) -> None:
        """Take who stands where an exact chord should; if that is of no use, who was named."""
        if level not in self._sought:
            return  # off the ring meanwhile
        named, rank = self._sought.pop(level)
        if level > len(self.levels):
            return
        for member in (finding.member, named):
            if member is None or not self._extends(level - 1, member):
                continue
            counted = self._counted(member, named, rank)
            if member == named or _is_within_tolerance(level, counted):
                self._set(level, member, round(counted))
                break
        self.follow()

    def _set(self, level: int, member: Member, rank: int) -> None:
        """Make ``member`` the chord of ``level``, which may be a new one."""
        if level == len(self.levels):
            self._append(member, rank)
        else:
            if self.levels[level] != member:
                self._asked.pop(level, None)
            self.levels[level], self._ranks[level] = member, rank

    def _append(self, member: Member, rank: int) -> None:
        """There is one level more."""
        self.levels.append(member)
        self._ranks.append(rank)
        self._tell_askers(len(self.levels) - 1)

    def _keeps(self, level: int, named: Member | None, rank: int) -> bool:
        """Say whether the chord of ``level`` stays; if so, its rank is counted anew.

        ``named``, ``rank``: another broker that would be exact; None where that would come round.
        """
        chord = self.levels[level]
        if not self._extends(level - 1, chord):
            return False
        if named is None:
            named, rank = self.levels[level - 1], self._ranks[level - 1]
        counted = self._counted(chord, named, rank)
        if not _is_within_tolerance(level, counted):
            return False
        self._ranks[level] = round(counted)
        return True

    def _counted(self, member: Member, known: Member, rank: int) -> float:
        """Return the rank of ``member`` by its distance, that of ``known`` being ``rank``."""
        here = self._core.member.ring_id
        way = clockwise(here, known.ring_id) or 1  # who stands at our own id is not where it says
        return rank * clockwise(here, member.ring_id) / way

    def _is_ring_of_three(self) -> bool:
        hood = self._neighbourhood
        return len({m.uid for m in (*hood.left, *hood.right)}) < 3

    def _extends(self, level: int, member: Member) -> bool:
        """Say whether ``member`` lies beyond level ``level`` and before we come round again."""
        core, hood = self._core, self._neighbourhood
        if member.uid == core.peer.uid or hood.is_dead(member.uid, member.incarnation):
            return False
        if self._links.is_over(member) and not self._links.leads_to(member):
            return False  # who names it has not heard of that, and may name it for long
        here = core.member.ring_id
        reach = clockwise(here, self.levels[level].ring_id)
        return clockwise(here, member.ring_id) > reach

    def _cut(self, level: int) -> None:
        """Drop ``level`` and all beyond it."""
        if level < len(self.levels):
            del self.levels[level:], self._ranks[level:]
            self._tell_askers(level)
        self._asked = {at: uid for at, uid in self._asked.items() if at < level}

    def _answer(self, level: int) -> ChordAnswer:
        if level >= len(self.levels):
            return ChordAnswer(level, None)
        rank = self._ranks[level] if level < len(self._ranks) else 0  # drawn chords have none
        return ChordAnswer(level, self.levels[level], rank)

    def _tell_askers(self, level: int) -> None:
        """Tell those who asked for ``level``, if it is of use to them: it may come round there."""
        answer = self._answer(level)
        for uid, levels in sorted(self._askers.items()):
            link = self._links.up.get(uid)
            if level in levels and link is not None and self._serves(link.member, answer.member):
                self._core.send(uid, answer)

    def _serves(self, asker: Member | None, chord: Member | None) -> bool:
        """Say whether ``chord`` lies beyond us as ``asker`` sees it; if that is known."""
        if asker is None or chord is None:
            return True
        here, there = self._core.member.ring_id, asker.ring_id
        return clockwise(there, chord.ring_id) > clockwise(there, here)


def _exact(level: int) -> int:
    """Return the rank that a chord of that level is to have."""
    return RIGHT_RIGHT << level


def _is_within_tolerance(level: int, rank: float) -> bool:
    return LEAST <= rank / _exact(level) <= MOST
