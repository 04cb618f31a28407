"""Two or three brokers, and what they say to each other in which case."""

from __future__ import annotations

from collections import Counter

import pytest

from ges.matching.asks import ask_for
from ges.wire.matter import Matter
from ges.wire.profile_messages import ProfileDelta, ProfilePage, ProfileTaken
from ges.wire.telling_messages import HeldRow, Kind, RowsWanted, RowVersion
from overlay.ids import LinkClass
from tests.ges.profiles.cluster import MILLISECOND, Cluster

A, B, C = "a" * 32, "b" * 32, "c" * 32


def cluster_of(*uids: str) -> Cluster:
    """Return a cluster at rest."""
    cluster = Cluster()
    for uid in uids:
        cluster.join(uid)
    cluster.settle(5)
    cluster.check_at_rest()
    return cluster


def kinds(cluster: Cluster) -> Counter[str]:
    return Counter(type(message).__name__ for _, _, message in cluster.under_way)


def test_alone_a_subscription_is_active_at_once() -> None:
    cluster = cluster_of(A)
    key = cluster.subscribe(A, "a/b")
    assert cluster.brokers[A].active == {key}
    assert not cluster.under_way


def test_before_it_is_a_member_nothing_is_active() -> None:
    """Nobody sends to a broker that has no slot."""
    cluster = cluster_of(A)
    exchange = cluster.brokers[A].exchange
    exchange.set_members({}, {}, 0)
    exchange.subscribe(1, ask_for("a"), 0)
    assert exchange.take_active() == []
    exchange.set_members({A: 0}, {A: 1}, 0)
    assert exchange.take_active() == [1]


def test_active_when_all_have_taken_it_and_not_before() -> None:
    cluster = cluster_of(A, B, C)
    key = cluster.subscribe(A, "a/b")
    assert kinds(cluster) == {"ProfileDelta": 2}
    while cluster.under_way:
        assert not cluster.brokers[A].active
        cluster.deliver()
    assert cluster.brokers[A].active == {key}


def test_what_an_active_one_covers_is_active_at_once() -> None:
    cluster = cluster_of(A, B)
    wide = cluster.subscribe(A, "a/#")
    narrow = cluster.subscribe(A, "a/b")
    assert not cluster.brokers[A].active, "the cover is not active either"
    cluster.deliver_all()
    assert cluster.brokers[A].active == {wide, narrow}
    sent = cluster.sent
    another = cluster.subscribe(A, "a/c")
    assert another in cluster.brokers[A].active
    assert cluster.sent == sent, "nobody need be told"


def test_covered_once_the_cover_goes_is_active_still() -> None:
    cluster = cluster_of(A, B)
    wide = cluster.subscribe(A, "a/#")
    cluster.deliver_all()
    cluster.wait(20)
    cluster.unsubscribe(A, wide)
    cluster.subscribe(A, "a/b")
    cluster.check_nothing_is_missed()
    cluster.settle(5)
    cluster.check_at_rest()


def test_who_is_gone_is_not_waited_for() -> None:
    cluster = cluster_of(A, B, C)
    key = cluster.subscribe(A, "a")
    for _, target, _ in cluster.under_way:
        assert target in (B, C)
    cluster.under_way = [each for each in cluster.under_way if each[1] == B]
    cluster.deliver_all()
    assert not cluster.brokers[A].active
    cluster.crash(C)
    cluster.show(A, len(cluster.views) - 1)
    assert cluster.brokers[A].active == {key}


def test_a_newcomer_is_not_waited_for_and_misses_nothing() -> None:
    """It counts all members as interested in everything until each has told it itself."""
    cluster = cluster_of(A, B)
    key = cluster.subscribe(A, "a")
    newcomer = cluster.join(C)
    assert newcomer.exchange.index.mask_of(Matter(LinkClass.NORMAL, b"anything")) == 0b011
    cluster.show(A, len(cluster.views) - 1)
    while cluster.under_way and not cluster.brokers[A].active:
        cluster.check_nothing_is_missed()
        source, target, message = cluster.under_way.pop(0)
        if C not in (source, target):
            cluster.hand_over(source, cluster.brokers[target], message)
    assert cluster.brokers[A].active == {key}
    cluster.check_nothing_is_missed()
    cluster.settle(10)
    cluster.check_at_rest()
    assert newcomer.exchange.index.mask_of(Matter(LinkClass.NORMAL, b"anything")) == 0


def test_a_thousand_filters_cause_a_few_messages() -> None:
    cluster = cluster_of(A, B)
    told = 0
    for number in range(1000):
        cluster.subscribe(A, f"a/{number}")
        told += kinds(cluster)["ProfileDelta"]
        cluster.deliver_all()
        if number % 10 == 9:
            cluster.wait(1)  # 100 ms in all
    cluster.settle(1)
    assert cluster.brokers[A].exchange.profile.version.count <= 7
    assert len(cluster.brokers[A].active) == 1000


def test_changes_without_end_are_told_20_times_a_second() -> None:
    cluster = cluster_of(A, B)
    before = cluster.brokers[A].exchange.profile.version.count
    for number in range(5000):
        cluster.subscribe(A, f"a/{number}")
        cluster.deliver_all()
        cluster.wait(2)  # 10 s in all
    told = cluster.brokers[A].exchange.profile.version.count - before
    assert 190 <= told <= 200 + 16 + 1
    cluster.settle(1)
    assert len(cluster.brokers[A].active) == 5000


def test_the_first_change_is_told_at_once() -> None:
    cluster = cluster_of(A, B)
    cluster.subscribe(A, "a")
    assert kinds(cluster) == {"ProfileDelta": 1}


def test_of_a_lost_change_all_are_told_which_version_holds_and_it_is_active_then() -> None:
    cluster = cluster_of(A, B)
    key = cluster.subscribe(A, "a")
    cluster.lose(0)
    cluster.wait(4900)
    assert not cluster.under_way
    cluster.wait(200)
    assert [message for _, _, message in cluster.under_way] == [
        cluster.brokers[A].exchange.profile.reminder(0)
    ]
    cluster.deliver_all()
    assert cluster.brokers[A].active == {key}
    cluster.wait(60_000)
    assert not cluster.under_way, "all have taken it"


def test_a_gap_is_asked_for_once() -> None:
    cluster = cluster_of(A, B)
    for number in range(5):
        cluster.subscribe(A, f"a/{number}")
        if number == 0:
            cluster.lose(0)
        cluster.wait(30)
    cluster.brokers[B].exchange.index.mask_of(Matter(LinkClass.NORMAL, b"x"))
    for _ in range(4):
        cluster.deliver()
    assert kinds(cluster) == {"RowsWanted": 1}
    assert cluster.brokers[B].exchange.index.mask_of(Matter(LinkClass.NORMAL, b"anything")) == 0b01
    cluster.deliver_all()
    assert len(cluster.brokers[A].active) == 5


def test_a_lost_question_is_asked_again_once_others_say_which_version_holds() -> None:
    cluster = cluster_of(A, B)
    cluster.subscribe(A, "a")
    cluster.lose(0)
    cluster.wait(30)
    cluster.subscribe(A, "b")
    cluster.deliver()
    assert kinds(cluster) == {"RowsWanted": 1}
    cluster.lose(0)
    cluster.wait(5000)
    assert kinds(cluster) == {"ProfileDelta": 1}
    cluster.deliver()
    assert kinds(cluster) == {"RowsWanted": 1}


def test_all_of_a_profile_goes_to_members_alone_and_not_too_often() -> None:
    cluster = cluster_of(A, B)
    exchange = cluster.brokers[A].exchange
    now, wanted = 10**12, RowsWanted(Kind.PROFILES, (), key=A)
    exchange.answer(C, wanted, now)
    assert not cluster.under_way
    exchange.answer(B, wanted, now)
    assert kinds(cluster) == {"ProfilePage": 1}
    exchange.answer(B, wanted, now + 100 * MILLISECOND)
    assert kinds(cluster) == {"ProfilePage": 1}
    exchange.answer(B, wanted, now + 200 * MILLISECOND)
    assert kinds(cluster) == {"ProfilePage": 2}


def test_what_is_taken_of_another_life_or_of_no_version_makes_nothing_active() -> None:
    cluster = cluster_of(A, B)
    key = cluster.subscribe(A, "a")
    exchange = cluster.brokers[A].exchange
    own = exchange.profile.version
    for version in (
        RowVersion(own.epoch + 1, own.count),
        RowVersion(own.epoch, own.count + 1),
        RowVersion(own.epoch, own.count - 1),
    ):
        exchange.on_taken(B, version)
    exchange.on_taken(C, own)
    assert exchange.take_active() == []
    exchange.on_taken(B, own)
    assert exchange.take_active() == [key]


def test_one_that_was_gone_in_the_same_life_is_waited_for() -> None:
    """It may hold what it was told before, and count as told what it was not."""
    cluster = cluster_of(A, B)
    exchange = cluster.brokers[A].exchange
    later = cluster.now + 10**9
    exchange.set_members({A: 0}, {A: 1}, cluster.now)
    exchange.subscribe(91, ask_for("a"), later)
    assert exchange.take_active() == [91], "it is gone"
    exchange.set_members({A: 0, B: 1}, {A: 1, B: 1}, later)
    assert [target for _, target, _ in cluster.under_way] == [B]
    exchange.subscribe(92, ask_for("a"), later)
    assert exchange.take_active() == []
    exchange.on_taken(B, exchange.profile.version)
    assert exchange.take_active() == [92]


def test_the_same_key_again_replaces() -> None:
    cluster = cluster_of(A)
    exchange = cluster.brokers[A].exchange
    exchange.subscribe(7, ask_for("a"), 0)
    exchange.subscribe(7, ask_for("b"), 0)
    assert exchange.profile.asks == {ask_for("b")}
    exchange.unsubscribe(7, 0)
    exchange.unsubscribe(7, 0)
    assert not exchange.profile.asks


# ── repair ────────────────────────────────────────────────────────────────────────────────────


def test_a_change_that_was_missed_is_found_by_comparing() -> None:
    """A difference that is seen once may be a change under way."""
    cluster = cluster_of(A, B, C)
    cluster.subscribe(A, "a")
    cluster.under_way = [each for each in cluster.under_way if each[1] == B]
    cluster.deliver_all()
    old = cluster.brokers[C].exchange
    cluster.compare(B, C)
    assert not cluster.under_way
    cluster.compare(B, C)  # B holds the later version, and it is B that asks
    assert kinds(cluster) == {"RowsWanted": 1}
    cluster.deliver_all()
    assert old.others.version_of(A) == RowVersion(1, 1)
    assert old.counters["profiles_repaired"] == 1
    assert cluster.brokers[B].exchange.counters["profiles_repaired"] == 0
    cluster.check_nothing_is_missed()
    cluster.check_at_rest()


def test_what_is_only_under_way_is_not_counted() -> None:
    cluster = cluster_of(A, B, C)
    for number in range(20):
        cluster.subscribe(A, f"a/{number}")
        cluster.wait(20)
        cluster.compare(B, C)
        cluster.deliver_all()
        cluster.wait(20_000)
        cluster.deliver_all()
    assert all(b.exchange.counters["profiles_repaired"] == 0 for b in cluster.brokers.values())


def test_no_other_member_changes_what_is_held_of_one() -> None:
    cluster = cluster_of(A, B, C)
    cluster.subscribe(A, "a")
    cluster.deliver_all()
    exchange = cluster.brokers[B].exchange
    before, version = exchange.held, RowVersion(1, 1)
    forged = ProfileDelta(A, version, RowVersion(1, 2), (ask_for("x"),), (), 1)
    exchange.on_delta(C, forged, cluster.now)
    assert exchange.held == before
    assert not cluster.under_way


def test_what_somebody_holds_of_a_stranger_is_of_no_account() -> None:
    exchange = cluster_of(A, B).brokers[A].exchange
    rows = (*exchange.held, HeldRow(C, RowVersion(1, 99, "")))
    assert exchange.answer(B, RowsWanted(Kind.PROFILES, rows), 0) == ([], False)


# ── time ──────────────────────────────────────────────────────────────────────────────────────


def test_at_rest_nothing_is_sent() -> None:
    cluster = cluster_of(A, B, C)
    cluster.subscribe(A, "a")
    cluster.settle(5)
    sent = cluster.sent
    cluster.settle(60)
    assert cluster.sent == sent


@pytest.mark.parametrize("uids", [(A,), (A, B)])
def test_there_is_a_deadline_while_there_is_something_to_do(uids: tuple[str, ...]) -> None:
    cluster = cluster_of(*uids)
    exchange = cluster.brokers[A].exchange
    assert exchange.next_deadline() is None
    cluster.subscribe(A, "a")
    cluster.subscribe(A, "b")
    if len(uids) > 1:
        due = exchange.next_deadline()
        assert due is not None
        assert due - cluster.now <= 20 * MILLISECOND
        cluster.under_way.clear()
        exchange.handle_timers(due)
        assert kinds(cluster) == {"ProfileDelta": 1}


def test_a_large_profile_goes_to_a_newcomer_in_pages() -> None:
    cluster = cluster_of(A)
    for number in range(300):
        cluster.subscribe(A, f"a/{number}/{'x' * 900}")
    cluster.join(B)
    cluster.show(A, len(cluster.views) - 1)
    seen: Counter[str] = Counter()
    while cluster.under_way:
        seen[type(cluster.under_way[0][2]).__name__] += 1
        cluster.deliver()
    assert seen[ProfilePage.__name__] > 5
    assert seen[RowsWanted.__name__] == 1
    assert seen[ProfileTaken.__name__] >= 1
    cluster.settle(2)
    cluster.check_at_rest()
