"""What routing knows of the cluster: its members, their slots, next hops, and units beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ges.gateways.next_hops import Moves, NextHops
from overlay.ids import LinkClass


class Cluster(Protocol):
    """What routing knows of the members; a :class:`ges.gateways.gateways_part.GatewaysPart`."""

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none."""

    @property
    def is_for_all(self) -> bool:
        """This broker has a slot, and so has every other one."""

    @property
    def slots(self) -> Mapping[str, int]:
        """The slots of the members, by uid."""

    @property
    def uids(self) -> Mapping[int, str]:
        """The members, by slot."""

    @property
    def places(self) -> Mapping[int, str]:
        """The members, by ring id."""

    @property
    def tables(self) -> Mapping[LinkClass, NextHops]:
        """Next hops by class of links."""

    @property
    def version(self) -> int:
        """Another number whenever next hops or members have changed."""

    @property
    def known(self) -> int:
        """The members and the units that an event can be for, as a mask."""

    @property
    def own(self) -> int:
        """This broker and the units that it is in, as a mask."""

    @property
    def own_units(self) -> int:
        """The units that this broker is in, as a mask."""

    @property
    def levels(self) -> int:
        """How many levels of destinations there are."""

    @property
    def namings(self) -> int:
        """Another number whenever destinations are named otherwise than before."""

    def own_at(self, level: int) -> int | None:
        """Return the node of this broker's own unit of a level, as others see it."""

    def gate(self, node: int, link_class: LinkClass, without: str = "") -> str | None:
        """Return the uid of the broker of another unit to whom events for it go from here."""

    def now_at(self, slots: int) -> int:
        """Return the units in which those stand now that had these slots, as a mask."""

    def toward(self, address: int) -> int:
        """Return the node at which a packed address lies, as a mask; 0: here, or unknown."""

    def node_at(self, place: int) -> int | None:
        """Return the other unit in which a ring id lies; None: this cluster, or unknown."""

    def common_level(self, place: int) -> int:
        """Return the level of the smallest unit in which both this broker and a ring id are."""

    @property
    def address(self) -> int | None:
        """This broker's packed address."""

    def take_moves(self) -> Mapping[LinkClass, Moves]:
        """Return, once, what has moved to other next hops."""
