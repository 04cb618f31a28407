"""The small scopes that are explored: a ring of a few brokers, and what is done to it.

Small scopes suffice: all published counterexamples to Chord fit into networks of 5 to 8 members
(P. Zave 2012, 2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from overlay.ids import Peer
from overlay.rng import rng_for
from ring.config import LAN, ChordStrategy, RingConfig
from ring.node import RingNode

COMPLETE = -1  #: as a number of delays: all orders

#: The neighbour lists alone: no chords, and a newcomer turns to the first member that is named.
LISTS = replace(LAN, chords=ChordStrategy.NONE, measure_candidates=1)


@dataclass(frozen=True, slots=True)
class Action:
    """Something done to the brokers; who they are is said by their places in the ring at rest.

    Newcomers have the places after the last member.
    """

    verb: str  #: join, crash, cut or leave
    who: int
    others: tuple[int, ...] = ()  #: contacts; who sees the sockets close; the other end

    def __str__(self) -> str:
        others = ", ".join(f"b{other}" for other in self.others)
        match self.verb:
            case "join":
                return f"b{self.who} begins to join through {others}"
            case "crash":
                return f"b{self.who} dies; its sockets close at {others or 'nobody'}"
            case "cut":
                return f"the link b{self.who} - {others} breaks"
            case _:
                return f"b{self.who} leaves"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is explored; ``actions`` makes the actions for a ring of a given size."""

    about: str
    brokers: int  #: in all, newcomers included
    newcomers: int
    actions: Callable[[int], tuple[Action, ...]]
    delays: int  #: bound of the search by default; COMPLETE: none
    early: int = 0  #: timers that may run out early
    members: int = 2  #: at least, so that nobody outlives all it knows: no ring can
    steady: bool = False  #: no pointer may move: who is suspected keeps its place


def _all_but(who: int, members: int) -> tuple[int, ...]:
    return tuple(other for other in range(members) if other != who)


def _crash(who: int, members: int) -> Action:
    return Action("crash", who, _all_but(who, members))


SCOPES: dict[str, Scope] = {
    "join": Scope("a broker joins", 4, 1, lambda m: (Action("join", m, (0,)),), COMPLETE),
    "crash": Scope(
        "a broker dies, and its sockets close", 4, 0, lambda m: (_crash(1, m),), COMPLETE
    ),
    "cut": Scope(
        "the link between two neighbours breaks",
        4,
        0,
        lambda m: (Action("cut", 0, (1,)),),
        2,
        steady=True,
    ),
    "two-joins": Scope(
        "two brokers join at one place",
        5,
        2,
        lambda m: (Action("join", m, (0,)), Action("join", m + 1, (0,))),
        2,
    ),
    "join-crash": Scope(
        "a broker joins while one of those beside its place dies",
        5,
        1,
        lambda m: (Action("join", m, (0, 1)), _crash(0, m)),
        2,
        members=3,
    ),
    "two-joins-crash": Scope(
        "two brokers join while one of those beside their place dies",
        6,
        2,
        lambda m: (Action("join", m, (0, 1)), Action("join", m + 1, (0, 1)), _crash(0, m)),
        0,
        members=3,
    ),
    "join-two-crashes": Scope(
        "a broker joins while two neighbours beside its place die",
        6,
        1,
        lambda m: (Action("join", m, (1, 3)), _crash(1, m), _crash(2, m)),
        0,
        members=4,
    ),
    "crash-of-tester": Scope(
        "a broker dies, and so does the one that is asked to test it",
        6,
        0,
        lambda m: (_crash(1, m), _crash(2, m)),
        0,
        members=3,
        early=1,
    ),
    "crash-unseen": Scope(
        "a broker dies, and only its left neighbour sees the socket close",
        5,
        0,
        lambda m: (Action("crash", 1, (0,)),),
        2,
        early=1,
    ),
    "mutual-suspicion": Scope(
        "the link between two neighbours breaks, each suspects the other, and a timer may run out",
        5,
        0,
        lambda m: (Action("cut", 0, (1,)),),
        2,
        early=1,
    ),
    "cut-and-crash": Scope(
        "the link between two neighbours breaks, and the witness of both dies",
        6,
        0,
        lambda m: (Action("cut", 0, (1,)), _crash(2, m)),
        1,
    ),
    "leave-join": Scope(
        "a broker leaves while another joins beside it",
        5,
        1,
        lambda m: (Action("join", m, (0, 1)), Action("leave", 0)),
        2,
        members=3,
    ),
}


def broker(at: int, config: RingConfig) -> RingNode:
    """Return the broker with the number ``at``, not on a ring yet."""
    peer = Peer(f"{at + 1:032x}", 1, f"chordal://b{at}.explored:9470")
    return RingNode(config, peer, rng_for(1, "explored", at))
