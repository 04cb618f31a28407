"""A plan says where an event goes from here, by its *duty*: what its receiver is to serve.

A duty is four bytes of the header of an event. Whoever passes an event on, holds it or sends it
another way handles duties as they are, and does not look into them: only a plan makes and reads
them. Today a duty is the end of an arc of the ring (:mod:`ges.routing.arc_plan`), or nothing where
an event goes to everybody (:mod:`ges.routing.flood_plan`).
"""

from __future__ import annotations

from typing import Protocol

Duty = bytes

#: Uids of the brokers to pass an event to, and the duty of each; going right on the ring.
Onward = tuple[tuple[str, Duty], ...]


class Plan(Protocol):
    """Where events go from one broker. What it says holds until it is laid anew."""

    def onward(self, duty: Duty) -> Onward:
        """Return whom to pass an event to that has come with this duty."""

    def instead(self, place: int, duty: Duty) -> Onward:
        """Return whom to pass an event to in place of the broker that stood at ``place``.

        ``place`` is a ring id, and ``duty`` was that broker's.
        """
