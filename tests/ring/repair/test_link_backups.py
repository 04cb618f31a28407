"""Lists of links at the neighbours: whole on a new link, as differences after that."""

from __future__ import annotations

from ring.config import LAN
from ring.repair.link_backups import LATEST_PERIODS
from ring.wire.messages import (
    Backup,
    BackupRequest,
    Failed,
    Heartbeat,
    Intent,
    Leaving,
    Member,
    Ping,
    Pong,
    Purpose,
)
from ring.wire.messages import Tested as Answer
from tests.helpers.bench import Bench, member, opened, peer, sent, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
Z, A, B, C = (member(i) for i in (200, 300, 400, 500))
AROUND = [member(i) for i in (100, 200, 400, 500)]
BEAT_S = LAN.heartbeat_ns / 1e9


def beat(bench: Bench, seconds: float = BEAT_S) -> dict[str, Backup]:
    """Return what goes to whom with the next heartbeats."""
    return dict(sent(bench.wait(seconds, alive=AROUND), Backup))


def test_what_has_changed_is_sent_after_the_whole() -> None:
    bench = Bench.on_ring(RING, 300)
    assert beat(bench)[Z.uid] == Backup(1, tuple(m.peer for m in AROUND))
    bench.up(peer(9001))
    bench.up(peer(9002))
    assert beat(bench) == {Z.uid: Backup(2, (peer(9001), peer(9002)), (), 1)}
    bench.down(member(9001))
    assert beat(bench) == {Z.uid: Backup(3, (), (uid(9001),), 2)}
    assert beat(bench) == {}


def test_what_has_changed_goes_in_place_of_a_heartbeat() -> None:
    bench = Bench.on_ring(RING, 300)
    beat(bench, 3 * BEAT_S)
    kinds = []
    for changed in (False, True, False):
        if changed:
            bench.up(peer(9001))
        effects = bench.wait(BEAT_S, alive=AROUND)
        kinds.append([type(m) for kind in (Heartbeat, Backup) for _, m in sent(effects, kind)])
    assert kinds == [[Heartbeat], [Backup], [Heartbeat]]


def test_one_that_hears_no_heartbeats_is_told_with_the_answer_to_its_next_ping() -> None:
    bench = Bench.on_ring(RING, 300)
    assert beat(bench)[B.uid] == Backup(1, tuple(m.peer for m in AROUND))
    bench.up(peer(9001))
    assert B.uid not in beat(bench)
    news = Backup(2, (peer(9001),), (), 1)
    for pong in (Pong(7, news), Pong(7)):
        assert sent(bench.receive(B, Ping(7)), Pong) == [(B.uid, pong)]
    assert sent(bench.receive(Z, Ping(7)), Pong) == [(Z.uid, Pong(7))], "it was told before"
    assert sent(bench.receive(C, Ping(7)), Pong) == [(C.uid, Pong(7))], "it keeps no list of ours"


def test_one_that_never_pings_is_told_all_the_same_after_a_while() -> None:
    """As where events go over the link all the time."""
    bench = Bench.on_ring(RING, 300)
    beat(bench)
    bench.up(peer(9001))
    bench.receive(member(9001), Intent(Purpose.CHORD))  # else the link does not last
    waited = 0
    while B.uid not in (found := beat(bench)):
        waited += 1
    assert found[B.uid] == Backup(2, (peer(9001),), (), 1)
    assert LATEST_PERIODS - 1 <= waited <= LATEST_PERIODS + 1


def test_what_comes_with_a_pong_is_taken() -> None:
    bench = Bench.on_ring(RING, 300)
    bench.receive(B, Backup(1, (peer(9001),)))
    bench.receive(B, Pong(0, Backup(2, (peer(9002),), (), 1)))
    bench.down(C)  # else C tells one half
    assert _all_told(bench) == {uid(9001), uid(9002)}


def test_the_left_neighbour_tells_those_whom_the_right_one_may_not_know_yet() -> None:
    """Of the two only the left one hears heartbeats, and differences with them."""
    news = Backup(2, tuple(peer(i) for i in (9001, 9002, 9003, 9004)), (), 1)
    for is_old, expected in ((False, {9001, 9002, 9003, 9004}), (True, {9002, 9004})):
        bench = Bench.on_ring(RING, 300)
        bench.receive(B, Backup(1, ()))
        bench.receive(B, news)
        if is_old:
            bench.wait((LATEST_PERIODS + 1) * BEAT_S, alive=AROUND)
        assert _all_told(bench, C, Z) == {uid(name) for name in expected}


def test_a_new_link_gets_the_whole_list() -> None:
    bench = Bench.on_ring(RING, 300)
    beat(bench)
    bench.up(B)
    assert beat(bench)[B.uid].base == 0


def test_who_asks_gets_the_whole_list() -> None:
    bench = Bench.on_ring(RING, 300)
    beat(bench)
    bench.receive(B, BackupRequest())
    assert beat(bench)[B.uid] == Backup(1, tuple(m.peer for m in AROUND))


def test_differences_that_do_not_fit_are_not_taken() -> None:
    bench = Bench.on_ring(RING, 300)
    assert sent(bench.receive(B, Backup(2, (peer(9001),), (), 1)), BackupRequest) == [
        (B.uid, BackupRequest())
    ]
    bench.receive(B, Backup(3, (peer(9002),)))
    assert sent(bench.receive(B, Backup(5, (), (uid(9002),), 4)), BackupRequest)
    bench.down(C)  # else C tells one half
    assert uid(9002) in _all_told(bench)


def test_differences_add_up() -> None:
    bench = Bench.on_ring(RING, 300)
    bench.receive(B, Backup(1, (peer(9001), peer(9002))))
    bench.receive(B, Backup(2, (peer(9003),), (uid(9001),), 1))
    assert bench.receive(B, Backup(4, (peer(9004),), (), 2)) == []
    bench.down(C)
    assert _all_told(bench) == {uid(9002), uid(9003), uid(9004)}


def _all_told(bench: Bench, *witnesses: Member) -> set[str]:
    bench.down(B)
    effects = []
    for witness in witnesses or (Z, member(100)):
        effects += bench.receive(witness, Answer(B, alive=False))
    strangers = [peer(i) for i in (9001, 9002, 9003, 9004) if peer(i).url in opened(effects)]
    return {name for stranger in strangers for name, _ in sent(bench.up(stranger), Failed)}


def test_the_list_of_one_that_stood_beside_us_before_is_kept_for_when_it_does_again() -> None:
    """Who came to stand between was gone before B noticed, so B goes on with differences."""
    bench = Bench.on_ring(RING, 300)
    bench.receive(B, Backup(1, (peer(9001),)))
    between = member(350)
    bench.up(between)
    bench.receive(between, view_of(350, [*RING, 350]))
    assert bench.node.right == (between, B)
    beat(bench)
    bench.receive(between, Leaving(between))
    bench.down(between)
    bench.receive(B, view_of(400, RING, version=2))
    beat(bench)
    bench.receive(B, Backup(2, (peer(9002),), (), 1))
    bench.down(C)  # else C tells one half
    assert _all_told(bench) == {uid(9001), uid(9002)}
