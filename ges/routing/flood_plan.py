"""To everybody linked: where the tree may have holes, a secure event goes over all secure links."""

from __future__ import annotations

from ges.routing.plan import Onward
from ges.wire.events import Duty


class FloodPlan:
    """A :class:`~ges.routing.plan.Plan` that tells all; whoever has an event already drops it."""

    def __init__(self) -> None:
        self.uids: tuple[str, ...] = ()  #: at the other end of the links it uses

    def onward(self, duty: Duty) -> Onward:
        """Return all, each with the duty it has come with."""
        return tuple((uid, duty) for uid in self.uids)

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return all: any of them may lead to those behind the broker that is gone."""
        return self.onward(duty)
