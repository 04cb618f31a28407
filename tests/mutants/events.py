"""Broken rules of events: who gets them, by which way, in which order, and what is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ges.client.watermarks import Watermarks
from ges.delivery.interests import Interests
from ges.delivery.past import Past
from ges.delivery.sharing import Sharing
from ges.order.flow_order import FlowOrdering
from ges.order.recall import RecallLog
from ges.order.recalls import Recalls
from ges.order.via import Tokens
from ges.profiles.exchange import ProfileExchange
from ges.profiles.held import MemberProfiles
from ges.profiles.index import ProfileIndex
from ges.routing.arc_plan import ArcPlan
from ges.routing.forwarding import Forwarding
from ges.routing.mask_plan import MaskPlan, Split
from ges.telling.shared import Table
from ges.units.membership import Membership
from ges.units.office import Office
from ges.units.table import ClusterTable
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from ges.wire.gateway_messages import LinkState
from overlay.ids import Nanos
from tests.mutants.mutant import Chapter, Method, around, nothing

EVENTS = Chapter(first="events")


def _none(self: object, *args: object, **more: object) -> list[Any]:
    return []


# ── whom an event is for ──────────────────────────────────────────────────────────────────────────

EVENTS.add(
    "newcomers-not-behind",
    "a member whose profile has not come counts as one that wants nothing",
    (MemberProfiles, "is_behind", lambda self, uid: False),
    (ProfileIndex, "set_behind", nothing),
)


def _taken_unseen(original: Method) -> Method:
    def on_delta(self: ProfileExchange[Any], delta: Any, now: Nanos) -> Any:  # noqa: ANN401
        return True, original(self, delta, now)[1][:0]

    return on_delta


EVENTS.add(
    "changes-not-taken",
    "a change of a profile is acknowledged, and what is missing for it is not asked for",
    around(ProfileExchange, "on_delta", _taken_unseen),
    (MemberProfiles, "take_delta", lambda self, delta: True),
)
EVENTS.add(
    "asks-not-told",
    "what clients want is not told to other brokers",
    (Interests, "want", nothing),
)


def _slot_zero(original: Method) -> Method:
    def free_slot(self: ClusterTable, *args: Any, **more: Any) -> int | None:  # noqa: ANN401
        slot: int | None = original(self, *args, **more)
        return 1 if slot is not None and slot > 1 else slot

    return free_slot


EVENTS.add(
    "slots-twice",
    "a slot that somebody has is granted once more",
    around(ClusterTable, "free_slot", _slot_zero),
)
EVENTS.add(
    "nobody-lingers",
    "whoever is not in the table of a broker that was cut off has no slot until it asks",
    (ClusterTable, "lingering", property(_none)),
    (ClusterTable, "_linger", lambda self, lost, now: self._count()),
)
EVENTS.add(
    "no-slots-asked-for",
    "a broker that has lost its slot does not ask for another",
    (Membership, "_ask", _none),
)
EVENTS.add(
    "stewards-not-replaced",
    "where the steward has died nobody takes over",
    (Office, "_take", _none),
)

# ── the way ───────────────────────────────────────────────────────────────────────────────────────


def _whole_mask(original: Method) -> Method:
    def split(self: MaskPlan, duty: Duty, avoid: int, **more: Any) -> Split:  # noqa: ANN401
        found: Split = original(self, duty, avoid, **more)
        every = duty.destinations
        return found._replace(
            onward=tuple((uid, each._replace(destinations=every)) for uid, each in found.onward)
        )

    return split


EVENTS.add(
    "mask-not-divided",
    "each next hop is to serve all destinations",
    around(MaskPlan, "_split", _whole_mask),
)


def _first_hop_only(original: Method) -> Method:
    def split(self: MaskPlan, duty: Duty, avoid: int, **more: Any) -> Split:  # noqa: ANN401
        found: Split = original(self, duty, avoid, **more)
        return found._replace(onward=found.onward[:1])

    return split


EVENTS.add(
    "one-branch",
    "an event goes to the first of its next hops alone",
    around(MaskPlan, "_split", _first_hop_only),
)


def _first_state_only(original: Method) -> Method:
    def take_row(self: Table[Any], row: object) -> bool:
        is_known = isinstance(row, LinkState) and self.get(row.origin) is not None
        return not is_known and bool(original(self, row))

    return take_row


EVENTS.add(
    "links-not-taken",
    "what links a member has is taken once, and no change of it",
    around(Table, "take_row", _first_state_only),
)

# ── order, and what is asked again ────────────────────────────────────────────────────────────────

EVENTS.add(
    "ways-without-token",
    "an event does not say which way it has come",
    (Tokens, "onto", lambda self, via, stream: via),
)
EVENTS.add(
    "tokens-not-renewed",
    "an event after a break looks as if it came right behind the one before",
    (Tokens, "renew", nothing),
    (Tokens, "stray", lambda self: 0),
)
EVENTS.add(
    "arcs-as-before",
    "an event over an arc that somebody else served meanwhile looks as those before it",
    (ArcPlan, "take_moved", _none),
)
EVENTS.add(
    "slotless-do-not-ask",
    "who waits for a slot does not ask for what it may have missed",
    (Recalls, "_ask_by_place", nothing),
)
EVENTS.add(
    "back-as-before",
    "a broker that was off the ring asks for what named it, as if it had been there",
    (FlowOrdering, "is_back", lambda self, now: False),
)
EVENTS.add(
    "earlier-lives-hand-on",
    "a broker hands on what its earlier life may have given to a member of a group",
    (Sharing, "_is_of_earlier_life", lambda self, head, key: False),
)


def _sure(
    self: FlowOrdering,
    run: EventRun,
    now: Nanos,
    *,
    marked: bool = False,
    via: int = 0,
    source: int = 0,
) -> Sequence[EventRun]:
    return (run,)


EVENTS.add("no-order", "what comes is delivered as it comes", (FlowOrdering, "admit", _sure))


def _way_of_before(original: Method) -> Method:
    def admit(self: FlowOrdering, run: EventRun, now: Nanos, **more: Any) -> Any:  # noqa: ANN401
        return original(self, run, now, **(more | {"via": 0, "marked": False}))

    return admit


EVENTS.add(
    "no-doubts",
    "gaps between numbers are never asked about",
    around(FlowOrdering, "admit", _way_of_before),
)
EVENTS.add(
    "nothing-kept",
    "a source keeps nothing for those that ask",
    (RecallLog, "keep", nothing),
)
EVENTS.add(
    "questions-unanswered",
    "a source does not answer",
    (RecallLog, "answer", lambda self, query, now, asker=None, common=1: ([], [])),
)
EVENTS.add(
    "no-tails",
    "after a death nobody is told which event was the last one",
    (Recalls, "_tails", _none),
)


def _impatient(original: Method) -> Method:
    def wait(self: FlowOrdering, question: Any, now: Nanos, patience: Nanos = 0) -> Any:  # noqa: ANN401
        return original(self, question, now, 1)

    return wait


EVENTS.add(
    "answers-not-waited-for",
    "what waits for an answer is delivered at once",
    around(FlowOrdering, "_wait", _impatient),
)

# ── clients that move ─────────────────────────────────────────────────────────────────────────────

EVENTS.add(
    "past-not-asked",
    "what a client has missed is not asked for where it was published",
    (Past, "begin", lambda self, client, now: False),
)
EVENTS.add(
    "had-before-comes-again",
    "a client does not know what it has had",
    (Watermarks, "fresh", lambda self, events: events),
)
EVENTS.add(
    "links-out-of-order",
    "an event is not sent over the way that the ones before it took",
    (Forwarding, "renew", nothing),
    (Tokens, "renew_all", nothing),
    (Tokens, "stray", lambda self: 0),
)
