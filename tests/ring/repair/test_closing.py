"""After a confirmed death: who is told, and when the ring is whole (paper 004, section 3.4.1).

A is broker 300, B its right neighbour 400, C the neighbour 500 on B's other side.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Peer
from overlay.machine import Closed, Effect
from ring.config import LAN
from ring.facts import Confirmed, Repaired
from ring.wire.messages import Backup, Failed, Member
from ring.wire.messages import Tested as Answer
from tests.helpers.bench import Bench, closed, member, opened, peer, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
SURVIVORS = [100, 200, 300, 500, 600, 700]
A, B, C = member(300), member(400), member(500)
Z, D = member(200), member(600)  #: the second witnesses of A and C
HOLDERS = tuple(peer(name) for name in (9001, 9002, 9003, 9004, 9005))


def with_backup(here: int, holders: Sequence[Peer] = HOLDERS) -> Bench:
    """A or C, to whom B has shown whom it is linked to: its neighbours and five holders."""
    bench = Bench.on_ring(RING, here)
    bench.receive(B, Backup(1, (*holders, A.peer, C.peer)))
    return bench


def confirm(bench: Bench, first: Member, second: Member) -> list[Effect]:
    bench.down(B)
    bench.receive(first, Answer(B, alive=False))
    return bench.receive(second, Answer(B, alive=False))


def notices(
    bench: Bench, effects: list[Effect], holders: Sequence[Peer] = HOLDERS
) -> dict[str, Failed]:
    """Return who is told of the failure, over links that are up and over those that come up."""
    found = sent(effects, Failed)
    for holder in holders:
        if holder.url in opened(effects):
            found += sent(bench.up(holder), Failed)
    receivers = [receiver for receiver, _ in found]
    assert len(receivers) == len(set(receivers)), "somebody is told twice"
    return dict(found)


def test_the_brokers_around_are_told() -> None:
    effects = confirm(Bench.on_ring(RING, 300), C, Z)
    assert sent(effects, Failed) == [
        (uid(neighbour), Failed(B, (C.uid, Z.uid), A)) for neighbour in (200, 500, 100)
    ]


def test_a_and_c_together_tell_every_holder_exactly_once() -> None:
    """A and C execute a divide-neighbour(B) and send messages to all the neighbours of B."""
    a, c = with_backup(300), with_backup(500)
    by_a, by_c = notices(a, confirm(a, C, Z)), notices(c, confirm(c, A, D))
    holders = {holder.uid for holder in HOLDERS}
    assert (by_a.keys() | by_c.keys()) >= holders
    assert by_a.keys() & by_c.keys() & holders == set()
    assert abs(len(by_a.keys() & holders) - len(by_c.keys() & holders)) <= 1


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_no_holder_is_left_out_wherever_a_and_c_stand_in_the_list(
    first: int, between: int, last: int
) -> None:
    """The list is in order of uid, and the uids of A and C are anywhere among the others."""
    names = (*range(1, 1 + first), *range(301, 301 + between), *range(501, 501 + last))
    holders = [peer(name) for name in names]
    a, c = with_backup(300, holders), with_backup(500, holders)
    by_a = notices(a, confirm(a, C, Z), holders).keys()
    by_c = notices(c, confirm(c, A, D), holders).keys()
    told_by = {holder.uid: [holder.uid in by_a, holder.uid in by_c] for holder in holders}
    assert all(sum(by) == 1 for by in told_by.values()), told_by


def test_holders_are_told_whom_to_route_to_instead() -> None:
    """They are to route messages meant for B to A or C: to the one that tells them."""
    for ours, witnesses in ((A, (C, Z)), (C, (A, D))):
        bench = with_backup(ours.ring_id)
        told_so = notices(bench, confirm(bench, *witnesses))
        heirs = {told_so[h.uid].heir for h in HOLDERS if h.uid in told_so}
        assert heirs == {ours}


def test_a_tells_all_holders_if_c_is_lost_as_well() -> None:
    bench = with_backup(300)
    bench.down(C)
    effects = confirm(bench, Z, member(100))
    told_so = notices(bench, effects)
    assert told_so.keys() >= {holder.uid for holder in HOLDERS}


def test_a_broker_further_off_leaves_the_holders_to_a_and_c() -> None:
    bench = Bench.on_ring(RING, 200)
    bench.receive(B, Backup(1, HOLDERS))
    effects = bench.receive(A, Failed(B, (C.uid,), None))
    assert told(effects, Confirmed) == [Confirmed(B, (C.uid,))]
    assert notices(bench, effects).keys() == {uid(100), uid(700)}, "who told us knows of it"


def test_hearing_of_it_again_costs_nothing() -> None:
    bench = with_backup(300)
    confirm(bench, C, Z)
    bench.wait(0.1, alive=[C, Z, member(100)])
    before = [(ruling.witnesses, ruling.at_ns) for ruling in bench.node.verdicts]
    assert bench.receive(C, Failed(B, (C.uid,), None)) == []
    assert [(ruling.witnesses, ruling.at_ns) for ruling in bench.node.verdicts] == before


def test_news_of_an_earlier_life_is_ignored() -> None:
    """Of one that was here in that life, and of one that is known in a later one only."""
    for subject in (B, member(9001)):
        bench = Bench.on_ring(RING, 300)
        bench.up(peer(subject.ring_id, incarnation=2))
        effects = bench.receive(C, Failed(subject, (C.uid,), None))
        assert told(effects, Confirmed) == []
        assert closed(effects) == []
        assert bench.node.verdicts == ()


def test_the_ring_is_repaired_when_both_neighbours_see_it_as_we_do() -> None:
    """A and C become neighbours of each other, and all four pointers are right."""
    bench = Bench.on_ring(RING, 300)
    assert opened(confirm(bench, C, Z)) == [peer(600).url]
    steps = [
        bench.receive(C, view_of(500, SURVIVORS, version=2)),
        bench.up(peer(600)),
        bench.receive(member(600), view_of(600, SURVIVORS, version=2)),
        bench.receive(member(200), view_of(200, SURVIVORS, version=2)),
    ]
    assert [told(effects, Repaired) for effects in steps] == [[], [], [Repaired(B)], []]
    assert bench.node.right == (C, member(600))


def test_the_ring_is_not_repaired_while_either_neighbour_sees_another_beside_it() -> None:
    bench = Bench.on_ring(RING, 300)
    bench.receive(Z, view_of(200, [i for i in RING if i != 300], version=2))
    confirm(bench, C, Z)
    steps = [
        bench.up(peer(600)),
        bench.receive(member(600), view_of(600, SURVIVORS, version=2)),
        bench.receive(C, view_of(500, SURVIVORS, version=2)),
        bench.receive(Z, view_of(200, SURVIVORS, version=3)),
    ]
    assert [told(effects, Repaired) for effects in steps] == [[], [], [], [Repaired(B)]]


def test_a_dead_brokers_link_is_closed_with_the_verdict() -> None:
    bench = Bench.on_ring(RING, 300)
    effects = bench.receive(C, Failed(B, (C.uid,), None))
    assert (B.uid, Closed.DECLARED_DEAD) in closed(effects)


def test_whom_we_are_linked_to_is_backed_up_left_and_right() -> None:
    bench = Bench.on_ring(RING, 300)
    others = [member(i) for i in (100, 200, 400, 500)]
    effects = bench.wait(LAN.heartbeat_ns / 1e9, alive=others)
    backup = Backup(1, tuple(peer(i) for i in (100, 200, 400, 500)))
    assert sent(effects, Backup) == [(uid(200), backup), (uid(400), backup)]
    assert sent(bench.wait(LAN.heartbeat_ns / 1e9, alive=others), Backup) == []
    bench.up(member(9001))
    again = {message for _, message in sent(bench.wait(0.4, alive=others), Backup)}
    assert [message.version for message in again] == [2]
    assert [peer(9001) in message.linked for message in again] == [True]


def test_an_older_backup_does_not_replace_a_newer_one() -> None:
    bench = Bench.on_ring(RING, 300)
    bench.receive(B, Backup(2, HOLDERS))
    bench.receive(B, Backup(1, ()))
    bench.down(C)
    assert notices(bench, confirm(bench, Z, member(100))).keys() >= {h.uid for h in HOLDERS}


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_small_rings_are_repaired_as_well(n: int) -> None:
    ids = [100, 200, 300, 400, 500][:n]
    bench = Bench.on_ring(ids, 100)
    dead = member(200)
    effects = bench.down(dead)
    for witness in ids[2:4]:
        effects += bench.receive(member(witness), Answer(dead, alive=False))
    if n == 2:
        effects += bench.wait(1.01 * LAN.alone_ns / 1e9)
    assert len(told(effects, Confirmed)) == 1
    expected = view_of(100, [i for i in ids if i != 200])
    assert (bench.node.left[:1], bench.node.right[:1]) == (expected.left[:1], expected.right[:1])


def test_what_was_left_to_one_that_is_found_dead_as_well_is_told_all_the_same() -> None:
    bench = with_backup(300)
    ours = notices(bench, confirm(bench, C, Z)).keys()
    left = {holder.uid for holder in HOLDERS} - ours
    assert left
    effects = bench.receive(Z, Failed(C, (Z.uid, D.uid), None))
    told_now = notices(bench, effects)
    assert told_now.keys() >= left
    assert all(told_now[name].subject == B for name in left)


def test_while_another_gap_is_open_nobody_beyond_is_counted_on() -> None:
    """C is dead, then B: who stands beyond B now never stood beside it, and has no list of it."""
    bench = with_backup(300)
    bench.receive(Z, Failed(C, (Z.uid, D.uid), None))
    bench.up(D)
    bench.receive(D, view_of(600, [100, 200, 300, 400, 600, 700], version=2))
    effects = confirm(bench, Z, D)
    assert notices(bench, effects).keys() >= {holder.uid for holder in HOLDERS}
