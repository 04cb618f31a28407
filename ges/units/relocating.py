"""What a broker does while the whole unit in which it stands joins another context.

For example, cluster 0.1.0 with three brokers is to join super-cluster 0.2, and there is room for it
(:mod:`ges.units.room`). Its steward tells its brokers, and each tells those that it is linked to in
the arc of the unit; so all hear of it, whoever dies. Then they move one after the other.

* The first broker of the unit goes first: it leaves its place on the ring, and joins at the place
  that is its own in the new arc (:mod:`ges.units.relocated`). If it does not get that it comes back
  to its old place, and nobody else moves.
* Once it is there it tells those that it was linked to before; they tell all others, and from then
  on nobody stays behind. In each cluster one broker moves at a time, from the left: the next one
  once it hears that the one before is there, or after 6 s.
* A broker that comes to the new place brings the tables of the unit along, as they were when it
  heard of the move: the parts keep their numbers. All slots rest in them, and each broker asks for
  its own, as one that was dead for a moment does.
* A broker that comes later than that, or dies on its way, is a newcomer like all others.
"""

from __future__ import annotations

from collections.abc import Callable

from ges.telling.arcs import Arc
from ges.telling.post import Mail
from ges.units.contexts import LEVELS, Contexts
from ges.units.facts import RelocationBegun, RelocationEnded
from ges.units.membership import Beside, Membership
from ges.units.relocated import Shift
from ges.units.table import ClusterTable, arc_of
from ges.units.unit_names import UnitNames, at_level, without_end, written
from ges.units.unit_rows import is_sound, unit_arcs
from ges.wire.relocation_messages import Relocate, Relocated, Relocation
from ges.wire.unit_messages import TOP_LEVEL, MemberTable, UnitTable
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Notify, Send
from ring.geometry import RING_SIZE
from ring.joining.guide import Aim

BEGIN_NS = nanos(1.0)  #: from when a broker hears of it until the first one goes
STEP_NS = nanos(0.1)  #: from when the one before is there until the next one goes
STAGGER_NS = nanos(0.5)  #: between the first brokers of two clusters
PATIENCE_NS = nanos(6.0)  #: who hears nothing of the one before waits so long
SOON_NS = nanos(0.3)  #: those left behind are told again after this, and then ...
AGAIN_NS = nanos(1.0)  #: ... so often, as are all that stand in the old arc
MAX_THERE = 1024  #: brokers of which it is known that they are there
FORGET_NS = nanos(60.0)  #: where nobody has moved in this time, nobody will
PLACE_NS = nanos(10.0)  #: a broker tries to get just its place so long ...
BACK_NS = nanos(30.0)  #: ... then its old one, or any in the new arc, for so long in all


class Relocating:
    """One broker's part in the move of its unit."""

    def __init__(
        self,
        around: Beside,
        contexts: Contexts,
        cluster: ClusterTable,
        membership: Membership,
    ) -> None:
        self.mail: list[Mail] = []  #: for those that stood beside this broker, to be taken
        self.problem: str | None = None  #: why this broker's unit has not moved, for people
        self.lost: Callable[[Relocation, Nanos], list[Effect]] = lambda relocation, now: []
        self._around = around
        self._contexts = contexts
        self._cluster = cluster
        self._membership = membership
        self._forget()
        self._ended: list[int] = []  #: numbers of those that are over here, the last few
        self._settled: tuple[Relocation, Nanos] | None = None  #: where this broker has come to
        self._told: list[Mail] = []  #: what was told then

    def _forget(self) -> None:
        self.held: Relocation | None = None  #: what this broker takes part in
        self.goes = False  #: somebody is in the new place
        self._since: Nanos = 0
        self._goes_at: Nanos = 0
        self._units: list[UnitTable] = []  #: in the unit, as they come to be
        self._members: MemberTable | None = None
        self._clusters: list[Arc] = []  #: of the unit, as they are
        self._first_since: Nanos | None = None  #: first in its cluster
        self._before: str | None = None  #: uid of the last left neighbour in the cluster
        self._there: set[str] = set()  #: uids of those that are in the new place
        self._again_at: Nanos = 0
        self._home: int | None = None  #: where it stood, once it is under way
        self._left_at: Nanos = 0
        self._tries = 0
        self._behind: dict[str, int] = {}  #: linked to before: uid, and where it stands

    @property
    def is_under_way(self) -> bool:
        """This broker's unit moves."""
        return self.held is not None

    def shape(self, relocation: Relocation) -> bool:
        """Say whether all that is known of the unit has a place of its own in the new arc."""
        units, members, _ = self._moved(relocation)
        places = [] if members is None else [row.member.ring_id for row in members.rows]
        return all(map(is_sound, units)) and len(set(places)) == len(places)

    # ── what others say ───────────────────────────────────────────────────────────────────────

    def begin(self, relocation: Relocation, now: Nanos) -> list[Effect]:
        """Take part in the move of this broker's unit, and tell others."""
        return self.on_relocate(Relocate(relocation, goes=False), now)

    def on_relocate(self, message: Relocate, now: Nanos) -> list[Effect]:
        """Somebody of the unit says that it moves."""
        told, member = message.relocation, self._around.member
        if member is None or not Arc(told.lo, told.hi).holds(member.ring_id):
            return []
        if told.number in self._ended and not message.goes:
            return []
        if len(told.names) != TOP_LEVEL + 1 - told.level:
            return []  # a broker of this software does not say so
        is_other = self.held is not None and self.held.number != told.number
        is_new = self.held is None or (is_other and not self.goes)
        effects: list[Effect] = []
        if is_new:
            self._note_end()
            self._forget()
            self.held, self._since = told, now
            self._units, self._members, self._clusters = self._moved(told)
            effects.append(Notify(RelocationBegun(written(told.names), told.to_lo)))
        elif is_other:
            return []
        has_begun = message.goes and not self.goes
        if has_begun:
            self.goes, self._goes_at = True, now
        return [*effects, *self._tell(now)] if is_new or has_begun else effects

    def on_relocated(self, uid: str, relocated: Relocated, now: Nanos) -> list[Effect]:
        """One that was linked to here is in the new place."""
        self._contexts.note_left(Arc(relocated.lo, relocated.hi), now)
        if self.held is None or relocated.number != self.held.number:
            return []
        if len(self._there) < MAX_THERE:
            self._there.add(uid)
        return self.on_relocate(Relocate(self.held, goes=True), now)

    # ── as time passes ────────────────────────────────────────────────────────────────────────

    def aim(self, now: Nanos) -> Aim | None:
        """Return where this broker is to stand as it comes back to the ring; None: anywhere."""
        if self.held is None or self._home is None:
            return None
        away = now - self._left_at
        if away < PLACE_NS:
            self._tries += 1  # where one place is taken the next one may be free
            return _at(Shift.of(self.held).place(self._home) + self._tries - 1)
        if away >= BACK_NS:
            return None
        return Aim(self.held.to_lo, self.held.to_hi) if self.goes else _at(self._home)

    def follow(self, now: Nanos) -> list[Effect]:
        """Settle in where this broker has come to, or see whether it is its turn to move."""
        member, held = self._around.member, self.held
        if member is None:
            return []
        if held is None:
            return self._keep_room(now)
        here = member.ring_id
        if self._home is None:
            if Arc(held.lo, held.hi).holds(here):
                self._see_turn(here, now)
                return []
            return self._end(written(self._contexts.names), is_there=False)
        if Arc(held.to_lo, held.to_hi).holds(here):
            return self._settle_in(held, now)
        self.problem = (
            "its first broker got no place there, and has come back; see the logs of the brokers "
            "there, and try again"
        )
        return self._end(written(self._contexts.names), is_there=False)

    def next_deadline(self) -> Nanos | None:
        """Return when this broker is to tell others again, to move or to give up; or None."""
        if self._around.member is None or self._home is not None:
            return None
        if self.held is None:
            return self._again_at if self._settled is not None else None
        turn = self._turn()
        ends = [self._again_at] if self.goes else [self._again_at, self._since + FORGET_NS]
        return min(ends if turn is None else [*ends, turn])

    def handle_timers(self, now: Nanos) -> tuple[list[Effect], str | None]:
        """Tell others again; and return why this broker is to leave its place now, if it is to."""
        held, member = self.held, self._around.member
        if held is None or self._home is not None or member is None:
            return [], None
        if not self.goes and now >= self._since + FORGET_NS:
            self.problem = "nobody of the unit has moved in time; try again"
            return self._end(written(self._contexts.names), is_there=False), None
        turn = self._turn()
        is_turn = turn is not None and now >= turn
        effects = self._tell(now) if now >= self._again_at or is_turn else []
        if not is_turn:
            return effects, None
        self._home, self._left_at, self._tries = member.ring_id, now, 0
        self._behind = dict(self._around.linked)
        return effects, f"its unit moves to ring id {held.to_lo}"

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _moved(
        self, relocation: Relocation
    ) -> tuple[list[UnitTable], MemberTable | None, list[Arc]]:
        """Return the tables of the unit as they come to be, and its clusters as they are."""
        shift, units = Shift.of(relocation), []
        clusters = [shift.before]
        for level in range(relocation.level - 1, 0, -1):
            table = self._contexts.table(level)
            if table is None or not shift.before.covers(arc_of(table)):
                break
            units.append(shift.units(table))
            if level == 1:
                clusters = [arc for _, arc in unit_arcs(table)]
        members = self._cluster.table
        if members is None or not self._cluster.fits:
            members = None
        return units, None if members is None else shift.members(members), clusters

    def _tell(self, now: Nanos) -> list[Effect]:
        """Tell all that are linked and stand in the arc."""
        held = self.held
        assert held is not None, "only for who takes part"
        self._again_at = now + AGAIN_NS
        arc, message = Arc(held.lo, held.hi), Relocate(held, self.goes)
        return [Send(uid, message) for uid, at in self._around.linked.items() if arc.holds(at)]

    def _see_turn(self, here: int, now: Nanos) -> None:
        """Note whether this broker stands first in its cluster, of those that have not moved."""
        cluster, left = self._cluster_of(here), self._around.left
        is_behind = left is not None and cluster.holds(left.ring_id)
        if left is not None and is_behind and cluster.at(left.ring_id) < cluster.at(here):
            self._first_since, self._before = None, left.uid
        elif self._first_since is None:
            self._first_since = now

    def _cluster_of(self, place: int) -> Arc:
        assert self.held is not None, "only for who takes part"
        whole = Arc(self.held.lo, self.held.hi)
        return next((arc for arc in self._clusters if arc.holds(place)), whole)

    def _turn(self) -> Nanos | None:
        """Return when this broker is to move, as things are; None: others go first."""
        first_since, member = self._first_since, self._around.member
        if first_since is None or member is None:
            return None
        cluster = self._cluster_of(member.ring_id)
        number = self._clusters.index(cluster) if cluster in self._clusters else 0
        if self.goes and self._before is None:
            return self._goes_at + number * STAGGER_NS
        if self.goes and self._before in self._there:
            return first_since + STEP_NS
        if number and not self.goes:
            return None  # the first cluster begins
        if self._before is not None:
            return first_since + PATIENCE_NS
        return self._since + BEGIN_NS

    def _settle_in(self, held: Relocation, now: Nanos) -> list[Effect]:
        """Bring the tables of the unit along, and tell those that have not moved."""
        inner = [at_level(self._contexts.names, level) for level in LEVELS if level < held.level]
        names: UnitNames = without_end((*held.names, *inner))
        self._contexts.names = names
        effects = self._contexts.settle_in((*held.tables, *self._units), now)
        if self._members is not None:
            effects += self._membership.settle_in(self._members, now)
        done = Relocated(held.number, held.lo, held.hi)
        mail = [Mail(uid, done, place) for uid, place in self._behind.items()]
        effects += self._end(written(names), is_there=True)
        self.mail += mail
        self._told, self._settled, self._again_at = mail, (held, now), now + SOON_NS
        return effects

    def _keep_room(self, now: Nanos) -> list[Effect]:
        """For a while, see to it that the unit has its row, and that all hear who is there."""
        if self._settled is None or now < self._again_at:
            return []
        held, since = self._settled
        self._again_at = now + AGAIN_NS
        if now < since + PATIENCE_NS:
            self.mail += self._told  # letters may be lost while places change
        if now >= since + FORGET_NS:
            self._settled = None
        table = self._contexts.table(held.level)
        member = self._around.member
        is_gone = table is not None and all(row.lo != held.to_lo for row in table.rows)
        is_here = member is not None and Arc(held.to_lo, held.to_hi).holds(member.ring_id)
        return self.lost(held, now) if is_gone and is_here else []

    def _end(self, names: str, *, is_there: bool) -> list[Effect]:
        self._note_end()
        self._forget()
        return [Notify(RelocationEnded(names, is_there))]

    def _note_end(self) -> None:
        if self.held is not None:
            self._ended = [*self._ended[-7:], self.held.number]


def _at(place: int) -> Aim:
    return Aim(place % RING_SIZE, (place + 1) % RING_SIZE)


def path_names(contexts: Contexts, level: int) -> UnitNames:
    """Return the names of the units around those of a level, from the top; empty: no name."""
    above = (contexts.unit(each) for each in range(TOP_LEVEL, level, -1))
    return tuple(unit.name if unit is not None else "" for unit in above)
