"""The broker's machine: secure links beside the ring's own, and who is told of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.node import BrokerNode
from ges.topology.parallel_links import RETRY_MAX_NS, RETRY_NS
from ges.wire.broker_messages import SecureState
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from overlay.multigraph.probes import LinkEcho, LinkProbe
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Found
from ring.wire.messages import Leaving, Member, View

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


def peer(name: str, *, secure: bool = True) -> Peer:
    return Peer(name * 32, 1, f"chordal://{name}.test:1", secure)


class Bench:
    """A broker that has founded a ring; the test plays the others."""

    def __init__(self, name: str = "b", *, secure: bool = True) -> None:
        self.node = BrokerNode(LAN, peer(name, secure=secure), rng_for(1, name))
        self.now: Nanos = 0
        self.give(Found())

    def give(self, event: Input) -> list[Effect]:
        return self.node.handle(event, self.now)

    def up(self, name: str, link_class: LinkClass = NORMAL, *, secure: bool = True) -> list[Effect]:
        other = peer(name, secure=secure)
        return self.give(LinkUp(other, other.url, link_class))

    def down(self, name: str, link_class: LinkClass, reason: Closed = Closed.LOST) -> list[Effect]:
        return self.give(LinkDown(name * 32, reason, link_class))

    def refuse(self, name: str) -> list[Effect]:
        refused = LinkRefused(peer(name).url, name * 32, Refused.UNREACHABLE, "", SECURE)
        return self.give(refused)

    def hear(self, name: str, state: SecureState) -> list[Effect]:
        return self.give(MessageReceived(name * 32, state))

    def neighbour(self, name: str, ring_id: int = 9) -> list[Effect]:
        """Let another broker join the ring beside this one."""
        self.up(name)
        return self.give(MessageReceived(name * 32, View(1, Member(peer(name), ring_id), (), ())))

    def wait(self, seconds: float, alive: str) -> list[str]:
        """Let time pass while ``alive`` is heard; return to whom secure links were asked for."""
        called = []
        end = self.now + nanos(seconds)
        while (due := self.node.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.node.ring.heard(alive * 32, self.now)
            called += calls(self.node.handle_timers(self.now))
        self.now = end
        return called


def calls(effects: Sequence[Effect]) -> list[str]:
    """Return to whom secure links are asked for."""
    return [
        (effect.uid or "?")[0]
        for effect in effects
        if isinstance(effect, OpenLink) and effect.link_class is SECURE
    ]


def told(effects: Sequence[Effect]) -> list[tuple[str, SecureState]]:
    """Return who is told of which list of secure links."""
    return [
        (effect.uid[0], effect.message)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, SecureState)
    ]


def state(name: str, *linked: str, version: int = 1, ring_id: int = 7) -> SecureState:
    others = tuple(other * 32 for other in linked)
    return SecureState(name * 32, 1, version, ring_id, others, withdrawn=False)


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


def test_a_secure_link_that_exists_is_not_asked_for() -> None:
    bench = Bench()
    bench.up("c")
    bench.up("c", SECURE)
    assert bench.node.secure_links == ("c" * 32,)
    assert calls(bench.up("c")) == []


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


def test_the_loss_of_a_secure_link_alone_leaves_the_ring_alone() -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.up("c", SECURE)
    effects = bench.down("c", SECURE)
    assert [effect for effect in effects if isinstance(effect, CloseLink)] == []
    assert bench.node.secure_links == ()
    assert bench.wait(3, alive="c") == ["c"]


def test_a_change_of_secure_links_is_told_to_all_neighbours() -> None:
    bench = Bench()
    bench.up("c")
    bench.up("a", secure=False)
    effects = bench.up("c", SECURE)
    assert {name for name, _ in told(effects)} == {"a", "c"}
    assert {news.linked for _, news in told(effects)} == {("c" * 32,)}
    gone = bench.down("c", SECURE)
    assert {name for name, _ in told(gone)} == {"a", "c"}
    assert {news.linked for _, news in told(gone)} == {()}


def test_a_newcomer_is_told_everything() -> None:
    bench = Bench()
    bench.up("c")
    bench.hear("c", state("d", "c"))
    bench.hear("c", state("c", "d"))
    assert {news.origin[0] for name, news in told(bench.up("a")) if name == "a"} == set("bcd")


def test_news_is_passed_on_once_and_not_back() -> None:
    bench = Bench()
    for name in "acd":
        bench.up(name)
    news = state("e", "d")
    assert told(bench.hear("d", news)) == [("a", news), ("c", news)]
    assert told(bench.hear("c", news)) == []


def test_a_broker_without_an_identity_passes_news_on_and_tells_none_of_itself() -> None:
    bench = Bench(secure=False)
    bench.up("a")
    bench.up("c")
    news = state("e", "d")
    assert told(bench.hear("a", news)) == [("c", news)]
    assert [n.origin for n in bench.node.secure_graph.states] == [news.origin]


def test_a_rumour_of_ones_own_death_is_answered() -> None:
    bench = Bench()
    bench.up("a")
    (own,) = bench.node.secure_graph.states
    rumour = SecureState(own.origin, own.incarnation, own.version + 5, own.ring_id, (), True)
    answers = [news for _, news in told(bench.hear("a", rumour)) if news.origin == own.origin]
    assert answers[-1].version > rumour.version
    assert not answers[-1].withdrawn


def test_a_broker_that_leaves_is_taken_out_of_the_graph() -> None:
    bench = Bench()
    bench.up("a")
    bench.neighbour("c", 9)
    bench.hear("c", state("c", "b", ring_id=9))
    effects = bench.give(MessageReceived("c" * 32, Leaving(Member(peer("c"), 9))))
    withdrawn = [(name, news.origin[0]) for name, news in told(effects) if news.withdrawn]
    assert withdrawn == [("a", "c")]


def test_the_dead_beyond_the_neighbours_are_taken_out_too() -> None:
    """Of a row of brokers that died at once, the middle ones were nobody's neighbours."""
    bench = Bench()
    bench.up("a")
    bench.hear("a", state("d", ring_id=5))
    bench.hear("a", state("e", ring_id=500))
    effects = bench.neighbour("c", 9)
    assert {news.origin[0] for _, news in told(effects) if news.withdrawn} == {"d"}


# Express links


def echo(bench: Bench, effects: Sequence[Effect], after: float) -> list[Effect]:
    """Answer the probes among ``effects`` after so many milliseconds."""
    bench.now += nanos(after / 1000)
    answers: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, LinkProbe):
            heard = LinkEcho(effect.message.token)
            answers += bench.give(MessageReceived(effect.uid, heard, effect.link_class))
    return answers


def expressed(effects: Sequence[Effect]) -> list[str]:
    """Return to whom express links are asked for."""
    return [
        (effect.uid or "?")[0]
        for effect in effects
        if isinstance(effect, OpenLink) and effect.link_class is EXPRESS
    ]


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
    assert expressed(echo(bench, bench.node.handle_timers(bench.now), rtt_ms)) == called


def test_an_express_link_is_asked_for_once_and_again_after_a_refusal() -> None:
    bench = Bench()
    bench.up("c")
    assert expressed(echo(bench, bench.node.handle_timers(bench.now), 4)) == ["c"]
    bench.now += nanos(0.3)
    assert expressed(echo(bench, bench.node.handle_timers(bench.now), 4)) == []
    bench.give(LinkRefused(peer("c").url, "c" * 32, Refused.BUSY, "", EXPRESS))
    bench.now += nanos(2)
    assert expressed(bench.node.handle_timers(bench.now)) == ["c"]


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


@given(
    st.lists(
        st.tuples(st.sampled_from("acde"), st.sampled_from(LinkClass), st.booleans()), max_size=30
    )
)
def test_whatever_comes_and_goes_express_and_secure_links_stay_subsets(
    changes: list[tuple[str, LinkClass, bool]],
) -> None:
    """The driver closes what it is told to close, and takes no other link without a normal one."""
    bench = Bench()
    links: set[tuple[str, LinkClass]] = set()
    for name, link_class, is_up in changes:
        key = (name, link_class)
        if is_up and (link_class is NORMAL or (name, NORMAL) in links):
            links.add(key)
            effects = bench.up(name, link_class)
        elif key in links and not is_up:
            links.remove(key)
            effects = bench.down(name, link_class)
        else:
            continue
        for effect in effects:
            if isinstance(effect, CloseLink):
                links.discard((effect.uid[0], effect.link_class))
        normal = {n for n, c in links if c is NORMAL}
        assert {n for n, _ in links} <= normal
        graph = bench.node.survey.graph
        assert all(graph.has(a, b, NORMAL) for a, b, _, _ in graph.links())
        assert set(bench.node.secure_links) == {n * 32 for n, c in links if c is SECURE}
