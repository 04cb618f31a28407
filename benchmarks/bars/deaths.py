"""One join, in which one of those concerned dies after the m-th thing that happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ring.joining.newcomer import Phase
from sims.errors import InvariantViolated
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.world.world import CrashMode

REST_S = 90.0
MAX_STEPS = 5000
AFTERWARDS = 20  #: steps after the ring is whole in which somebody may die too


class Party(StrEnum):
    """Who dies, named by the place around the newcomer's gap."""

    NEWCOMER = "newcomer"
    OWNER = "owner"  #: the broker to the left of the gap
    RIGHT = "right"
    LEFT_LEFT = "left-left"
    RIGHT_RIGHT = "right-right"
    CONTACT = "contact"  #: to whom the newcomer sends its request
    SEED = "seed"  #: the only one that the newcomer was given, once it has named others


@dataclass(frozen=True, slots=True)
class Death:
    """A ring of ``n``, formed from ``seed``, and who dies in the join of one more."""

    n: int
    seed: int
    party: Party
    mode: CrashMode
    step: int  #: dies right after that many things have happened since the newcomer started


class OneJoin:
    """A small ring and a newcomer to it, event by event; the same each time."""

    def __init__(self, n: int, seed: int, *, by_one: bool = False) -> None:
        self.cluster = Cluster.ring_of(n, seed)
        self.before = list(self.cluster.alive)
        self.newcomer = self.cluster.start(self.before[:1] if by_one else self.before)

    @property
    def is_seeking(self) -> bool:
        """The newcomer knows no more than what it was given."""
        return self.cluster.nodes[self.newcomer].parts.newcomer.phase is Phase.SEEKING

    def step(self) -> bool:
        """Let the next thing happen; False once the newcomer is on the ring, as all can see."""
        world = self.cluster.world
        assert world.next_at is not None, "brokers always wait for something"
        world.run(world.next_at)
        return bool(self.cluster.findings())

    def run_through(self) -> tuple[int, dict[Party, str]]:
        """Return how many things happen in the join, and who plays which part in it."""
        steps = 1
        while self.step():
            steps += 1
            if steps >= MAX_STEPS:
                raise InvariantViolated(
                    f"no ring after {steps} steps: {'; '.join(self.cluster.findings())}"
                )
        order = self.cluster.in_order
        n, at = len(order), order.index(self.newcomer)
        contact = self.cluster.nodes[self.newcomer].parts.newcomer.contact
        assert contact is not None
        parties = {
            Party.NEWCOMER: self.newcomer,
            Party.OWNER: order[at - 1],
            Party.RIGHT: order[(at + 1) % n],
            Party.LEFT_LEFT: order[at - 2],
            Party.RIGHT_RIGHT: order[(at + 2) % n],
            Party.CONTACT: contact,
        }
        told = dict[str, Party]()  # in small rings one broker plays several parts
        return steps, {
            party: uid for party, uid in parties.items() if told.setdefault(uid, party) is party
        }


def deaths(n: int, seed: int, every: int = 1) -> Iterator[tuple[Death, str]]:
    """Yield all deaths in one join, or every so many, with the uid of who dies."""
    steps, parties = OneJoin(n, seed).run_through()
    for step in range(0, steps + AFTERWARDS, every):
        for party, uid in parties.items():
            if n == 1 and party is not Party.NEWCOMER:
                continue  # nobody would be left to join
            for mode in (KILL, POWER):
                yield Death(n, seed, party, mode, step), uid
    for step in _steps_without_seed(n, seed)[::every]:
        for mode in (KILL, POWER):
            yield Death(n, seed, Party.SEED, mode, step), OneJoin(n, seed).before[0]


def _steps_without_seed(n: int, seed: int) -> range:
    """Return the steps after which a newcomer can do without the only seed it was given."""
    if n == 1:
        return range(0)
    join, steps = OneJoin(n, seed, by_one=True), 0
    while join.is_seeking:
        join.step()
        steps += 1
    return range(steps, OneJoin(n, seed, by_one=True).run_through()[0] + AFTERWARDS)


def survive(death: Death, uid: str) -> str | None:
    """Let it happen; return what is wrong with the ring at rest, or None.

    The ring at rest has all that live, in order, and no pointer to anybody else.
    """
    join = OneJoin(death.n, death.seed, by_one=death.party is Party.SEED)
    for _ in range(death.step):
        join.step()
    cluster = join.cluster
    cluster.crash(uid, death.mode)
    try:
        cluster.rest(REST_S)
    except InvariantViolated as error:
        return f"{death}: {error}"
    alive = set(cluster.alive)
    ghosts = {
        member.uid
        for each in alive
        for member in (*cluster.nodes[each].left, *cluster.nodes[each].right)
    } - alive
    expected = {*join.before, join.newcomer} - {uid}
    if ghosts or alive != expected or len(cluster.in_order) != len(expected):
        return f"{death}: ghosts {sorted(ghosts)}, alive {len(alive)}, should be {len(expected)}"
    return None
