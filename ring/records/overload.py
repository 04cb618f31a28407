"""What a broker does that has taken over more than it can bear (paper 004, section 3.2).

It owns the records first, so that they have an owner, and then passes some on to the ring
neighbours with most room; if nobody has room it says that a new broker is needed. How loaded a
broker is only the layer above knows; until it says so, a record taken over counts with its share
of what its former owner had announced. Thresholds and estimates are this project's.
"""

from __future__ import annotations

from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core
from ring.facts import ProvisionerNeeded
from ring.records.backups import Backups
from ring.records.handover import Handover, Pending
from ring.records.replicas import Replicas


class Overload:
    """Keeps this broker's load below the threshold, as far as neighbours have room."""

    def __init__(
        self,
        core: Core,
        neighbourhood: Neighbourhood,
        backups: Backups,
        replicas: Replicas,
        handover: Handover,
    ) -> None:
        self._core = core
        self._neighbourhood = neighbourhood
        self._backups = backups
        self._replicas = replicas
        self._handover = handover
        self._provisioner_told = False
        handover.on_weight = self.weigh

    def begin_again(self) -> None:
        """Try those again that had no room, and say again what is needed."""
        self._handover.refusing.clear()
        self._provisioner_told = False
        self.relieve()

    def room(self, uid: str) -> int:
        """Return how much more load a broker can take, as announced, in thousandths of all."""
        if uid == self._core.peer.uid:
            load = self._backups.announced
        else:
            held = self._replicas.owners.get(uid)
            load = held.load if held is not None else 0
        return max(0, self._core.config.overload - load)

    def weigh(self, weight: int) -> None:
        """Our load has changed by ``weight``, until the layer above says better.

        That is what was taken or, if negative, given, in thousandths of full load.
        """
        self._backups.announce(self._backups.load + weight)

    def _rooms(self, pending: list[Pending]) -> dict[str, int]:
        """Return what room those around have that may take more, when ``pending`` are taken."""
        hood, leavers = self._neighbourhood, self._backups.leavers
        return {
            uid: self.room(uid) - sum(offer.weight for offer in pending if offer.to.uid == uid)
            for uid in hood.adjacent
            if uid not in hood.suspects
            and uid not in leavers
            and uid not in self._handover.refusing
        }

    def relieve(self) -> None:
        """Pass duties on while we are overloaded; ask for a new broker if nobody has room."""
        backups, handover = self._backups, self._handover
        pending = [offer for offer in handover.pending.values() if not offer.must]
        excess = backups.load - sum(p.weight for p in pending) - self._core.config.overload
        if excess <= 0 or backups.leaving or not self._core.joined or not backups.own:
            return
        weight = max(1, backups.load // len(backups.own))
        rooms = self._rooms(pending)
        # Those taken over go first, the latest before the others.
        keys = [key for key in backups.own if key not in handover.pending]
        keys.sort(key=lambda k: (backups.own[k].previous is None, -backups.own[k].changed))
        for key in keys:
            best = max(rooms, key=lambda uid: rooms[uid], default=None)
            if excess <= 0 or best is None or rooms[best] <= weight:
                break
            handover.offer(key, self._neighbourhood.adjacent[best], weight, must=False)
            if key not in handover.pending:
                return  # as many as may be under way; their answers bring us back
            rooms[best] -= weight
            excess -= weight
        if excess > 0:
            self.ask_provisioner(excess)

    def ask_provisioner(self, excess: int) -> None:
        """Ask for a new broker, once until there is room again (section 3.2).

        ``excess`` is what nobody has room for, in thousandths of full load.
        """
        if not self._provisioner_told:
            self._provisioner_told = True
            self._core.notify(ProvisionerNeeded(self._backups.load, excess))
