"""Tables of measured links: which is believed, what is passed on, and what is bounded."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.topology.horizon import EXPIRE_NS, MAX_TABLES, Horizon
from ges.wire.broker_messages import MAX_LINKS_TOLD, MeasuredLinks, ToldLink
from ges.wire.link_codec import LINK_CODEC
from overlay.errors import ProtocolError
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.multigraph.probes import LinkEcho, LinkProbe
from overlay.multigraph.weights import LinkKey, Weights
from overlay.wire.frames import MAX_CONTROL_BYTES
from tests.helpers.strategies import largest, structs

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
LINK_MESSAGES = (LinkProbe, LinkEcho, MeasuredLinks)


def rtt(number: int) -> Weights:
    return Weights(number, 0)


def table(
    origin: str, *links: tuple[str, LinkClass, int], version: int = 1, incarnation: int = 1
) -> MeasuredLinks:
    told = tuple(ToldLink(uid, link_class, rtt(number)) for uid, link_class, number in links)
    return MeasuredLinks(origin, incarnation, version, told)


def horizon(**links: int) -> Horizon:
    """What broker ``a`` holds that has normal links to these."""
    found = Horizon("a")
    own: dict[LinkKey, Weights] = {(uid, NORMAL): rtt(number) for uid, number in links.items()}
    found.own(1, own, 0)
    return found


def test_a_link_has_the_worse_of_what_its_ends_measure() -> None:
    found = horizon(b=10)
    assert found.weights("a", "b", NORMAL) == rtt(10), "the other end has not told of any yet"
    assert found.learn(table("b", ("a", NORMAL, 20), ("c", NORMAL, 5)), "b", NORMAL, 0) == {
        ("a", "b"),
        ("b", "c"),
    }
    assert found.weights("b", "a", NORMAL) == rtt(20)
    assert found.weights("b", "c", NORMAL) == rtt(5)


def test_a_link_that_one_end_denies_is_none() -> None:
    found = horizon(b=10)
    denied = found.learn(table("b", ("c", NORMAL, 5)), "b", NORMAL, 0)
    assert denied == {("a", "b"), ("b", "c")}
    assert found.weights("a", "b", NORMAL) is None
    assert found.weights("a", "c", NORMAL) is None


def test_only_what_is_told_otherwise_has_changed() -> None:
    found = horizon(b=10)
    found.learn(table("b", ("a", NORMAL, 1), ("c", NORMAL, 5)), "b", NORMAL, 0)
    again = table("b", ("a", NORMAL, 1), ("c", NORMAL, 5), version=2)
    assert found.learn(again, "b", NORMAL, 0) == set()
    other = table("b", ("c", NORMAL, 6), ("d", NORMAL, 1), version=3)
    assert found.learn(other, "b", NORMAL, 0) == {("a", "b"), ("b", "c"), ("b", "d")}
    assert found.forget("b") == {("a", "b"), ("b", "c"), ("b", "d")}
    assert found.weights("a", "b", NORMAL) == rtt(10), "it is denied no longer"


def test_older_and_equal_versions_are_no_news() -> None:
    found = horizon(b=10)
    assert found.learn(table("b", version=5), "b", NORMAL, 0) is not None
    for version in (4, 5):
        assert found.learn(table("b", version=version), "b", NORMAL, 0) is None
    assert found.learn(table("b", version=1, incarnation=2), "b", NORMAL, 0) is not None
    assert found.learn(table("b", version=9), "b", NORMAL, 0) is None


def test_nobody_tells_a_broker_of_itself() -> None:
    found = horizon(b=10)
    assert found.learn(table("a", version=99), "b", NORMAL, 0) is None
    assert found.weights("a", "b", NORMAL) == rtt(10)


def test_what_others_say_gives_way_to_the_origin_and_not_the_other_way_round() -> None:
    found = horizon(b=10, c=10)
    assert found.learn(table("b", version=50), "c", NORMAL, 0) is not None
    assert found.told_directly("b") is None, "only what the origin told is passed on"
    told = table("b", ("a", NORMAL, 1), version=2)
    assert found.learn(told, "b", NORMAL, 0) is not None
    assert found.told_directly("b") == told
    assert found.learn(table("b", version=90), "c", NORMAL, 0) is None
    assert found.unlinked("b", NORMAL) == {("a", "b")}
    assert found.learn(table("b", version=90), "c", NORMAL, 0) is not None


def test_secure_links_count_only_where_told_of_over_a_secure_link() -> None:
    found = horizon(b=10)
    told = table("b", ("c", SECURE, 5), ("c", NORMAL, 5))
    found.learn(told, "b", NORMAL, 0)
    assert found.weights("b", "c", NORMAL) == rtt(5)
    assert found.weights("b", "c", SECURE) is None
    assert found.learn(told, "b", SECURE, 0) is not None, "the same, but better believed"
    assert found.weights("b", "c", SECURE) == rtt(5)
    assert found.learn(table("b", version=9), "b", NORMAL, 0) is None
    found.unlinked("b", SECURE)
    assert found.learn(table("b", version=9), "b", NORMAL, 0) is not None


def test_what_is_not_told_again_is_forgotten_in_time() -> None:
    found = horizon(b=10)
    found.learn(table("b", ("c", NORMAL, 5)), "b", NORMAL, 0)
    assert found.expire(EXPIRE_NS) == set()
    assert found.expire(EXPIRE_NS + 1) == {("a", "b"), ("b", "c")}
    assert len(found) == 1, "its own table stays"
    assert found.forget("a") == set()
    assert found.forget("b") == set()


def test_strangers_cannot_make_it_grow_without_limit() -> None:
    found = horizon(b=10)
    for number in range(MAX_TABLES + 50):
        found.learn(table(f"{number:032x}"), "b", NORMAL, 0)
    assert len(found) == MAX_TABLES
    assert found.learn(table("c"), "c", NORMAL, 0) is not None, "a neighbour has its place"
    found.unlinked("c", NORMAL)
    assert len(found) == MAX_TABLES, "... while it is one"


def test_a_broker_tells_of_no_more_links_than_a_message_may_hold() -> None:
    found = Horizon("a")
    links: dict[LinkKey, Weights] = {(f"{n:032x}", NORMAL): rtt(1) for n in range(300)}
    found.own(1, links, 0)
    told = found.told_directly("a")
    assert told is not None
    assert len(told.links) == MAX_LINKS_TOLD


def test_only_what_differs_in_our_own_table_may_have_changed() -> None:
    found = Horizon("a")
    links: dict[LinkKey, Weights] = {("b", NORMAL): rtt(1), ("c", NORMAL): rtt(2)}
    assert found.own(1, links, 0) == {("a", "b"), ("a", "c")}
    assert found.own(2, links, 0) == set()
    assert found.own(2, links | {("c", NORMAL): rtt(3), ("d", SECURE): rtt(1)}, 0) == {
        ("a", "c"),
        ("a", "d"),
    }
    assert found.own(2, {("b", NORMAL): rtt(1)}, 0) == {("a", "c"), ("a", "d")}


def test_a_link_to_itself_is_left_out() -> None:
    found = horizon(b=10)
    found.learn(table("b", ("b", NORMAL, 1)), "b", NORMAL, 0)
    assert found.weights("b", "b", NORMAL) is None


@pytest.mark.parametrize("kind", LINK_MESSAGES, ids=lambda kind: kind.__name__)
def test_messages_about_links_arrive_and_the_largest_fits(kind: type[Message]) -> None:
    @settings(max_examples=25)
    @given(structs(kind))
    def arrives(message: Message) -> None:
        frame = LINK_CODEC.encode(message)
        assert LINK_CODEC.decode(frame[6:]) == message

    arrives()
    assert len(LINK_CODEC.encode(largest(kind))) <= MAX_CONTROL_BYTES


@settings(max_examples=100)
@given(st.lists(structs(MeasuredLinks), max_size=8), st.data())
def test_whatever_is_told_the_tables_stay_sound(
    told: list[MeasuredLinks], data: st.DataObject
) -> None:
    found = horizon(b=10)
    for message in told:
        sender = data.draw(st.sampled_from([message.origin, "b"]))
        found.learn(message, sender, data.draw(st.sampled_from(LinkClass)), 0)
        assert found.learn(message, sender, NORMAL, 0) is None
    assert found.weights("a", "b", NORMAL) == rtt(10) or any(m.origin == "b" for m in told)
    uids = {message.origin for message in told}
    for uid in uids:
        for link in next(m for m in told if m.origin == uid).links:
            assert found.weights(uid, link.uid, NORMAL) == found.weights(link.uid, uid, NORMAL)


def test_a_rate_below_nothing_is_no_message() -> None:
    bad = msgspec.msgpack.encode(["MeasuredLinks", "b" * 32, 1, 1, [["c" * 32, "normal", [-1, 0]]]])
    with pytest.raises(ProtocolError, match="bad message"):
        LINK_CODEC.decode(bad)


def test_our_first_table_denies_what_others_tell_of_us() -> None:
    found = Horizon("a")
    found.learn(table("c", ("a", NORMAL, 5), ("b", NORMAL, 5)), "c", NORMAL, 0)
    assert found.own(1, {("b", NORMAL): rtt(1)}, 0) == {("a", "b"), ("a", "c")}
    assert found.weights("a", "c", NORMAL) is None


def test_links_that_only_the_table_before_told_of_may_have_changed_with_who_tells() -> None:
    found = horizon(b=10)
    found.learn(table("c", ("d", NORMAL, 5)), "b", NORMAL, 0)
    assert found.weights("c", "d", NORMAL) is not None
    changed = found.learn(table("c", ("a", NORMAL, 5), version=2), "c", NORMAL, 0)
    assert changed is not None
    assert ("c", "d") in changed
    assert found.weights("c", "d", NORMAL) is None
