"""Chords drawn by lot: to ids at harmonic or at uniform distances, or none at all.

Departs from the paper, which draws chords uniformly at random (004, section 3.2), in the harmonic
rule: it draws the distance with a density of 1/x, which makes greedy routes logarithmic
(J. Kleinberg, "The small-world phenomenon", 2000; G. Manku, M. Bawa and P. Raghavan, "Symphony",
2003). They are here to compare with chords by rank; both take ids for evenly spread, which joins
make them only roughly.

As many chords are drawn as rank would have, log2(n) - 1, with n estimated from how dense ids are
around. The broker nearest to the id drawn is found by a routed search. There is no level to ask
for: a refresh draws what is missing and asks every chord for a sign of life, O(log n) messages.
"""

from __future__ import annotations

from math import log2

from overlay.ids import Peer
from overlay.machine import Closed
from ring.circle.chords import Chords
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.circle.searches import Finding, Routing
from ring.config import ChordStrategy
from ring.core import Core
from ring.facts import ChordLost, ChordRepaired
from ring.geometry import RING_SIZE, clockwise
from ring.wire.messages import Member, Ping

MAX_DRAWN = 31
MAX_DRAWING = 4  #: searches at once
MAX_IN_VAIN = 8  #: draws between two refreshes that gave no new chord


class DrawnChords(Chords):
    """Right-right and what was drawn, by distance going right."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, routing: Routing
    ) -> None:
        super().__init__(core, links, neighbourhood, routing)
        self._drawn: dict[str, Member] = {}
        self._drawing = 0
        self._in_vain = 0

    @property
    def wanted(self) -> dict[str, Peer]:
        """Return the peers to keep links to, by uid."""
        return {uid: member.peer for uid, member in self._drawn.items()}

    def on_refresh_due(self) -> bool:
        """Ping all chords, give up those silent for three refreshes, and draw what is missing."""
        self.start()
        self._in_vain = 0
        long_ago = self._core.now - 3 * self._core.config.chord_refresh_ns
        for uid in list(self._drawn):
            link = self._links.up.get(uid)
            if link is not None and link.heard_at < long_ago:
                self._links.close(uid, Closed.LOST)
                self.on_dead(uid, None)
            elif link is not None:
                self._core.send(uid, Ping(0))
        self.follow()
        return False

    def follow(self) -> None:
        """Bring the levels up to date, the nearest to the right first; draw what is missing."""
        here = self._core.member.ring_id
        second = () if self._is_ring_of_three() else self._neighbourhood.right[1:2]
        near = [member.uid for member in second]
        drawn = sorted(
            (m for uid, m in self._drawn.items() if uid not in near),
            key=lambda m: (clockwise(here, m.ring_id), m.uid),
        )
        self.levels[:] = [*second, *drawn]
        while (
            second
            and self._drawing < MAX_DRAWING
            and self._in_vain < MAX_IN_VAIN
            and len(self._drawn) + self._drawing < self._number()
        ):
            self._drawing += 1
            self._routing.find(self._draw(), self._on_found)

    def on_dead(self, uid: str, heir: Member | None) -> None:
        """Draw another chord for one that led to the dead; the heir is of no use to it."""
        self.on_link_gone(uid)
        if self._drawn.pop(uid, None) is not None:
            self._core.notify(ChordLost(uid))
            self._lost[uid] = None
            self.follow()

    def check(self) -> None:
        """State which lost chords are replaced, once all drawn ones are linked."""
        settled = not self._drawing and all(uid in self._links.up for uid in self._drawn)
        if self._lost and settled:
            for uid in self._lost:
                self._core.notify(ChordRepaired(uid))
            self._lost.clear()

    def clear(self) -> None:
        """Forget what was drawn: this broker is off the ring."""
        super().clear()
        self._drawn.clear()
        self._in_vain = 0

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _brokers(self) -> float:
        """Estimate how many brokers there are, from the width of the row known around."""
        row = self._neighbourhood.around()
        if len(row) < 3:
            return float(len(row))
        span = clockwise(row[0].ring_id, row[-1].ring_id) or RING_SIZE
        return max(len(row), RING_SIZE * (len(row) - 1) / span)

    def _number(self) -> int:
        if self._core.config.chords is ChordStrategy.NONE:
            return 0
        return min(round(log2(self._brokers())) - 1, MAX_DRAWN)

    def _draw(self) -> int:
        rng, here = self._core.rng, self._core.member.ring_id
        if self._core.config.chords is ChordStrategy.UNIFORM:
            return rng.randrange(RING_SIZE)
        return (here + int(RING_SIZE * self._brokers() ** (rng.random() - 1))) % RING_SIZE

    def _on_found(self, finding: Finding) -> None:
        self._drawing -= 1
        member = finding.member
        if not self._core.joined:
            return
        usable = (
            finding.reached
            and member is not None
            and member.uid != self._core.peer.uid
            and member.uid not in self._drawn
            and member.uid not in self._neighbourhood.adjacent
            and not self._neighbourhood.is_dead(member.uid, member.incarnation)
        )
        if usable and member is not None:
            self._drawn[member.uid] = member
        else:
            self._in_vain += 1
        self.follow()
