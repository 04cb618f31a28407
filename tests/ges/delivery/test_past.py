"""Who asks for what was published of late, and what is done with the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import cast

import pytest

from ges.delivery import past
from ges.delivery.interests import Interests
from ges.delivery.kept import ENTRY_BYTES, Fetched
from ges.delivery.past import BACK_NS, LOOK_NS, MAX_QUESTIONS, ROUND_NS, Past
from ges.delivery.subscriber import Subscriber
from ges.matching.asks import ask_for
from ges.order.flow_order import FlowOrdering
from ges.order.recall import RecallLog
from ges.order.recalls import Recalls
from ges.wire.asked import Ask
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow
from ges.wire.recall_messages import PastDone, PastWanted
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos
from tests.helpers.clusters import HandCluster
from tests.helpers.runs import run_of

HERE, THERE = "a" * 32, "b" * 32
PLACES = {HERE: 1000, THERE: 2000}
FAR = 3000  #: the place of a broker of another cluster
FLOW: Flow = (b"p" * 16, 1, LinkClass.NORMAL)
WANTED = (ask_for("#"),)
T0: Nanos = 100 * NANOS_PER_SECOND


@dataclass(eq=False)
class Moved:
    """A client that has come from another broker."""

    asks: dict[int, Ask] = field(default_factory=lambda: {1: Ask("#")})
    secure: bool = False


class Bench:
    """The past as one of two members sees it, and what comes of it."""

    def __init__(self, *, several: bool = False) -> None:
        self.cluster = HandCluster()
        self.cluster.found(HERE, PLACES)
        if several:
            self.cluster.levels = 4
        self.log = RecallLog()
        recalls = Recalls(FlowOrdering(lambda topic: True), self.log, self.cluster)
        recalls.place = PLACES[HERE]
        self.served: list[Subscriber] = []
        self.fetched: list[Fetched] = []
        self.regained: list[EventRun] = []
        self.counters: Counter[str] = Counter()
        asks = Interests(lambda event: None)
        self.past = Past(self.cluster, recalls, asks, self._serve, self.counters)
        self.past.wanted_here = lambda: WANTED
        self.past.regain = self._regain

    def _serve(self, client: Subscriber, fetched: Fetched, now: Nanos) -> None:
        self.served.append(client)
        self.fetched.append(fetched)

    def _regain(self, runs: list[EventRun], now: Nanos) -> None:
        self.regained += runs

    def question(self, number: int = 1, asks: tuple[Ask, ...] = WANTED) -> PastWanted:
        """A question of a broker of another cluster, told to all."""
        return PastWanted(5, number, 10_000, asks, 77, FAR)


def from_there(first: int) -> EventRun:
    return run_of(FLOW, first).under(1, PLACES[THERE])


def test_what_was_fetched_for_a_client_that_is_gone_goes_nowhere() -> None:
    bench = Bench()
    client = cast("Subscriber", Moved())
    assert bench.past.begin(client, T0)
    (mail,) = bench.past.expire(T0 + NANOS_PER_SECOND).mail
    assert isinstance(mail.message, PastWanted)
    bench.past.forget(client)
    bench.past.take(from_there(1), 5, T0 + NANOS_PER_SECOND)
    bench.past.on_done(THERE, PastDone(mail.message.number, 1), T0 + NANOS_PER_SECOND)
    bench.past.expire(T0 + 2 * NANOS_PER_SECOND + ROUND_NS)
    assert (bench.served, bench.regained) == ([], [])


def test_in_one_round_no_more_is_fetched_than_its_pool_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of small events as well, which take more memory than they have bytes."""
    monkeypatch.setattr(past, "POOL_BYTES", 10 * ENTRY_BYTES)
    bench = Bench()
    assert bench.past.begin(cast("Subscriber", Moved()), T0)
    now = T0 + NANOS_PER_SECOND
    (mail,) = bench.past.expire(now).mail
    assert isinstance(mail.message, PastWanted)
    for first in range(1, 101):
        bench.past.take(from_there(first), 5, now)
    bench.past.on_done(THERE, PastDone(mail.message.number, 100), now)
    (fetched,) = bench.fetched
    assert 0 < fetched.bytes <= 10 * ENTRY_BYTES


def test_a_broker_that_is_back_asks_for_what_its_clients_want_and_gets_it() -> None:
    bench = Bench()
    bench.past.came_back(T0 - NANOS_PER_SECOND, T0)
    assert bench.past.next_deadline() == T0 + BACK_NS
    assert not bench.past.expire(T0 + BACK_NS - 1).mail
    now = T0 + BACK_NS
    (mail,) = bench.past.expire(now).mail
    assert isinstance(mail.message, PastWanted)
    assert mail.message.asks == WANTED
    for first in (2, 1):
        bench.past.take(from_there(first), 5, now)
    bench.past.on_done(THERE, PastDone(mail.message.number, 2), now)
    assert [run.head.sequence for run in bench.regained] == [1, 2]


def test_a_broker_without_clients_asks_nobody() -> None:
    bench = Bench()
    bench.past.wanted_here = tuple
    bench.past.came_back(T0 - NANOS_PER_SECOND, T0)
    assert not bench.past.expire(T0 + BACK_NS).mail


def test_where_there_are_other_clusters_all_are_asked() -> None:
    bench = Bench(several=True)
    bench.past.begin(cast("Subscriber", Moved()), T0)
    out = bench.past.expire(T0 + NANOS_PER_SECOND)
    (told,) = out.to_all
    assert (told.place, told.address) == (PLACES[HERE], bench.cluster.address)
    assert [mail.uid for mail in out.mail] == [THERE]


def test_while_a_member_is_silent_there_is_nothing_to_do_at_once() -> None:
    bench = Bench(several=True)
    bench.past.begin(cast("Subscriber", Moved()), T0)
    now = T0 + NANOS_PER_SECOND
    (told,) = bench.past.expire(now).to_all
    bench.past.on_all_asked(told.number, now)
    looks = 0
    while not bench.served:
        due = bench.past.next_deadline()
        assert due is not None
        assert due > now, "nothing of its own has come due"
        bench.past.expire(now := due)
        looks += 1
    assert now == T0 + NANOS_PER_SECOND + ROUND_NS
    assert looks <= ROUND_NS // LOOK_NS + 2


def test_a_question_of_another_cluster_is_answered_if_there_is_something() -> None:
    bench = Bench(several=True)
    assert not bench.past.on_wanted(THERE, bench.question(), T0).mail
    bench.log.keep(run_of(FLOW, 1, count=2), 1, T0)
    out = bench.past.on_wanted(THERE, bench.question(), T0)
    (mail,) = out.mail
    assert mail.place == FAR
    assert mail.message == PastDone(1, 2, PLACES[HERE])
    assert [answer.address for answer in out.events] == [77]


def test_so_many_questions_of_others_are_answered_in_a_second() -> None:
    bench = Bench(several=True)
    bench.log.keep(run_of(FLOW, 1), 1, T0)
    asked = [bench.past.on_wanted(THERE, bench.question(n), T0) for n in range(MAX_QUESTIONS + 3)]
    assert sum(bool(out.events) for out in asked) == MAX_QUESTIONS
    assert bench.counters["past_unanswered"] == 3
    later = T0 + NANOS_PER_SECOND
    assert bench.past.on_wanted(THERE, bench.question(), later).events
