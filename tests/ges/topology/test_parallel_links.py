"""Secure and express links beside the normal ones: when they are made, tried again, and closed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ges.topology.parallel_links import RETRY_MAX_NS, RETRY_NS, ParallelLinks, RenewLinks
from overlay.ids import NANOS_PER_SECOND, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
)
from overlay.rng import rng_for
from ring.wire.messages import Leaving, Member
from tests.helpers.node_bench import EXPRESS, NORMAL, SECURE, Bench, calls, echo, peer

OTHER = Peer("c" * 32, 1, "chordals://c.test:1", secure=True)
CALL = OpenLink(OTHER.url, OTHER.uid, link_class=SECURE)


def pauses(seed: int, failures: int) -> list[float]:
    """Return how long one waits after each failure in a row, in seconds; the first is a loss."""
    links = ParallelLinks(SECURE, rng_for(seed), lambda uid: OTHER)
    now, waited = 0, []
    for failure in range(failures):
        if failure:
            links.on_link(LinkRefused(OTHER.url, OTHER.uid, Refused.BUSY, "", SECURE), now)
        else:
            links.on_link(LinkDown(OTHER.uid, Closed.LOST, SECURE), now)
        due = links.next_deadline()
        assert due is not None
        assert links.seek(OTHER.uid) == links.handle_timers(due - 1) == []
        waited.append((due - now) / NANOS_PER_SECOND)
        now = due
        assert links.handle_timers(now) == [CALL]
    return waited


@pytest.mark.parametrize(("failures", "mean"), [(1, 1), (2, 2), (5, 16), (6, 30), (50, 30)])
def test_those_that_lose_their_links_together_do_not_call_again_together(
    failures: int, mean: float
) -> None:
    last = [pauses(seed, failures)[-1] for seed in range(20)]
    assert len(set(last)) == 20
    assert 0.5 * mean <= min(last) < 0.8 * mean
    assert 1.2 * mean < max(last) <= 1.5 * mean


# Secure links


@pytest.mark.parametrize(
    ("other", "own", "theirs", "called"),
    [
        ("c", True, True, ["c"]),
        ("a", True, True, []),  # the smaller uid calls
        ("c", True, False, []),
        ("c", False, True, []),
    ],
)
def test_a_secure_link_is_made_beside_a_normal_one_where_both_can(
    other: str, own: bool, theirs: bool, called: list[str]
) -> None:
    assert calls(Bench(secure=own).up(other, secure=theirs)) == called


def test_a_secure_link_that_exists_is_made_anew_where_the_normal_one_is() -> None:
    """The other end may have lost both, and the news of that."""
    bench = Bench()
    bench.up("c")
    bench.up("c", SECURE)
    assert bench.node.secure_links == ("c" * 32,)
    again = [effect for effect in bench.up("c") if isinstance(effect, OpenLink)]
    assert [(call.link_class, call.replace) for call in again] == [(SECURE, True)]
    assert bench.node.secure_links == ("c" * 32,)  # it serves on meanwhile
    assert calls(bench.up("c")) == []  # one try at a time


def test_a_refused_link_is_tried_again_with_growing_pauses() -> None:
    bench = Bench()
    bench.neighbour("c")
    least, most = RETRY_NS / NANOS_PER_SECOND, RETRY_MAX_NS / NANOS_PER_SECOND
    pauses = []
    for _ in range(12):
        assert calls(bench.refuse("c")) == []
        start = bench.now
        while not bench.wait(least / 8, alive="c"):
            assert bench.now - start < nanos(3 * most), "it has given up"
        pauses.append((bench.now - start) / NANOS_PER_SECOND)
    assert least / 2 <= pauses[0] <= 4 * least
    assert most / 2 <= pauses[-1] <= 2 * most
    bench.up("c", SECURE)
    bench.down("c", SECURE)
    assert bench.wait(4 * least, alive="c") == ["c"], "a link that came up clears its history"


def test_without_the_normal_link_it_is_not_tried_again() -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.refuse("c")
    bench.down("c", NORMAL)
    assert bench.wait(60, alive="c") == []


@pytest.mark.parametrize(
    ("normal", "secure"),
    [
        (Closed.UNWANTED, Closed.UNWANTED),
        (Closed.LOST, Closed.LOST),
        (Closed.OVERFLOW, Closed.LOST),
        (Closed.LEAVING, Closed.LOST),
    ],
)
def test_the_secure_link_goes_with_the_normal_one(normal: Closed, secure: Closed) -> None:
    """Where that broke, what the secure one has not brought over waits for the next, too."""
    bench = Bench()
    bench.up("c")
    bench.up("c", SECURE)
    effects = bench.down("c", NORMAL, normal)
    assert CloseLink("c" * 32, secure, SECURE) in effects
    assert bench.node.secure_links == ()


def test_a_normal_link_that_the_ring_closes_takes_the_secure_one_along() -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.up("c", SECURE)
    effects = bench.give(MessageReceived("c" * 32, Leaving(Member(peer("c"), 9))))
    classes = {effect.link_class for effect in effects if isinstance(effect, CloseLink)}
    assert classes == {NORMAL, SECURE}


def test_a_link_to_an_earlier_life_goes_when_the_normal_one_leads_to_a_later_one() -> None:
    """A machine that lost power has not said a word, and its links look up until something goes
    over them."""
    bench = Bench()
    bench.up("c")
    bench.up("c", SECURE)
    later = replace(peer("c"), incarnation=2)
    effects = bench.give(LinkUp(later, later.url, NORMAL))
    assert CloseLink("c" * 32, Closed.LOST, SECURE) in effects
    assert calls(effects) == ["c"]
    assert bench.node.secure_links == ()


def test_the_loss_of_a_secure_link_alone_leaves_the_ring_alone() -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.up("c", SECURE)
    effects = bench.down("c", SECURE)
    assert [effect for effect in effects if isinstance(effect, CloseLink)] == []
    assert bench.node.secure_links == ()
    assert bench.wait(3, alive="c") == ["c"]


def test_links_are_renewed_on_command_while_the_old_ones_serve_on() -> None:
    bench = Bench()
    for name in "acd":
        bench.up(name)
    bench.up("a", SECURE)
    bench.up("c", SECURE)
    effects = bench.give(RenewLinks(("a" * 32, "c" * 32, "d" * 32, "e" * 32)))
    assert effects == [
        OpenLink(peer(name).url, name * 32, link_class=SECURE, replace=True) for name in "ac"
    ]
    assert bench.node.secure_links == ("a" * 32, "c" * 32)


# Express links


@pytest.mark.parametrize(
    ("other", "rtt_ms", "called"),
    [
        ("c", 4, ["c"]),
        ("c", 40, []),  # outside the express range
        ("a", 4, []),  # the smaller uid calls
    ],
)
def test_an_express_link_is_made_beside_a_fast_normal_one(
    other: str, rtt_ms: float, called: list[str]
) -> None:
    bench = Bench()
    bench.up(other)
    assert calls(echo(bench, bench.node.handle_timers(bench.now), rtt_ms), EXPRESS) == called


def test_an_express_link_is_asked_for_once_and_again_after_a_refusal() -> None:
    bench = Bench()
    bench.up("c")
    assert calls(echo(bench, bench.node.handle_timers(bench.now), 4), EXPRESS) == ["c"]
    bench.now += nanos(0.3)
    assert calls(echo(bench, bench.node.handle_timers(bench.now), 4), EXPRESS) == []
    bench.give(LinkRefused(peer("c").url, "c" * 32, Refused.BUSY, "", EXPRESS))
    bench.now += nanos(2)
    assert calls(bench.node.handle_timers(bench.now), EXPRESS) == ["c"]


def test_an_express_link_keeps_its_promise_once_it_is_measured() -> None:
    bench = Bench()
    bench.up("a")
    effects = bench.up("a", EXPRESS)
    assert not bench.node.express_links
    echo(bench, [*effects, *bench.node.handle_timers(bench.now)], 4)
    assert bench.node.express_links == ("a" * 32,)


def test_express_and_secure_links_go_with_the_normal_one() -> None:
    bench = Bench()
    for link_class in (NORMAL, EXPRESS, SECURE):
        bench.up("c", link_class)
    effects = bench.down("c", NORMAL)
    assert {e.link_class for e in effects if isinstance(e, CloseLink)} == {EXPRESS, SECURE}
    assert bench.node.express_links == bench.node.secure_links == ()


def test_the_loss_of_an_express_link_alone_leaves_the_others_alone() -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.up("c", EXPRESS)
    bench.up("c", SECURE)
    effects = bench.down("c", EXPRESS)
    assert [e for e in effects if isinstance(e, CloseLink)] == []
    assert bench.node.secure_links == ("c" * 32,)
