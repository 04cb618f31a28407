"""A simulated ring of brokers' machines, and what must hold of their cluster at rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ges.units.planner import UnitsConfig
from ges.wire.telling_messages import (
    TELLING_MESSAGES,
    Held,
    Kind,
    Letter,
    Row,
    Rows,
    RowsWanted,
    TellTaken,
    Told,
)
from ges.wire.unit_messages import UNIT_MESSAGES
from overlay.ids import NANOS_PER_SECOND
from overlay.machine import OpenLink, Send
from ring.config import LAN, RingConfig
from sims.errors import InvariantViolated
from sims.experiments.machines import Machines
from sims.world.world import CrashMode


class UnitsRing(Machines):
    """The machines of brokers, and what they send about units."""

    def __init__(
        self, seed: int = 1, config: RingConfig = LAN, *, units: UnitsConfig | None = None
    ) -> None:
        super().__init__(seed, config, units=units)
        self.sent: Counter[str] = Counter()  #: messages about units, by name
        self.about_members = 0  #: of these, but for what is told of links and clients, and digests
        self._members_told: set[tuple[str, int]] = set()

    def agree(self, limit_s: float = 15.0) -> float:
        """Run until all that must hold of the cluster at rest does; return how long it took.

        Raises:
            InvariantViolated: it does not in time.
        """
        start = self.world.now
        while found := self.unit_findings():
            if (self.world.now - start) / NANOS_PER_SECOND >= limit_s:
                raise InvariantViolated(f"after {limit_s:g} s: {'; '.join(found)}")
            self.run(0.1)
        return (self.world.now - start) / NANOS_PER_SECOND

    def addresses(self) -> dict[str, str]:
        """Return the addresses of those that have one, as printed, by uid."""
        units = {uid: self.brokers[uid].units for uid in self.alive}
        return {uid: str(unit.address) for uid, unit in units.items() if unit.address is not None}

    def play(
        self,
        rng: random.Random,
        steps: int,
        verbs: Sequence[str],
        own: Mapping[str, Callable[[list[str]], None]],
        *,
        least: int = 4,
        pauses: Sequence[float] = (0.0, 0.05, 0.5, 3.0, 30.0),
    ) -> None:
        """Let brokers come and go in any order, and all heal at the end.

        ``own``: what a verb means, given who lives, but for those below; nobody joins while there
        is a partition. ``least``: brokers, of so few none dies or leaves.
        """
        is_apart = False
        for _ in range(steps):
            verb, alive = rng.choice(verbs), self.alive
            if verb in own and not (verb == "join" and is_apart):
                own[verb](alive)
            elif verb == "restart" and not is_apart and len(alive) < len(self.nodes):
                gone = [uid for uid in self.nodes if uid not in alive]
                self.restart(rng.choice(gone), alive)
            elif verb == "leave" and len(alive) > least:
                self.leave(rng.choice(alive))
            elif verb in ("kill", "power") and len(alive) > least:
                self.crash(rng.choice(alive), CrashMode(verb))
            elif verb == "part" and len(alive) > 3 and not is_apart:
                at = rng.randrange(1, len(alive))
                self.part([alive[at:], alive[:at]])
                is_apart = True
            elif verb == "heal":
                self.heal()
                is_apart = False
            self.run(rng.choice(pauses))
        self.heal()
        self.rest(200)

    def link(self, uid: str, other: str) -> None:
        """Let there be a link between two brokers, so that their rings become one."""
        self.world.link(uid, other)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def meet(self, some: int, others: int, pause_s: float) -> None:
        """Form two rings of these sizes, then link them; ``pause_s`` between two joins."""
        firsts = []
        for place, size in ((0, some), (1000, others)):
            half = [self.found(place)]
            while len(half) < size:
                half.append(self.start(half))
                self.run(pause_s)
            firsts.append(half[0])
        self.run(15)
        self.link(*firsts)

    def _on_sent(self, uid: str, effect: Send | OpenLink) -> None:
        super()._on_sent(uid, effect)
        if not isinstance(effect, Send):
            return
        message = effect.message
        if isinstance(message, (*TELLING_MESSAGES, *UNIT_MESSAGES)) and not isinstance(
            message, Letter
        ):
            self.sent[type(message).__name__] += 1
            if isinstance(message, Told) and message.kind == Kind.MEMBERS:
                self._members_told.add((message.origin, message.number))
            if isinstance(message, Told | TellTaken):
                self.about_members += (message.origin, message.number) in self._members_told
            elif isinstance(message, RowsWanted):
                self.about_members += message.kind == Kind.TABLES
            elif isinstance(message, Rows):
                first = msgspec.msgpack.decode(message.packed, type=list[Row])[0]
                self.about_members += first.kind in (Kind.UNIT_TABLE, Kind.MEMBER_TABLE)
            elif not isinstance(message, Held):
                self.about_members += 1
