"""When this broker tells of changes of its profile, and who has taken which.

The first change is told at once. Others that follow within 20 ms are told together then, and if
changes do not end, 20 times a second at most: so a client that subscribes to 1,000 filters causes a
few messages. A member that has not taken a version is told again (:mod:`ges.telling.spread`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from overlay.ids import Nanos, nanos

GAP_NS = nanos(0.02)  #: between two changes that are told
BURST = 16  #: changes told with no more than that between them ...
REFILL_NS = nanos(0.05)  #: ... and then one in so much time
MAX_GONE = 256  #: members that are gone and remembered


class Pace:
    """Whether a change may be told now."""

    def __init__(self) -> None:
        self._next: Nanos = 0  #: when a change may be told
        self._spent_until: Nanos = 0  #: when all of the burst is there again

    def due(self) -> Nanos:
        """Return when the next change may be told."""
        return max(self._next, self._spent_until - BURST * REFILL_NS)

    def spend(self, now: Nanos) -> None:
        """A change is told."""
        self._next = now + GAP_NS
        self._spent_until = max(now, self._spent_until) + REFILL_NS


@dataclass(slots=True)
class _Member:
    incarnation: int
    bound: int  #: it holds this count or a later one, or counts us as interested in everything


class Acknowledgements:
    """Which count of this broker's profile each member has taken, in this life of both."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._gone: OrderedDict[tuple[str, int], None] = OrderedDict()

    def set_members(self, members: Mapping[str, int], count: int, *, is_here: bool) -> list[str]:
        """Take the other members, with their incarnations; return those to tell what there is.

        This broker does not wait for a new member: the member counts it as interested in everything
        until it hears of ``count`` or a later version. It does wait for a member that was gone for
        a while in the same life. Where this broker is new itself (it was not ``is_here``), others
        may not know yet that it is there, and it waits for all.
        """
        for uid, member in [*self._members.items()]:
            if members.get(uid) != member.incarnation:
                del self._members[uid]
                self._gone[uid, member.incarnation] = None
        while len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)
        new = [uid for uid in members if uid not in self._members]
        for uid in new:
            was_here = (uid, members[uid]) in self._gone
            bound = count if is_here and not was_here else -1
            self._members[uid] = _Member(members[uid], bound)
        return new

    def restart(self) -> list[str]:
        """This broker's life is another one; return the members, which are all to be told."""
        members = {uid: member.incarnation for uid, member in self._members.items()}
        self._members.clear()
        self._gone.clear()  # what they hold of the last life counts no more
        return self.set_members(members, 0, is_here=False)

    def life_of(self, uid: str) -> int:
        """Return the incarnation of a member, as this broker knows it; 0: it is none."""
        member = self._members.get(uid)
        return member.incarnation if member is not None else 0

    def floor(self, count: int) -> int:
        """Return the count that all members have taken; ``count`` if there are none."""
        return min((member.bound for member in self._members.values()), default=count)

    def note_taken(self, uid: str, count: int) -> None:
        """A member holds the version of that count."""
        member = self._members.get(uid)
        if member is not None:
            member.bound = max(member.bound, count)
