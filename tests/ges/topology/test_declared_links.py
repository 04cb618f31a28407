"""Which links carry events, and how those that are named are made and kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ges.telling.changes import Change, Changes
from ges.topology.declared_links import (
    MAX_LINKS,
    OTHER_NAME,
    RETRY_MAX_NS,
    DeclaredLinks,
    parse_links,
)
from ges.wire.broker_messages import LinkDeclared
from overlay.errors import ConfigError
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    OpenLink,
    Refused,
    Send,
)
from overlay.rng import rng_for
from ring.facts import KeepLinks
from ring.wire.messages import Member

NORMAL = LinkClass.NORMAL
A, B = "a" * 32, "b" * 32
URL = "chordal://b.test:1"


@dataclass
class HandRing:
    """A ring node that does nothing but note what it is told to keep."""

    peer: Peer
    detours: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[Peer, ...] = ()
    is_member: bool = True

    @property
    def member(self) -> Member | None:
        return Member(self.peer, 7) if self.is_member else None

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        assert isinstance(event, KeepLinks)
        self.kept = event.peers
        return []


class Bench:
    """The part at one broker, and the other end of its link."""

    def __init__(self, *, declared: bool = True, other: bool = True, names: bool = True) -> None:
        self.ring = HandRing(Peer(A, 1, "chordal://a.test:1", declared=declared))
        self.other = Peer(B, 1, URL, declared=other)
        self.normal: dict[str, Peer] = {}
        urls = (URL,) if names else ()
        changes = Changes()
        self.news = changes.follow((Change.CARRIERS,))
        self.part = DeclaredLinks(self.ring, self.normal, rng_for(1), changes, urls)

    def settle(self, now: Nanos) -> list[Effect]:
        return self.part.settle({Change.PLACE}, now)

    def up(self, url: str = URL) -> list[Effect]:
        self.normal[B] = self.other
        return self.part.on_link(LinkUp(self.other, url), 0)

    def down(self) -> list[Effect]:
        del self.normal[B]
        return self.part.on_link(LinkDown(B, Closed.LOST), 0)

    def told(self) -> None:
        take = self.part.messages[LinkDeclared]
        assert take((B, NORMAL), LinkDeclared(), 0) == []

    @property
    def carries(self) -> bool:
        return self.part.carries(self.other)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("is_told", [False, True])
def test_a_link_carries_events_if_an_end_names_it_or_neither_is_declared(
    declared: bool, other: bool, names: bool, is_told: bool
) -> None:
    bench = Bench(declared=declared, other=other, names=names)
    bench.up()
    if is_told:
        bench.told()
    assert bench.carries == (names or is_told or not (declared or other))
    assert bench.part.carries_to(B) == bench.carries


def test_a_named_link_is_called_kept_and_told_of_and_called_again_when_it_is_lost() -> None:
    bench = Bench()
    assert bench.settle(0) == [OpenLink(URL)]
    assert bench.settle(0) == [], "it is called already"
    assert bench.up() == [Send(B, LinkDeclared())]
    assert [*bench.ring.kept] == [bench.other]
    assert [*bench.part.links] == [(URL, B, "")]
    bench.news.clear()
    bench.down()
    assert not bench.ring.kept
    assert not bench.carries
    assert bench.news == {Change.CARRIERS}
    assert [*bench.part.links] == [(URL, None, "the link was lost")]
    due = bench.part.next_deadline()
    assert due is not None
    assert bench.settle(0) == [], "not at once"
    assert bench.part.handle_timers(due) == [OpenLink(URL)]


def test_the_ring_may_make_the_link_and_close_it() -> None:
    bench = Bench()
    assert bench.up("chordal://other.test:1") == [Send(B, LinkDeclared())], "by its own URL"
    del bench.normal[B]
    bench.part.on_close(CloseLink(B, Closed.LOST), 0)
    assert not bench.carries


def test_pauses_between_calls_double_up_to_ten_seconds() -> None:
    bench, now, pauses = Bench(), 0, []
    assert bench.settle(now) == [OpenLink(URL)]
    for _ in range(12):
        refused = LinkRefused(URL, None, Refused.UNREACHABLE, "connection refused")
        assert bench.part.on_link(refused, now) == []
        due = bench.part.next_deadline()
        assert due is not None
        pauses.append(due - now)
        now = due
        assert bench.part.handle_timers(now) == [OpenLink(URL)]
    assert pauses[0] < nanos(0.5)
    assert all(RETRY_MAX_NS / 2 <= pause <= RETRY_MAX_NS * 1.5 for pause in pauses[-5:])
    assert bench.part.links == ((URL, None, "unreachable: connection refused"),)


def test_nothing_is_called_before_this_broker_is_on_the_ring() -> None:
    bench = Bench()
    bench.ring.is_member = False
    assert bench.settle(0) == []
    bench.ring.is_member = True
    assert bench.settle(0) == [OpenLink(URL)]


def test_a_broker_that_is_linked_by_another_url_is_told_of() -> None:
    bench = Bench()
    bench.settle(0)
    bench.part.on_link(LinkRefused(URL, None, Refused.DUPLICATE), 0)
    assert bench.part.links == ((URL, None, OTHER_NAME),)


def test_what_an_earlier_life_of_the_other_end_named_is_named_no_more() -> None:
    bench = Bench(names=False)
    bench.up()
    bench.told()
    assert bench.carries
    bench.other = Peer(B, 2, URL, declared=True)
    bench.up()
    assert not bench.carries


def test_events_take_other_links_than_a_failed_one_unless_it_has_to_be_named() -> None:
    assert not Bench(declared=False, other=False).part.has_failed(Peer(B, 1, URL))
    for declared, other in ((False, False), (True, False), (False, True)):
        bench = Bench(declared=declared, other=other, names=False)
        bench.ring.detours[B] = (A, "c" * 32, B)
        peer = Peer(B, 1, URL, declared=other)
        assert bench.part.has_failed(peer) == (not declared and not other)
        assert not bench.carries


def test_urls_of_links_are_plain_and_not_too_many() -> None:
    assert parse_links(["chordal://a.test,chordal://b.test:7", "chordal://a.test:9470"]) == (
        "chordal://a.test:9470",
        "chordal://b.test:7",
    )
    with pytest.raises(ConfigError, match="write it as chordal://"):
        parse_links(["chordals://a.test"])
    with pytest.raises(ConfigError, match="256 are the most"):
        parse_links([f"chordal://h{number}.test" for number in range(MAX_LINKS + 1)])
