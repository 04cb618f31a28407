"""What a scenario file may say. ``docs/scenarios.md`` is written from these structs.

All times are seconds of virtual time since the ring was formed, shares are from 0 to 1. A struct
says for each key what it is (``Doc``), and msgspec holds the file to types and bounds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ges.units.address import UNIT_LIMIT
from ges.wire.unit_messages import SMALLEST_LIMIT, TOP_LEVEL
from overlay.ids import LinkClass
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule
from sims.scenarios.laws import Law
from sims.world.world import CrashMode

MAX_NODES = 200_000


def _doc(
    text: str, *, gt: float | None = None, ge: float | None = None, le: float | None = None
) -> Meta:
    if gt is not None:
        return Meta(description=text, gt=gt, le=le)
    return Meta(description=text, ge=ge, le=le)


Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]
#: Shorter times, and slower rates, would be none in nanoseconds, or without end.
Positive = Annotated[float, Meta(ge=0.001, le=1e7)]
Beat = Annotated[float, Meta(ge=0.01, le=60)]
Natural = Annotated[int, Meta(ge=0)]
Nodes = Annotated[int, Meta(ge=1, le=MAX_NODES)]
Count = Annotated[int, Meta(ge=0, le=MAX_NODES)]
Levels = Annotated[int, Meta(ge=1, le=TOP_LEVEL)]


class Mode(StrEnum):
    """How much of a broker is simulated."""

    RING = "ring"  #: joins, detection, repair; no events: for size
    WHOLE = "whole"  #: everything a process runs, frames as bytes, with clients


class Forming(StrEnum):
    """How the ring comes to be."""

    WARM = "warm"  #: it is there at once, evenly spaced
    JOINS = "joins"  #: a broker founds it, and the others join


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file."""


# ── the ring ──────────────────────────────────────────────────────────────────────────────────


class Ring(Part, kw_only=True, frozen=True):
    """How the ring comes to be, and rules of its brokers; the profile says the rest."""

    forming: Annotated[
        Forming, _doc("it is there at once, or brokers join one after the other")
    ] = Forming.WARM
    chords: Annotated[ChordStrategy, _doc("how links beyond right-right are chosen")] = (
        ChordStrategy.RANK
    )
    gaps: Annotated[
        GapRule, _doc("which gap a newcomer is offered; published: as in the paper")
    ] = GapRule.WIDEST
    backups: Annotated[int, _doc("neighbours that keep copies of records", ge=1, le=4)] = (
        DEFAULT_BACKUPS
    )
    monitors: Annotated[
        Literal[1, 2, 4] | None, _doc("neighbours that hear a heartbeat; left out: the profile's")
    ] = None
    heartbeat_s: Annotated[Beat | None, _doc("between two heartbeats; left out: the profile's")] = (
        None
    )


class Units(Part, kw_only=True, frozen=True):
    """Units of whole brokers; `ring.forming` says if they are laid out at once or formed by joins.

    What happens then begins when they are in order. A broker that is started later joins them.
    """

    limit: Annotated[
        int,
        _doc(
            "of brokers in a cluster, of clusters in a super-cluster ...",
            ge=SMALLEST_LIMIT,
            le=UNIT_LIMIT,
        ),
    ]
    levels: Annotated[
        Levels | None,
        _doc(
            "laid out at once: 1 several clusters, 2 super-clusters, 3 super-super-clusters; "
            "left out: as few as the limit allows"
        ),
    ] = None
    named: Annotated[
        tuple[str, ...],
        _doc("names of units, such as `eu/fra/a`; brokers are dealt out over them"),
    ] = ()


class Records(Part, kw_only=True, frozen=True):
    """Records that brokers own; `ring.backups` neighbours keep copies of each."""

    each: Annotated[int, _doc("records of each broker", ge=1, le=10_000)]
    size: Annotated[int, _doc("bytes of each", ge=0, le=65536)] = 64


# ── network ───────────────────────────────────────────────────────────────────────────────────


class Network(Part, kw_only=True, frozen=True):
    """Latency and loss. Hosts lie on a plane whose size the profile says, unless a matrix does."""

    matrix: Annotated[str, _doc("CSV of one-way milliseconds between regions; by this file")] = ""
    loss: Annotated[Share, _doc("share of segments that TCP has to send again")] = 0.0
    burst: Annotated[float, _doc("mean number of segments lost in a row", ge=1, le=1000)] = 1.0
    mbit_s: Annotated[
        Positive | None, _doc("megabits a second on each way between two hosts; left out: any")
    ] = None
    slow_share: Annotated[Share, _doc("share of hosts that are slow")] = 0.0
    slow_ms: Annotated[
        float, _doc("milliseconds that whatever a slow host sends takes longer", ge=0, le=60000)
    ] = 0.0


# ── churn ─────────────────────────────────────────────────────────────────────────────────────


class SessionChurn(Part, tag="sessions", tag_field="kind", kw_only=True, frozen=True):
    """Brokers stay for a time drawn from a law; who goes is replaced, so that n is kept."""

    law: Annotated[Law, _doc("law of the session lengths")] = Law.EXPONENTIAL
    mean_s: Annotated[float, _doc("mean length of a session", ge=0.01, le=1e7)]
    shape: Annotated[float | None, _doc("shape of the law; left out: as fitted to real ones")] = (
        None
    )
    leave_share: Annotated[Share, _doc("share that leaves in good order; others die")] = 0.0
    crash_mode: Annotated[CrashMode, _doc("how the others die")] = CrashMode.POWER
    at_s: Annotated[Seconds, _doc("when it begins")] = 0.0
    replace: Annotated[bool, _doc("a broker that goes is replaced by a newcomer at once")] = True


class PoissonArrivals(Part, tag="arrivals", tag_field="kind", kw_only=True, frozen=True):
    """Newcomers at random times, independent of each other."""

    per_minute: Annotated[float, _doc("newcomers a minute", ge=1e-6, le=1e6)]
    at_s: Annotated[Seconds, _doc("when it begins")] = 0.0


class ReplayedSessions(Part, tag="replay", tag_field="kind", kw_only=True, frozen=True):
    """Sessions read from a file with the columns ``uid,start_s,end_s``."""

    file: Annotated[str, _doc("the CSV file; a relative path is looked for beside this file")]
    speed: Annotated[float, _doc("so many seconds of the file pass in one", ge=1e-6, le=1e6)] = 1.0
    crash_mode: Annotated[CrashMode, _doc("how a broker whose session ends dies")] = CrashMode.POWER


class FlashCrowd(Part, tag="flash-crowd", tag_field="kind", kw_only=True, frozen=True):
    """Many newcomers within a short time, through few contacts."""

    count: Annotated[Count, _doc("newcomers; 0: as many as there are brokers")] = 0
    at_s: Annotated[Seconds, _doc("when the first comes")] = 5.0
    over_s: Annotated[Seconds, _doc("within how long all come")] = 60.0
    contacts: Annotated[int, _doc("members whose URL they are given", ge=1, le=64)] = 1


Churn = SessionChurn | PoissonArrivals | ReplayedSessions | FlashCrowd


# ── faults ────────────────────────────────────────────────────────────────────────────────────


class Crash(Part, tag="crash", tag_field="kind", kw_only=True, frozen=True):
    """Brokers drawn at random die, all at once or at random times."""

    share: Annotated[Share, _doc("share of those alive")] = 0.0
    count: Annotated[Count, _doc("so many instead of a share")] = 0
    mode: Annotated[CrashMode, _doc("process killed, or machine without power")] = CrashMode.POWER
    at_s: Annotated[Seconds, _doc("when the first dies")] = 1.0
    over_s: Annotated[Seconds, _doc("within how long; 0: all at the same moment")] = 0.0
    each_s: Annotated[Seconds, _doc("or within so long for each, if that is longer")] = 0.0
    back_after_s: Annotated[
        Seconds | None, _doc("so long after its death each is started again, as the same broker")
    ] = None


class Arc(Part, tag="arc", tag_field="kind", kw_only=True, frozen=True):
    """Brokers that follow each other on the ring die at the same moment."""

    share: Annotated[Share, _doc("share of those alive")] = 0.0
    count: Annotated[Count, _doc("so many instead of a share")] = 0
    mode: Annotated[CrashMode, _doc("process killed, or machine without power")] = CrashMode.POWER
    at_s: Annotated[Seconds, _doc("when they die")] = 1.0


class Region(Part, tag="region", tag_field="kind", kw_only=True, frozen=True):
    """All brokers near one point of the map die at the same moment."""

    share: Annotated[Share, _doc("share of those alive: those nearest to a point drawn")]
    mode: Annotated[CrashMode, _doc("process killed, or machine without power")] = CrashMode.POWER
    at_s: Annotated[Seconds, _doc("when they die")] = 1.0


class RollingRestart(Part, tag="rolling-restart", tag_field="kind", kw_only=True, frozen=True):
    """One broker after the other is stopped, and started again as the same broker."""

    every_s: Annotated[float, _doc("between two of them", ge=0.001, le=1e6)] = 2.0
    down_s: Annotated[float, _doc("how long each is down", ge=0.001, le=1e6)] = 1.0
    drain: Annotated[bool, _doc("it leaves in good order; else its process is killed")] = True
    share: Annotated[Share, _doc("share of the brokers that are restarted")] = 1.0
    at_s: Annotated[Seconds, _doc("when the first is stopped")] = 1.0


class Leave(Part, tag="leave", tag_field="kind", kw_only=True, frozen=True):
    """Brokers drawn at random leave in good order."""

    share: Annotated[Share, _doc("share of those alive")]
    at_s: Annotated[Seconds, _doc("when the first leaves")] = 1.0
    over_s: Annotated[Seconds, _doc("within how long; 0: all at the same moment")] = 0.0


class Pause(Part, tag="pause", tag_field="kind", kw_only=True, frozen=True):
    """Brokers stand still, as a process does that is stopped or swapped out."""

    share: Annotated[Share, _doc("share of those alive")] = 0.0
    count: Annotated[Count, _doc("so many instead of a share")] = 0
    for_s: Annotated[float, _doc("how long each stands still", ge=0.001, le=1e6)]
    at_s: Annotated[Seconds, _doc("when the first stops")] = 1.0
    over_s: Annotated[Seconds, _doc("within how long; 0: all at the same moment")] = 0.0


class CutLinks(Part, tag="cut-links", tag_field="kind", kw_only=True, frozen=True):
    """Links between two brokers fail while both live."""

    share: Annotated[Share, _doc("share of all links")] = 0.0
    count: Annotated[Count, _doc("so many instead of a share")] = 0
    mode: Annotated[
        Literal["silent", "broken"], _doc("silent: nobody notices at once; broken: both do")
    ] = "silent"
    one_way: Annotated[bool, _doc("only one of the two ways is lost")] = False
    for_s: Annotated[float, _doc("how long each is cut", ge=0.001, le=1e6)]
    at_s: Annotated[Seconds, _doc("when the first is cut")] = 1.0
    over_s: Annotated[Seconds, _doc("within how long; 0: all at the same moment")] = 0.0
    again_s: Annotated[
        Seconds | None, _doc("flapping: the same links fail again so long after they were mended")
    ] = None


class Partition(Part, tag="partition", tag_field="kind", kw_only=True, frozen=True):
    """The network falls apart into groups that do not reach each other, and heals."""

    groups: Annotated[
        tuple[Share, ...],
        Meta(
            description="share of each group; all of them are 1 at most",
            min_length=2,
            max_length=16,
        ),
    ] = (0.5, 0.5)
    at_s: Annotated[Seconds, _doc("when it falls apart")] = 1.0
    for_s: Annotated[float, _doc("how long", ge=0.001, le=1e6)] = 30.0


class Clocks(Part, tag="clocks", tag_field="kind", kw_only=True, frozen=True):
    """The clocks of brokers run fast or slow; none of them jumps."""

    share: Annotated[Share, _doc("share of those alive")] = 0.0
    count: Annotated[Count, _doc("so many instead of a share")] = 0
    rates: Annotated[
        tuple[Annotated[float, Meta(ge=0.01, le=10)], ...],
        Meta(
            description="seconds that it counts in one; one of them is drawn for each",
            min_length=1,
            max_length=16,
        ),
    ]
    at_s: Annotated[Seconds, _doc("when it begins")] = 1.0
    for_s: Annotated[Positive | None, _doc("how long; left out: to the end")] = None


class Middle(StrEnum):
    """What a broker may be in the middle of."""

    JOIN = "join"  #: it was started and has no place yet, or has just got it, or gives one
    REPAIR = "repair"  #: it suspects somebody, has the death confirmed, or is a witness
    MERGE = "merge"  #: its neighbours change within a minute after a partition has healed


class Adversary(Part, tag="adversary", tag_field="kind", kw_only=True, frozen=True):
    """Brokers in the middle of a join, a repair or a merge die."""

    during: Annotated[
        tuple[Middle, ...], Meta(description="of what", min_length=1, max_length=3)
    ] = tuple(Middle)
    count: Annotated[Count, _doc("how many die at most")] = 8
    every_s: Annotated[Seconds, _doc("between two of them at least")] = 3.0
    within_ms: Annotated[
        float, _doc("so soon after it is seen, at a random time", ge=0, le=60000)
    ] = 20.0
    mode: Annotated[CrashMode, _doc("process killed, or machine without power")] = CrashMode.POWER
    back_after_s: Annotated[
        Seconds | None, _doc("so long after its death each is started again")
    ] = None
    at_s: Annotated[Seconds, _doc("when it begins to look")] = 1.0


Fault = (
    Crash
    | Arc
    | Region
    | RollingRestart
    | Leave
    | Pause
    | CutLinks
    | Partition
    | Clocks
    | Adversary
)


# ── events ────────────────────────────────────────────────────────────────────────────────────


class Workload(Part, kw_only=True, frozen=True):
    """Clients of whole brokers."""

    publishers: Annotated[int, _doc("clients that publish", ge=0, le=10_000)] = 3
    rate: Annotated[float, _doc("events a second of each", ge=1e-6, le=10_000)] = 10.0
    size: Annotated[int, _doc("bytes of payload", ge=0, le=65536)] = 64
    topics: Annotated[int, _doc("topics; each publisher has one of them", ge=1, le=10_000)] = 1
    subscribers: Annotated[int, _doc("clients; 0: one at each broker", ge=0, le=10_000)] = 0
    roam_s: Annotated[
        Positive | None, _doc("mean time between two moves of a client to another broker")
    ] = None
    roam_share: Annotated[Share, _doc("share of the clients that move")] = 1.0
    link_class: Annotated[LinkClass, _doc("of the links the events ask for")] = LinkClass.NORMAL


# ── the file ──────────────────────────────────────────────────────────────────────────────────


class Promises(Part, kw_only=True, frozen=True):
    """What is to hold; a broken one ends the run with exit code 1."""

    whole_within_s: Annotated[
        float, _doc("the ring is whole so long after the last fault", gt=0, le=1e6)
    ] = 240.0
    repair_p99_s: Annotated[
        Positive | None, _doc("so fast is the ring around a crash whole, in 99 of 100")
    ] = None
    false_deaths: Annotated[
        Natural | None, _doc("at most so many brokers that live are held for dead")
    ] = None
    records_lost: Annotated[
        Natural | None,
        _doc("at most so many records die with the last broker that has their bytes"),
    ] = None
    nothing_lost: Annotated[
        bool, _doc("whole brokers: no event is lost but where docs/reliability.md says so")
    ] = False
    delivered: Annotated[
        Share | None, _doc("whole brokers: at least this share of what is owed comes")
    ] = None


class Scenario(Part, kw_only=True, frozen=True):
    """One experiment."""

    about: Annotated[str, Meta(description="one line: what happens", max_length=200)]
    literature: Annotated[str, _doc("what it is modelled on")] = ""
    nodes: Annotated[Nodes, _doc("brokers in the ring when it begins")] = 64
    mode: Annotated[Mode, _doc("the ring alone, or whole brokers with clients")] = Mode.RING
    profile: Annotated[
        Literal["local", "lan", "wan"], _doc("timing of the brokers, and distances")
    ] = "lan"
    seconds: Annotated[
        float, _doc("how long it goes on; 0: until all faults have struck", ge=0, le=1e6)
    ] = 60.0
    quiet: Annotated[
        bool | None,
        _doc("heartbeats and the like that change nothing are left out; left out: in large rings"),
    ] = None
    ring: Ring = Ring()
    units: Units | None = None
    records: Records | None = None
    network: Network = Network()
    churn: tuple[Churn, ...] = ()
    faults: tuple[Fault, ...] = ()
    workload: Workload | None = None
    promises: Promises = Promises()
