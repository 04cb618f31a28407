"""Events as they come into a unit of this broker: whom in here each copy is for.

Subscribers are named as :mod:`ges.routing.entering` says. Of the queue groups the source has chosen
a unit for each. In there the first broker that gets the event chooses who serves those groups, by a
hash (:meth:`ges.delivery.choosing.Choosing.inside`). Where nobody in here has members of a group
any more, another unit is tried. What is said of groups for other units is kept, as the event may go
on there. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from ges.delivery.sharing import Sharing, Unserved
from ges.gateways.cluster import Cluster
from ges.routing.entering import Entering, Wanting
from ges.units.nodes import from_level, node_at
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from ges.wire.groups import Serving


class ComingIn:
    """What one broker makes of events that come over a gate."""

    def __init__(self, cluster: Cluster, mask_of: Wanting, sharing: Sharing) -> None:
        """``sharing`` is told of events for groups that have no members in the unit."""
        self._cluster = cluster
        self._entering = Entering(cluster, mask_of)
        self._sharing = sharing

    def duties(self, run: EventRun, every: int) -> Iterator[tuple[EventRun, Duty]]:
        """Yield the events, with what this broker is to do for them.

        ``every``: members and units that get them whether they want them or not.
        """
        duty, serving = run.head.duty, run.serving()
        if serving is not None and serving.tried:
            yield from self._handed(run, serving)
            return
        entered = self._entering.duty(run.head, every)
        if serving is not None and serving.has_places and not duty.address:
            serving = None  # places name brokers of all units: there is nobody to be chosen
        if serving is None or not (duty.address or self._entering.is_inside(duty)):
            yield run, entered
        elif duty.address:  # it is recalled: its broker finds out whom in its unit it was for
            level = node_at(duty.entering, 0)
            if not serving.has_places:
                named = {key: node for key, node in serving.slots.items() if node >= level}
                run = run.flat().ungrouped().grouped(Serving(named))
            yield run, entered
        else:
            for part, chosen in self._shared(run, serving):
                yield part, entered._replace(destinations=entered.destinations | chosen)

    def _shared(self, run: EventRun, serving: Serving) -> Iterator[tuple[EventRun, int]]:
        """Yield events with who serves the groups that were given to this broker's unit.

        Also yield these brokers, or units inside, as a mask.
        """
        level = run.head.duty.entering
        own, choosing = self._cluster.own_at(level), self._sharing.choosing
        kept = choosing.kept_inside(serving, level)
        keys = [key for key, node in serving.slots.items() if node == own]
        plain = run.flat().ungrouped()
        if not keys:
            yield plain.grouped(Serving(kept)) if kept else plain, 0
            return
        for event in plain.split():
            slots, mask = dict(kept), 0
            for key in keys:
                node = choosing.inside(event, key, level)
                if node is None:
                    self._sharing.unserved.append(Unserved(event, key, self._own_unit(level)))
                else:
                    slots[key] = node
                    mask |= 1 << node
            yield event.grouped(Serving(slots)) if slots else event, mask

    def _handed(self, run: EventRun, serving: Serving) -> Iterator[tuple[EventRun, Duty]]:
        """Yield events that were handed on, for one member each and for nobody else."""
        level = run.head.duty.entering
        own = self._cluster.own_at(level)
        beyond = self._entering.beyond(run.head.duty)
        keys = [key for key, node in serving.slots.items() if node == own]
        if not keys:
            yield run, beyond
            return
        tried = from_level(serving.tried, level) | self._own_unit(level)
        for event in run.flat().ungrouped().split():
            for key in keys:
                node = self._sharing.choosing.inside(event, key, level)
                if node is None:
                    self._sharing.unserved.append(Unserved(event, key, tried))
                    continue
                handed = event.grouped(Serving({key: node}, tried))
                yield handed, beyond._replace(destinations=1 << node)

    def _own_unit(self, level: int) -> int:
        own = self._cluster.own_at(level)
        return 1 << own if own is not None else 0
