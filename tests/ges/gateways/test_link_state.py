"""What members say of their links, and which edges follow."""

from __future__ import annotations

import msgspec
import pytest

from ges.gateways.costs import LAST_BUCKET
from ges.gateways.link_state import Edge, LinkStates
from ges.wire.gateway_messages import MAX_STATE_LINKS, LinkState, StateLink
from overlay.ids import LinkClass

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
A, B, C = "a" * 32, "b" * 32, "c" * 32
MEMBERS = {A: 1, B: 2, C: 3}


def state(origin: str, links: dict[str, int], version: int = 1, incarnation: int = 1) -> LinkState:
    """Return what a member says of its normal links."""
    told = tuple(StateLink(uid, NORMAL, bucket) for uid, bucket in links.items())
    return LinkState(origin, 0, incarnation, version, told)


def test_the_worse_cost_of_both_ends_counts() -> None:
    states = LinkStates(A)
    assert states.table.take_row(state(A, {B: 3}))
    assert states.table.take_row(state(B, {A: 5}))
    assert list(states.edges(NORMAL, MEMBERS)) == [Edge(A, B, 5)]
    assert list(states.edges(SECURE, MEMBERS)) == []


def test_a_link_that_the_other_end_denies_does_not_count() -> None:
    states = LinkStates(A)
    states.table.take_row(state(A, {B: 3}))
    states.table.take_row(state(B, {C: 1}))
    states.table.take_row(state(C, {B: 1}))
    assert list(states.edges(NORMAL, MEMBERS)) == [Edge(B, C, 1)]


@pytest.mark.parametrize("teller", [A, B])
def test_a_link_counts_while_the_other_end_has_said_nothing(teller: str) -> None:
    states = LinkStates(C)
    states.table.take_row(state(teller, {A if teller == B else B: 4}))
    assert list(states.edges(NORMAL, MEMBERS)) == [Edge(A, B, 4)]


def test_links_to_others_than_members_and_to_oneself_do_not_count() -> None:
    states = LinkStates(C)
    states.table.take_row(state(A, {"d" * 32: 1, A: 1}))
    assert list(states.edges(NORMAL, MEMBERS)) == []
    states.table.take_row(state(B, {A: 1}))
    assert list(states.edges(NORMAL, {A: 1})) == []


def test_what_is_told_of_oneself_is_put_right() -> None:
    states = LinkStates(A)
    first = states.own(1, 1, [StateLink(B, NORMAL, 2)])
    assert first is not None
    assert first.version == 1
    assert states.own(1, 1, [StateLink(B, NORMAL, 2)]) is None
    assert states.table.take_row(state(A, {C: 1}, version=9, incarnation=4))
    mine = states.own(1, 1, [StateLink(B, NORMAL, 2)])
    assert mine is not None
    assert (mine.incarnation, mine.version) == (4, 10)
    assert states.get(A) == mine


def test_what_a_member_can_say_is_limited() -> None:
    states = LinkStates(A)
    uids = [f"{at:032x}" for at in range(MAX_STATE_LINKS + 5)]
    mine = states.own(0, 1, [StateLink(uid, NORMAL, at) for at, uid in enumerate(uids)])
    assert mine is not None
    assert len(mine.links) == MAX_STATE_LINKS
    assert uids[0] in {link.uid for link in mine.links}
    assert uids[-1] not in {link.uid for link in mine.links}


def test_a_bucket_beyond_the_last_counts_as_the_last() -> None:
    states = LinkStates(A)
    states.table.take_row(state(B, {C: 255}))
    assert list(states.edges(NORMAL, MEMBERS)) == [Edge(B, C, LAST_BUCKET)]


def test_a_state_goes_over_the_wire() -> None:
    said = LinkState(A, 63, 1, 2, (StateLink(B, SECURE, 7),))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=LinkState) == said
    bad = msgspec.msgpack.encode(msgspec.structs.replace(said, slot=64))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(bad, type=LinkState)
