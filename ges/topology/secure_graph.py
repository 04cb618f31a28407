"""Who can be reached over secure links alone.

Every broker that holds an identity floods the list of its secure links, so all know the graph of
secure links: the part of the multigraph that secure events may use (paper 004, section 3.3.4). It
is asked while units change, when events go to all. Then a
broker that is known but cannot be reached in it is the reason to refuse. Where every broker has
secure links to all its ring neighbours, secure events can follow the same tree as others do; each
broker says so of itself.

What is heard may be false: :mod:`ges.topology.secure_graph_repair` puts it right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ges.wire.broker_messages import MAX_SECURE_LINKS, SecureState
from overlay.circular import following, is_after
from overlay.ids import short
from ring.geometry import between

MAX_ORIGINS = 4096
MAX_LISTED = 64 * MAX_ORIGINS  #: secure links in all lists together
LIST_BYTES = 400  #: of memory for a list, beside ...
LISTED_BYTES = 105  #: ... each link in it
FREE_AGAIN = 3 / 4  #: no more than this share of either is taken: there is room again


class SecureGraph:
    """The lists heard of, and what follows from them for one broker."""

    def __init__(self, own_uid: str, is_revoked: Callable[[str], bool] = lambda uid: False) -> None:
        """Take who it is for, and who counts no more, whatever is heard of it."""
        self._own_uid = own_uid
        self._is_revoked = is_revoked
        self.version = 0  #: grows with every change
        self.is_overfull = False  #: a list was left out for want of room, and not heard since
        self.left_out = 0  #: how often that was
        self._states: dict[str, SecureState] = {}
        self._listed = 0  #: secure links in all lists
        self._most_bytes: int | None = None  #: of memory for all lists; None: as many as there are
        # What follows from the lists, as long as they stay as they are.
        self._reach: frozenset[str] | None = None
        self._out_of_reach: tuple[SecureState, ...] | None = None
        self._is_complete: bool | None = None

    @property
    def memory(self) -> int:
        """Bytes of memory that all lists take."""
        return LIST_BYTES * len(self._states) + LISTED_BYTES * self._listed

    def bound(self, most_bytes: int) -> None:
        """Take no more lists than fit into so much memory."""
        self._most_bytes = most_bytes

    @property
    def states(self) -> tuple[SecureState, ...]:
        """All lists, as told to a broker newly linked."""
        return tuple(self._states.values())

    def own(
        self, incarnation: int, ring_id: int, linked: tuple[str, ...], *, complete: bool = False
    ) -> SecureState | None:
        """Set this broker's own list; returns what to flood, or None if nothing changed."""
        known = self._states.get(self._own_uid)
        linked = tuple(sorted(linked))[:MAX_SECURE_LINKS]
        if known is not None and not known.withdrawn:
            same = (known.ring_id, known.linked, known.complete)
            is_later = is_after(incarnation, known.incarnation)
            if not is_later and same == (ring_id, linked, complete):
                return None
        version = following(known.version) if known is not None else 1
        if known is not None and is_after(known.incarnation, incarnation):
            incarnation = known.incarnation  # somebody has told it of us: ours counts after that
        state = SecureState(
            self._own_uid, incarnation, version, ring_id, linked, withdrawn=False, complete=complete
        )
        self._put(state)
        return state

    def learn(self, state: SecureState) -> bool:
        """Take a list heard of; True if it was news, and is to be passed on.

        If it is news of this broker itself, :meth:`own` puts it right.
        """
        known = self._states.get(state.origin)
        if known is not None and not _is_newer(state, known):
            return False
        more = len(state.linked) - (len(known.linked) if known is not None else 0)
        if (known is None and not self._has_room()) or self._is_too_much(
            more, is_new=known is None
        ):
            self.is_overfull = True
            self.left_out += 1
            return False
        self._put(state)
        return True

    @property
    def has_much_room(self) -> bool:
        """Say whether lists that were left out will find room, should they be told again."""
        living = sum(not state.withdrawn for state in self._states.values())
        if self._most_bytes is not None and self.memory > FREE_AGAIN * self._most_bytes:
            return False
        return living <= FREE_AGAIN * MAX_ORIGINS and self._listed <= FREE_AGAIN * MAX_LISTED

    def state_of(self, uid: str) -> SecureState | None:
        """Return the list of a broker, as it is known here."""
        return self._states.get(uid)

    def _has_room(self) -> bool:
        """Say whether there is room for one more origin, if need be in place of one that is gone.

        Should that one come back, it says so of itself.
        """
        if len(self._states) < MAX_ORIGINS:
            return True
        states = self._states.items()
        gone = next((u for u, state in states if state.withdrawn and u != self._own_uid), None)
        if gone is None:
            return False
        del self._states[gone]
        return True

    def _is_too_much(self, more: int, *, is_new: bool) -> bool:
        """Say whether ``more`` links in lists, and perhaps one more list, are too much."""
        if self._listed + more > MAX_LISTED:
            return True
        growth = LISTED_BYTES * more + (LIST_BYTES if is_new else 0)
        most = self._most_bytes
        return most is not None and growth > 0 and self.memory + growth > most

    def withdraw(self, uid: str, incarnation: int) -> SecureState | None:
        """A broker was seen to go; returns what to flood, or None if it is known to be gone."""
        known = self._states.get(uid)
        if known is None or known.withdrawn or is_after(known.incarnation, incarnation):
            return None
        version = following(known.version)
        state = SecureState(uid, known.incarnation, version, known.ring_id, (), withdrawn=True)
        self._put(state)
        return state

    def withdraw_between(self, here: int, there: int) -> list[SecureState]:
        """There is nobody on the arc from ``here`` to ``there``; returns what to flood.

        Of brokers that die side by side some have no neighbour left that could see them go. One
        that is taken for gone although it lives says so (:meth:`learn`).
        """
        gone = [
            state
            for state in self._states.values()
            if between(here, state.ring_id, there) and state.origin != self._own_uid
        ]
        found = (self.withdraw(state.origin, state.incarnation) for state in gone)
        return [state for state in found if state is not None]

    @property
    def is_complete(self) -> bool:
        """Every broker that holds an identity has secure links to all its ring neighbours."""
        if self._is_complete is None:
            self._is_complete = all(
                state.complete or state.withdrawn or self._is_revoked(uid)
                for uid, state in self._states.items()
            )
        return self._is_complete

    def out_of_reach(self) -> tuple[SecureState, ...]:
        """Return the brokers that hold an identity and cannot be reached over secure links."""
        if self._out_of_reach is None:
            reach = self._reached()
            self._out_of_reach = tuple(
                state
                for uid, state in self._states.items()
                if not (state.withdrawn or uid in reach or uid == self._own_uid)
                and not self._is_revoked(uid)
            )
        return self._out_of_reach

    def reaches_anybody(self) -> bool:
        """Say whether there is any broker to be reached over secure links."""
        return len(self._reached()) > 1

    def _reached(self) -> frozenset[str]:
        if self._reach is None:
            self._reach = frozenset(self._tree(self._own_uid)) | {self._own_uid}
        return self._reach

    def reckon(self) -> None:
        """Who is revoked has changed."""
        self.version += 1
        self._reach = self._out_of_reach = self._is_complete = None

    def _put(self, state: SecureState) -> None:
        known = self._states.pop(state.origin, None)  # the one changed last stands last
        self._listed += len(state.linked) - (len(known.linked) if known is not None else 0)
        self._states[state.origin] = state
        self.reckon()

    def _tree(self, origin: str) -> dict[str, str]:
        """Return uid -> parent, breadth first from ``origin``; a link counts if both list it."""
        parents: dict[str, str] = {}
        queue = deque([origin])
        while queue:
            uid = queue.popleft()
            state = self._states.get(uid)
            for other in state.linked if state is not None else ():
                there = self._states.get(other)
                if other == origin or other in parents or there is None:
                    continue
                if self._is_revoked(other):
                    continue
                if uid in there.linked:
                    parents[other] = uid
                    queue.append(other)
        return parents


def describe(states: tuple[SecureState, ...]) -> str:
    """Name brokers, for the reason of a refusal."""
    names = [f"{short(state.origin)} (ring id {state.ring_id})" for state in states[:3]]
    more = f" and {len(states) - 3} more" if len(states) > 3 else ""
    return ", ".join(names) + more


def _is_newer(state: SecureState, known: SecureState) -> bool:
    if state.incarnation != known.incarnation:
        return is_after(state.incarnation, known.incarnation)
    return is_after(state.version, known.version)
