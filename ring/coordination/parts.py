"""The parts that one broker's protocol consists of, and which of them each is built upon.

Each part is one rule, or one role, of the paper, and knows only the parts handed to it here. Rules
for several of them at once are in the coordinators: :mod:`~ring.coordination.views`,
:mod:`~ring.coordination.membership`, :mod:`~ring.coordination.deaths`,
:mod:`~ring.coordination.link_events`, in this order; each of them uses the parts, and the
coordinators before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from overlay.ids import Peer
from ring.circle.chords import Chords
from ring.circle.drawn_chords import DrawnChords
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.circle.searches import Routing
from ring.config import ChordStrategy, RingConfig
from ring.core import Core
from ring.detection.detector import Detector
from ring.detection.event_links import EventLinks
from ring.detection.local_health import LocalHealth
from ring.detection.suspicions import Suspicions
from ring.detection.tellers import Tellers
from ring.detection.witness import WitnessTests
from ring.joining.gap_owner import GapOwner
from ring.joining.merge import Merge
from ring.joining.newcomer import Newcomer
from ring.records.duties import Duties
from ring.repair.chord_queries import ChordQueries
from ring.repair.closing import Repair
from ring.repair.dead_runs import DeadRuns
from ring.repair.detours import Detours
from ring.repair.link_backups import LinkBackups


@dataclass(slots=True)
class Parts:
    """The parts of one ring node."""

    core: Core
    links: RingLinks
    hood: Neighbourhood
    detector: Detector
    suspicions: Suspicions
    tests: WitnessTests
    tellers: Tellers
    link_backups: LinkBackups
    repair: Repair
    routing: Routing
    chords: Chords
    dead_runs: DeadRuns
    event_links: EventLinks
    duties: Duties
    newcomer: Newcomer
    owner: GapOwner
    detours: Detours
    chord_queries: ChordQueries
    merge: Merge

    @classmethod
    def build(cls, config: RingConfig, peer: Peer, rng: random.Random) -> Parts:
        """Return new parts that share one core."""
        core = Core(config, peer, rng)
        links = RingLinks(core)
        hood = Neighbourhood(core, links)
        health = LocalHealth()
        detector = Detector(core, links, hood, health)
        routing = Routing(core, links, hood)
        of_kind = Chords if config.chords is ChordStrategy.RANK else DrawnChords
        chords = of_kind(core, links, hood, routing)
        detours = Detours(core, links, hood)
        link_backups = LinkBackups(core, links, hood)
        return cls(
            core=core,
            links=links,
            hood=hood,
            detector=detector,
            suspicions=Suspicions(core, links, hood, detector, health),
            tests=WitnessTests(core, links, detector, health),
            tellers=Tellers(core),
            link_backups=link_backups,
            repair=Repair(core, links, hood, link_backups),
            routing=routing,
            chords=chords,
            dead_runs=DeadRuns(core, links, hood, routing),
            event_links=EventLinks(core, links, detector, health),
            duties=Duties(core, links, hood),
            newcomer=Newcomer(core, links, hood),
            owner=GapOwner(core, links, hood, chords),
            detours=detours,
            chord_queries=ChordQueries(core, links, routing, detours),
            merge=Merge(core, links, hood),
        )
