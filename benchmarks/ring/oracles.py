"""What is asked of a ring to find out whether its protocol is broken.

Each oracle plays a short seeded story in the simulator, or explores a small scope, and returns what
it found wrong. Nothing is wrong with the protocol as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.ids import nanos
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import (
    Confirmed,
    Departed,
    JoinRejected,
    LinkFailed,
    NeighboursChanged,
    Rejoining,
    Suspected,
)
from ring.geometry import RING_SIZE, gap
from ring.invariants import DeadPointers, Snapshot, zave_findings
from sims.explore import Explorer
from tests.helpers.cluster import KILL, POWER, Cluster

PATIENCE_S = 40.0  #: virtual time a ring gets to become ideal again
SILENCE_S = LAN.silence_ns / 1e9
TOLD_NS = nanos(0.1)  #: a death confirmed by one is known to all who point there after this
REPAIRED_NS = nanos(2.5)  #: the ring around one dead broker is whole after this ...
RUN_REPAIRED_NS = nanos(7.0)  #: ... and around two or three dead neighbours after this
MAX_DEAD_LINKS = 3  #: that may be left after six deaths
STATES = 1500  #: looked at in each scope

Oracle = Callable[[int], list[str]]


def joins(seed: int) -> list[str]:
    """Newcomers race for one gap, then come one by one: all are on the ring, and evenly."""
    cluster = Cluster(seed)
    contact = cluster.found()
    cluster.run(0.5)
    for _ in range(6):
        cluster.start([contact])
    found: list[str] = []
    for _ in range(40):
        cluster.run(0.001)
        found += _twins(cluster)
    cluster.rest(PATIENCE_S)
    for _ in range(10):
        found += _entry(cluster, cluster.start([cluster.in_order[0]]))
    cluster.rest(PATIENCE_S)
    found += _told(cluster, Rejoining, JoinRejected, Suspected)
    ids = [member.ring_id for uid in cluster.in_order if (member := cluster.nodes[uid].member)]
    widest = max(gap(a, b) for a, b in zip(ids, [*ids[1:], ids[0]], strict=True))
    if widest > RING_SIZE // 3:
        found.append(f"a gap of {widest / RING_SIZE:.0%} of the circle is left among {len(ids)}")
    return found + cluster.ledger.findings


def early_starters(seed: int) -> list[str]:
    """Brokers that start before the ring they look for, and before one another."""
    cluster = Cluster(seed)
    founder = cluster.found()
    cluster.pause(founder)
    for _ in range(3):
        cluster.start([founder])
    cluster.run(6)
    cluster.resume(founder)
    cluster.rest(PATIENCE_S)
    return cluster.ledger.findings


def kills(seed: int) -> list[str]:
    """One to three neighbours are killed."""
    return _crashes(seed, run=1 + (seed - 1) % 3, power=False)


def outages(seed: int) -> list[str]:
    """A broker loses power: its sockets stay open, and it is silent."""
    return _crashes(seed, run=1, power=True)


def runs(seed: int) -> list[str]:
    """Two or three neighbours lose power at once."""
    return _crashes(seed, run=2 + seed % 2, power=True)


def _crashes(seed: int, *, run: int, power: bool) -> list[str]:
    cluster = Cluster.ring_of(14, seed)
    cluster.run(3)
    dead = set(cluster.in_order[4 : 4 + run])
    for uid in sorted(dead):
        cluster.crash(uid, POWER if power else KILL)
    # Of a run that died at once, each is found out by itself: silence, and all the witnesses.
    found_out = LAN.silence_ns + 2 * LAN.witnesses * LAN.test_ns
    watch = DeadPointers(TOLD_NS if len(dead) == 1 else found_out)
    found: list[str] = []
    for step in range(200):
        cluster.run(0.02)
        if step == 150 and len(dead) == 1:
            found += _dead_chords(cluster, dead)
        for at, _, fact in cluster.facts:
            if isinstance(fact, Confirmed):
                watch.confirmed(fact.subject, at)
        found += watch.findings(_snapshots(cluster), cluster.world.now)[:1]
    cluster.rest(PATIENCE_S)
    found += [f"{uid[:8]} lives and was declared dead" for uid in _confirmed(cluster) - dead]
    found += _told(cluster, Rejoining)
    if cluster.ledger.unrepaired:
        found.append("a crash is not repaired")
    # With a run of them the backups die as well: who held chords there learns it at a refresh.
    cluster.run(3 if len(dead) == 1 else 2 * LAN.chord_refresh_ns / 1e9)
    found += _dead_chords(cluster, dead)
    for row in cluster.ledger.incidents("mutants"):
        if row.failed_ns is not None and row.repaired_ns is not None:
            took = row.repaired_ns - row.failed_ns
            if took > (REPAIRED_NS if len(dead) == 1 else RUN_REPAIRED_NS):
                found.append(f"a crash is repaired only after {took / 1e9:.3f} s")
    return found + cluster.ledger.findings


def holders(seed: int) -> list[str]:
    """Those with links to a broker that fell silent are told, and give their links up.

    All but a few, over several deaths: a link younger than the last backup is in none.
    """
    kept: list[str] = []
    for story in range(6 * seed - 5, 6 * seed + 1):
        cluster = Cluster.ring_of(14, story)
        cluster.run(3)
        dead = {cluster.in_order[4]}
        cluster.crash(min(dead), POWER)
        cluster.run(10)
        kept += _dead_links(cluster, dead)
    return kept if len(kept) > MAX_DEAD_LINKS else []


def pauses(seed: int) -> list[str]:
    """A broker stands still, too long or not; then the whole ring does."""
    cluster = Cluster.ring_of(8, seed)
    uid = cluster.in_order[seed % 8]
    cluster.pause(uid)
    cluster.run(0.4 * SILENCE_S)
    cluster.resume(uid)
    cluster.run(2 * SILENCE_S)
    found = _told(cluster, Suspected, Confirmed, Rejoining)
    cluster.pause(uid)
    cluster.run(4 * SILENCE_S)
    if _confirmed(cluster) != {uid}:
        found.append("one stood still, others or none were declared dead")
    cluster.resume(uid)
    cluster.rest(PATIENCE_S)
    if cluster.nodes[uid].peer.incarnation != 2:
        found.append("it came back, but not once and under a new incarnation")
    cluster.facts.clear()
    for other in cluster.alive:
        cluster.pause(other)
    cluster.run(60)
    for other in cluster.alive:
        cluster.resume(other)
    cluster.rest(PATIENCE_S)
    return found + _told(cluster, Suspected, Confirmed, Rejoining) + cluster.ledger.findings


def leaves(seed: int) -> list[str]:
    """A broker leaves of its own will, and nobody wonders."""
    cluster = Cluster.ring_of(9, seed)
    uid = cluster.in_order[seed % 9]
    cluster.leave(uid)
    cluster.run(0.2)
    held = [
        other
        for other in cluster.alive
        if uid in {m.uid for m in (*cluster.nodes[other].left, *cluster.nodes[other].right)}
    ]
    found = [f"{other[:8]} still points at one that left" for other in held]
    cluster.rest(PATIENCE_S)
    if not cluster.told(Departed):
        found.append("nobody noticed that a broker left")
    return found + _told(cluster, Suspected, Confirmed, Rejoining) + cluster.ledger.findings


def restarts(seed: int) -> list[str]:
    """A broker dies and is back before or after it was missed."""
    found: list[str] = []
    for after in (0.0005, 0.5, 3.0):
        cluster = Cluster.ring_of(8, seed)
        uid = cluster.in_order[3]
        cluster.crash(uid, KILL if seed % 2 else POWER)
        cluster.run(after)
        cluster.restart(uid, [other for other in cluster.in_order if other != uid][:3])
        cluster.rest(PATIENCE_S)
        others = {other for other, _ in cluster.told(Rejoining)} - {uid}
        found += [f"{other[:8]} lived all the time and had to rejoin" for other in others]
        found += cluster.ledger.findings
    return found


def alone(seed: int) -> list[str]:
    """All die but one, and come back without knowing of it."""
    cluster = Cluster.ring_of(4, seed)
    dead = cluster.in_order[1:]
    for uid in dead:
        cluster.crash(uid, KILL)
    cluster.rest(PATIENCE_S)
    cluster.restart(dead[0], [])
    for uid in dead[1:]:
        cluster.restart(uid, [dead[0]])
    cluster.rest(200)
    return cluster.ledger.findings


def quiet(seed: int) -> list[str]:
    """Where nothing happens, nothing happens; chords double, and only links in use are kept."""
    cluster = Cluster.ring_of(16 + seed % 4, seed)
    cluster.run(60)
    cluster.facts.clear()
    links = {uid: set(cluster.nodes[uid].linked) for uid in cluster.alive}
    sent = [0]
    cluster.world.on_sent = lambda uid, about: sent.append(sent.pop() + 1)
    found: list[str] = []
    for _ in range(500):
        cluster.run(0.02)
        found += _unheard(cluster)
    found += _told(cluster, Suspected, NeighboursChanged, LinkFailed, Rejoining)
    order = cluster.in_order
    n = len(order)
    rate = sent[0] / 10 / n
    if rate > 2.5e9 / LAN.heartbeat_ns:
        found.append(f"{rate:.1f} messages per second and broker in a quiet ring")
    used = {uid: _used(cluster, uid) for uid in order}
    for at, uid in enumerate(order):
        node = cluster.nodes[uid]
        in_use = {other for other in order if other in used[uid] or uid in used[other]}
        if not in_use <= set(node.linked) & links[uid]:
            found.append(f"{uid[:8]} makes or drops links in a quiet ring")
        # A knock at a peer of old makes a link for two seconds; for ten, none is kept.
        idle = sorted(set(node.linked) & links[uid] - in_use)
        found += [f"{uid[:8]} keeps a link to {other[:8]} that neither uses" for other in idle]
        ideal = [order[(at + 2**j) % n] for j in range(1, n.bit_length()) if 2**j < n]
        if [m.uid for m in node.chords] != ideal:
            found.append(f"{uid[:8]} has other chords than those 2, 4, 8, ... to the right")
    return found + cluster.ledger.findings


def churn(seed: int) -> list[str]:
    """Joins, deaths, pauses and returns in any order; one broker, the anchor, lives on."""
    rng = rng_for(seed, "mutants", "churn")
    cluster = Cluster(seed)
    anchor = cluster.found()
    cluster.run(0.5)
    found: list[str] = []
    for _ in range(30):
        alive = [uid for uid in cluster.alive if uid != anchor]
        dead = [uid for uid in cluster.nodes if uid not in cluster.alive]
        verb = rng.choice(["join", "join", "kill", "power", "restart", "pause", "resume", "wait"])
        if verb == "join" and len(alive) < 10:
            cluster.start([anchor])
        elif verb == "restart" and dead:
            cluster.restart(rng.choice(dead), [anchor])
        elif verb in ("kill", "power") and alive:
            cluster.crash(rng.choice(alive), KILL if verb == "kill" else POWER)
        elif verb == "pause" and alive:
            cluster.pause(rng.choice(alive))
        elif verb == "resume":
            for uid in sorted(cluster.paused):
                cluster.resume(uid)
        cluster.run(rng.choice([0.001, 0.01, 0.1, 1.0, 3.0]))
    for uid in sorted(cluster.paused):
        cluster.resume(uid)
    cluster.rest(PATIENCE_S)
    if cluster.ledger.unrepaired:
        found.append("a crash is not repaired")
    return found + cluster.ledger.findings + zave_findings(_snapshots(cluster))


def scopes(seed: int) -> list[str]:
    """Small scopes, in many orders; they have no seeds, so one time is enough."""
    if seed > 1:
        return []
    for name, brokers, delays in (
        ("cut", 4, 1),
        ("cut-and-crash", 6, 0),
        ("crash-unseen", 5, 0),
        ("join-crash", 4, 0),
        ("two-joins", 4, 0),
        ("mutual-suspicion", 4, 0),
        ("crash-of-tester", 4, 0),
    ):
        report = Explorer(name, brokers=brokers, delays=delays).search(STATES)
        if report.findings:
            return [f"{report.findings[0]}: {report.replay}"]
    return []


ORACLES: tuple[Oracle, ...] = (
    joins,
    early_starters,
    kills,
    outages,
    runs,
    holders,
    pauses,
    leaves,
    restarts,
    alone,
    quiet,
    scopes,
    churn,
)


def _told(cluster: Cluster, *kinds: type) -> list[str]:
    return [f"a broker said {kind.__name__}" for kind in kinds if cluster.told(kind)]


def _confirmed(cluster: Cluster) -> set[str]:
    return {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}


def _dead_chords(cluster: Cluster, dead: set[str]) -> list[str]:
    return [
        f"{uid[:8]} has a chord to {member.uid[:8]}, long dead"
        for uid in cluster.alive
        for member in cluster.nodes[uid].chords
        if member.uid in dead
    ]


def _dead_links(cluster: Cluster, dead: set[str]) -> list[str]:
    return [
        f"{uid[:8]} keeps a link to {other[:8]}, long dead"
        for uid in cluster.alive
        for other in sorted(dead & cluster.nodes[uid].linked.keys())
    ]


def _entry(cluster: Cluster, newcomer: str) -> list[str]:
    """Watch a newcomer until it is a member: it then has its neighbours already."""
    node = cluster.nodes[newcomer]
    for _ in range(1000):
        cluster.run(0.0002)
        if node.member is not None:
            cluster.run(0.001)  # a neighbour's view may still be on its way; a link takes longer
            order = cluster.in_order
            beside = order[(order.index(newcomer) + 1) % len(order)]
            if [member.uid for member in node.right[:1]] != [beside]:
                return ["a newcomer is a member before it is linked to its neighbours"]
            break
    cluster.run(0.1)
    return []


def _unheard(cluster: Cluster) -> list[str]:
    """Whose right neighbour has sent nothing for longer than a heartbeat may take to come."""
    late = LAN.heartbeat_ns + LAN.lateness_ns // 2
    found = []
    for uid in cluster.alive:
        node = cluster.nodes[uid]
        link = node._links.up[node.right[0].uid]
        if cluster.world.now - link.heard_at > late:
            found.append(f"{uid[:8]} has not heard its right neighbour for a period")
    return found


def _snapshots(cluster: Cluster) -> list[Snapshot]:
    nodes = (cluster.nodes[uid] for uid in cluster.alive)
    return [Snapshot(n.member, n.left, n.right, n.known) for n in nodes if n.member is not None]


def _twins(cluster: Cluster) -> list[str]:
    ids = [snapshot.member.ring_id for snapshot in _snapshots(cluster)]
    return ["two members have one id"] if len(set(ids)) < len(ids) else []


def _used(cluster: Cluster, uid: str) -> set[str]:
    node = cluster.nodes[uid]
    return {m.uid for m in (*node.left, *node.right, *node.chords)}
