"""A plan says where an event goes from here, by its *duty*: what its receiver is to serve.

A duty (:class:`ges.wire.events.Duty`) stands in the header of an event. Code that passes an event
on, holds it or sends it another way handles duties as they are: only a plan makes and reads them. A
duty names the brokers and units that want the event (:mod:`ges.routing.mask_plan`). While it is not
sure who they are, the duty is the end of an arc of the ring (:mod:`ges.routing.arc_plan`).
"""

from __future__ import annotations

from typing import Protocol

from ges.wire.events import Duty

#: Uids of the brokers to pass an event to, and the duty of each.
Onward = tuple[tuple[str, Duty], ...]


class Plan(Protocol):
    """Where events go from one broker. What it says holds until it is laid anew."""

    def onward(self, duty: Duty) -> Onward:
        """Return whom to pass an event to that has come with this duty."""

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return whom to pass an event to in place of a broker that does not get it from here.

        ``place`` is the ring id that it had, and ``duty`` was that broker's.
        """
