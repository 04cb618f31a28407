"""Stories of links that fail while their brokers live (paper 004, section 3.4.2)."""

from __future__ import annotations

from overlay.ids import NANOS_PER_SECOND
from overlay.rng import rng_for
from ring.config import LAN
from ring.detection.detector import IDLE_PERIODS, IDLE_SPREAD
from ring.facts import ChordLost, Confirmed, Detoured, LinkFailed, NeighboursChanged, Rejoining
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.seen import PATIENCE_S, confirmed, told
from sims.world.cuts import Cut

#: A direct link is tried again that often at the least, and takes a time-out to fail.
BACK_S = 1.5 * LAN.retry_max_ns / 1e9 + 2.5
DEATH_S = (LAN.silence_ns + 4 * LAN.test_ns) / 1e9  #: a death behind a failed link is found in
CHORD_S = 1.5 * 4 * LAN.chord_refresh_ns / 1e9  #: a chord that fell silent is found within
CARRIER_S = (2 * LAN.silence_ns + 4 * LAN.test_ns) / 1e9  #: the same, if events go over it
CALM_S = 90.0  #: after this all chords are where they are to stay
FOUND_S = LAN.silence_max_ns / NANOS_PER_SECOND + 1.0  #: after a cut a detour stands
#: Second neighbours send each other no heartbeats; a silent link between them is found only then.
IDLE_S = (IDLE_PERIODS + IDLE_SPREAD) * LAN.heartbeat_ns / NANOS_PER_SECOND
FLAPS = 120  #: times that a link breaks, once a second ...
MAX_STARTS = 12  #: ... and is given up for a way round that often at most
TANGLES = 80  #: rings of which half the links break ...
#: ... and which are whole again after this: views are looked through with each refresh of chords.
UNTANGLED_S = 1.5 * LAN.chord_refresh_ns / 1e9 + 5


def cuts(seed: int) -> list[str]:
    """A ring link is cut for a minute: nobody moves, both go round; then one of the two dies."""
    cluster = Cluster.ring_of(12, seed)
    a, b = _beside(cluster, 1 + seed % 2)
    cluster.cut(a, b, _mode(seed))
    limit_s = FOUND_S + (IDLE_S if seed % 2 else 0)
    cluster.run(limit_s)
    found = []
    if not (b in cluster.nodes[a].detours and a in cluster.nodes[b].detours):
        found.append(f"no detour stands {limit_s:g} s after a ring link was cut")
    cluster.run(60 - limit_s)
    found += told(cluster, Confirmed, NeighboursChanged, Rejoining)
    for here, there in ((a, b), (b, a)):
        if there not in cluster.nodes[here].detours:
            found.append(f"{here[:8]} does not go round the link to {there[:8]}, cut for a minute")
        if here not in {uid for uid, _ in cluster.told(LinkFailed)}:
            found.append(f"{here[:8]} has not concluded that its link failed")
    between = cluster.nodes[a].detours.get(b, ("", ""))[1]
    if seed % 3 == 0 and between:
        b = between  # the way round breaks, and another one is found
    cluster.crash(b, POWER if seed % 2 else KILL)
    cluster.run(DEATH_S)
    for uid in cluster.alive:
        ways = cluster.nodes[uid].detours.values()
        found += [f"{uid[:8]} goes round by {b[:8]}, long dead" for way in ways if b in way]
    if confirmed(cluster) != {b}:
        found.append(f"{b[:8]} died behind a failed link, which was not noticed, or others were")
    cluster.rest(PATIENCE_S)
    return found + cluster.ledger.findings


def mended(seed: int) -> list[str]:
    """A link that was cut for a while is used again soon after it is mended."""
    rng = rng_for(seed, "mutants", "mended")
    cluster = Cluster.ring_of(5, seed)
    a, b = _beside(cluster, 1 + seed % 2)
    cut_s = rng.uniform(1, 6)
    cluster.cut(a, b, Cut.BROKEN)
    cluster.run(cut_s)
    cluster.mend(a, b)
    cluster.run(1.5 * cut_s + 2.5)  # the pause between attempts doubles, and the last may time out
    found = told(cluster, Confirmed, NeighboursChanged, Rejoining)
    if cluster.nodes[a].detours or cluster.nodes[b].detours:
        found.append("a link that was mended long ago is still gone round")
    return found + cluster.ledger.findings


def flaps(seed: int) -> list[str]:
    """A link breaks and comes back once a second: it is soon left alone for a while."""
    cluster = Cluster.ring_of(12, seed)
    a, b = _beside(cluster, 1)
    for _ in range(FLAPS):
        cluster.cut(a, b, Cut.BROKEN)
        cluster.run(0.1)
        cluster.mend(a, b)
        cluster.run(0.9)
    starts = sum(uid == a for uid, _ in cluster.told(Detoured))
    found = told(cluster, Confirmed, NeighboursChanged, Rejoining)
    if starts > MAX_STARTS:
        found.append(f"a link that flaps was taken up {starts} times in {FLAPS} s")
    return found


def forgiven(seed: int) -> list[str]:
    """A link breaks once a minute: each time it is used again as soon as it is back."""
    cluster = Cluster.ring_of(12, seed)
    a, b = _beside(cluster, 1)
    found: list[str] = []
    for _ in range(6):
        cluster.cut(a, b, Cut.BROKEN)
        cluster.run(1)
        cluster.mend(a, b)
        cluster.run(BACK_S)
        if cluster.nodes[a].detours:
            found.append("a link that breaks once a minute is not used when it is back")
        cluster.run(60)
    return found


def chord_cuts(seed: int) -> list[str]:
    """The link to a chord fails: both ends go round it by the path of a query."""
    cluster = Cluster.ring_of(24, seed)
    cluster.run(CALM_S)
    cluster.facts.clear()
    a = cluster.in_order[seed % 24]
    b = cluster.nodes[a].chords[-1].uid
    cluster.cut(a, b, _mode(seed))
    cluster.run(CHORD_S)
    found = told(cluster, Confirmed, ChordLost, NeighboursChanged, Rejoining)
    if b not in cluster.nodes[a].detours or a not in cluster.nodes[b].detours:
        found.append("the two ends of a chord whose link failed do not go round it")
    cluster.mend(a, b)
    cluster.run(BACK_S)
    if cluster.nodes[a].detours or cluster.nodes[b].detours:
        found.append("a chord's link was mended long ago, and is still gone round")
    return found + cluster.ledger.findings


def carriers(seed: int) -> list[str]:
    """A chord that events go over falls silent: its link is given up at once, not at a refresh."""
    cluster = Cluster.ring_of(24, seed)
    cluster.run(CALM_S)
    a = cluster.in_order[seed % 24]
    b = cluster.nodes[a].chords[-1].uid
    cluster.world.silence(a, b)
    since = cluster.world.now
    for _ in range(int(CARRIER_S / 0.1)):
        cluster.nodes[a].told(b, cluster.world.now)
        cluster.run(0.1)
    link = cluster.nodes[a].parts.links.up.get(b)
    if link is not None and link.since < since and not link.detoured:
        return ["a silent chord that carries events is not given up"]
    return told(cluster, Confirmed, Rejoining)


def tangles(seed: int) -> list[str]:
    """Half of all links break for three seconds: the ring is soon whole again."""
    found: list[str] = []
    for number in range(TANGLES):
        rng = rng_for(seed, number, "mutants", "tangle")
        cluster = Cluster.ring_of(6, seed * TANGLES + number)
        uids = cluster.alive
        pairs = [(a, b) for at, a in enumerate(uids) for b in uids[at + 1 :]]
        broken = rng.sample(pairs, len(pairs) // 2)
        for a, b in broken:
            cluster.cut(a, b, Cut.BROKEN)
        cluster.run(3)
        for a, b in broken:
            cluster.mend(a, b)
        cluster.rest(UNTANGLED_S)
        found += cluster.ledger.findings
    return found


def _beside(cluster: Cluster, step: int) -> tuple[str, str]:
    order = cluster.in_order
    return order[3], order[(3 + step) % len(order)]


def _mode(seed: int) -> Cut:
    return Cut.SILENT if seed // 2 % 2 else Cut.BROKEN
