"""The small overlays that are explored: a few brokers whose units have formed, and what befalls.

Each broker has a place on the ring from the beginning, so who is steward of what is the same in all
orders: the first broker is that of all contexts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ges.matching.asks import ask_for
from ges.units.planner import UnitsConfig
from overlay.ids import Nanos, Peer, nanos
from ring.wire.messages import Member
from sims.explore.unit_machine import UnitMachine

TOPIC = "t"
INTEREST = ask_for(TOPIC)
PAUSE_NS = nanos(3.0)  #: between two changes of one unit


@dataclass(frozen=True, slots=True)
class UnitAction:
    """Something done to a broker, by its number."""

    verb: str  #: join, crash, lose or subscribe
    who: int

    def __str__(self) -> str:
        match self.verb:
            case "join":
                return f"b{self.who} has its place on the ring"
            case "crash":
                return f"b{self.who} dies; what it has sent still comes"
            case "lose":
                return f"b{self.who} dies, and with it what is under way from it"
            case _:
                return f"a client of b{self.who} subscribes to {TOPIC}"


@dataclass(frozen=True, slots=True)
class UnitScope:
    """What is explored: the first brokers are members, and their units have formed."""

    about: str
    places: tuple[int, ...]  #: of all brokers, in 64ths of the ring
    members: int
    actions: tuple[UnitAction, ...]
    limit: int = 3
    delays: int = 1  #: bound of the search by default; -1: none
    early: int = 0  #: so often may the clock go on while something is under way
    branch_ns: Nanos = nanos(3.0)  #: so long all orders are tried; then what is left in a fair one
    #: So long before the beginning the last member has come; None: units have formed since.
    lead_ns: Nanos | None = None
    rest_ns: Nanos = nanos(40.0)  #: after so long all must be in order


UNIT_SCOPES: dict[str, UnitScope] = {
    "unit-grant": UnitScope(
        "a broker joins a cluster, and gets its slot",
        (0, 20, 40),
        2,
        (UnitAction("join", 2),),
        branch_ns=nanos(0.1),
    ),
    "unit-split-join": UnitScope(
        "a full cluster in which a broker waits for a slot is split, while another one joins",
        (0, 16, 32, 48, 40),
        4,
        (UnitAction("join", 4),),
        branch_ns=nanos(0.3),
        lead_ns=nanos(1.0),
    ),
    "unit-steward-grant": UnitScope(
        "the steward of a cluster dies at any point of a grant",
        (0, 20, 40),
        2,
        (UnitAction("join", 2), UnitAction("lose", 0)),
        limit=4,
        branch_ns=nanos(0.1),
    ),
    "unit-steward-states": UnitScope(
        "the steward of a cluster dies at any point while it states what is wanted there",
        (0, 16, 32, 48),
        4,
        (UnitAction("subscribe", 3), UnitAction("lose", 2)),
        branch_ns=nanos(0.1),
    ),
    "unit-subscribe": UnitScope(
        "a subscription becomes active in two clusters, and no event is missed from then on",
        (0, 16, 32, 48),
        4,
        (UnitAction("subscribe", 3),),
        branch_ns=nanos(0.3),
    ),
}


def unit_machines(scope: UnitScope) -> list[UnitMachine]:
    """Return the brokers, none of which is on the ring yet."""
    config = UnitsConfig(scope.limit, PAUSE_NS)
    made = []
    for at, place in enumerate(scope.places):
        peer = Peer(f"{at + 1:032x}", 1, f"chordal://b{at}.explored:9470")
        made.append(UnitMachine(Member(peer, place << 26), config))
    return made
