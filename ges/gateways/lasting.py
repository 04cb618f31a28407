"""Which brokers count as linked to this one: paths are not to move for what lasts a moment.

A link that was lost counts for 0.4 s more, unless its other end is dead: it may be back. A link to
a ring neighbour counts at once, another one when it has lasted for 5 s, as a broker that seeks a
chord is linked to many for a moment. Until a link has lasted for so long it is *fresh*: its other
end may be a newcomer that has no slot yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from overlay.ids import Nanos, nanos

LASTED_NS = nanos(5.0)  #: a link to a broker that is no ring neighbour counts after so long
GRACE_NS = nanos(0.4)  #: a link that was lost counts for so long, unless its other end is dead


class Lasting:
    """The brokers that are linked, since when, and those that were just now."""

    def __init__(self) -> None:
        #: When another one counts, or counts no more, or is fresh no more.
        self.look_at: Nanos | None = None
        self.fresh: frozenset[str] = frozenset()  #: of those that counted at the last look
        self._since: dict[str, Nanos] = {}
        self._lost: dict[str, Nanos] = {}  #: since when

    def look(
        self,
        linked: Collection[str],
        near: Collection[str],
        now: Nanos,
        is_kept: Callable[[str], bool],
    ) -> set[str]:
        """Return the uids of those that count.

        Args:
            linked: who is linked.
            near: the ring neighbours.
            now: the time.
            is_kept: whether the link to one of that uid is to count for a moment when it is lost.
        """
        self._lost = {
            uid: at
            for uid in self._since
            if uid not in linked
            and now < (at := self._lost.get(uid, now)) + GRACE_NS
            and is_kept(uid)
        }
        since = self._since
        self._since = {uid: since.get(uid, now) for uid in (*linked, *self._lost)}
        counting = set(self._lost)
        due = [at + GRACE_NS for at in self._lost.values()]
        fresh = set()
        for uid, begun in self._since.items():
            has_lasted = now >= begun + LASTED_NS
            if uid in near or has_lasted:
                counting.add(uid)
            if not has_lasted:
                fresh.add(uid)
                due.append(begun + LASTED_NS)
        self.fresh = frozenset(fresh & counting)
        self.look_at = min(due, default=None)
        return counting
