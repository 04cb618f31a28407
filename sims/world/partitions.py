"""Faults of the network that concern many hosts: partitions.

A partition puts every host on a side; nothing passes between hosts of different sides. Modelled as
TCP shows it to a process: a link across looks up at both ends although all that is sent on it is
lost, until its retransmissions have lasted too long or the network heals; then it is reset. (Two
ends that never notice are the case of :meth:`sims.world.world.World.cut`.) Calls across time out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from overlay.ids import Nanos, nanos
from sims.world.world import World

RESET_NS: Nanos = nanos(60.0)  #: a link that is cut for so long is given up by both ends' TCP


class Partition:
    """One partition of a world, from now until :meth:`heal`. A world has one at a time.

    Hosts that are in no group, such as those added later, reach everybody, and are reached.
    """

    def __init__(self, world: World, groups: Sequence[Iterable[str]]) -> None:
        self._world = world
        self._side = {uid: at for at, group in enumerate(groups) for uid in group}
        self._silent = [
            (uid, other)
            for uid, host in world.hosts.items()
            for other in host.wires
            if uid < other and self.separates(uid, other)
        ]
        world.apart = self.separates
        for pair in self._silent:
            world.silence(*pair)
        world.at(world.now + RESET_NS, self._reset)

    def separates(self, uid: str, other: str) -> bool:
        """Say whether the two are on different sides."""
        here, there = self._side.get(uid), self._side.get(other)
        return here is not None and there is not None and here != there

    def join(self, uid: str, other: str) -> None:
        """Put a host that came later on the side of ``other``."""
        self._side[uid] = self._side[other]

    def heal(self) -> None:
        """Let everybody reach everybody again; links that have lost something are reset."""
        self._world.apart = None
        self._reset()

    def _reset(self) -> None:
        silent, self._silent = self._silent, []
        for pair in silent:
            self._world.reset(*pair)
