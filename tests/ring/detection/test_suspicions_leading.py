"""One broker beside a silent one asks the witnesses; the others wait for its word.

A is broker 300, B its right neighbour 400, C the neighbour 500 on B's other side, Z the broker 200
on A's. Nothing is heard of B.
"""

from __future__ import annotations

from ring.config import LAN
from ring.facts import Confirmed, Suspected
from ring.wire.messages import Failed, Member, Ping
from ring.wire.messages import Tested as Answer
from ring.wire.messages import TestNeighbour as Question
from tests.helpers.bench import Bench, member, opened, sent, told, uid

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C, Z = member(300), member(400), member(500), member(200)
AROUND_A = [member(100), Z, C]
AROUND_C = [A, member(600), member(700)]
TEST_S = LAN.test_min_ns / 1e9  #: round trips are short on the bench
PATIENCE_S = (LAN.test_ns + LAN.answer_max_ns) / 1e9  #: with who leads


def overdue(here: int, alive: list[Member]) -> Bench:
    """The broker ``here`` when it has just begun to ping B, which it has not heard for long."""
    node = Bench.on_ring(RING, here)
    for _ in range(10_000):
        if B.uid in [to for to, _ in sent(node.wait(0.01, alive=alive), Ping)]:
            return node
    raise AssertionError("it never does")


def led() -> Bench:
    """C, which has found B silent by itself while it tests B for A."""
    c = overdue(500, AROUND_C)
    c.receive(A, Question(B))
    effects = c.wait(1.01 * TEST_S, alive=AROUND_C)
    assert told(effects, Suspected) == [Suspected(B, "silent")]
    assert sent(effects, Question) == []
    return c


def test_c_that_misses_b_itself_leaves_it_to_a_who_has_asked_it() -> None:
    c = led()
    effects = c.receive(A, Failed(B, (uid(500), Z.uid), None))
    assert B not in c.node.left
    assert c.node.suspects == ()
    assert sent(effects + c.wait(2 * PATIENCE_S, alive=AROUND_C), Question) == []


def test_a_that_misses_b_itself_leaves_it_to_c_who_has_asked_it() -> None:
    node = overdue(300, AROUND_A)
    node.receive(C, Question(B))
    effects = node.wait(1.01 * TEST_S, alive=AROUND_A)
    assert told(effects, Suspected) == [Suspected(B, "silent")]
    assert sent(effects, Question) == []
    assert sent(effects, Answer) == [(C.uid, Answer(B, alive=False))]


def test_if_a_is_lost_c_asks_at_once_and_counts_on_nobody_s_word() -> None:
    c = led()
    effects = c.down(A)
    asked = [to for to, question in sent(effects, Question) if question.subject == B]
    assert asked == [uid(600), uid(700)]
    assert opened(effects)[0] == A.peer.url, "it may be the link that failed"
    c.receive(member(600), Answer(B, alive=False))
    assert B in c.node.left
    effects = c.receive(member(700), Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (uid(600), uid(700)))]


def test_if_a_says_no_more_c_asks() -> None:
    c = led()
    assert sent(c.wait(0.9 * PATIENCE_S, alive=AROUND_C), Question) == []
    effects = c.wait(0.2 * PATIENCE_S, alive=AROUND_C)
    assert [to for to, _ in sent(effects, Question)] == [uid(300), uid(600)]


def test_if_a_is_declared_dead_c_asks() -> None:
    c = led()
    effects = c.receive(member(600), Failed(A, ("0" * 32,), None))
    assert (uid(600), Question(B)) in sent(effects, Question)


def test_a_witness_that_agrees_asks_at_once_if_a_is_lost() -> None:
    node = Bench.on_ring(RING, 200)
    around = [member(700), member(100), A]
    node.receive(A, Question(B))
    effects = node.wait(1.01 * TEST_S, alive=around)
    assert told(effects, Suspected) == [Suspected(B, "test failed")]
    effects = node.down(A)
    assert opened(effects)[0] == C.peer.url
    assert sent(effects, Question)[0] == (uid(100), Question(B))


def test_who_points_a_second_neighbour_to_b_is_a_witness_and_those_beside_b_go_first() -> None:
    node = Bench.on_ring(RING, 200)
    pointer, around = member(100), [member(700), member(100), A]
    node.receive(pointer, Question(B))
    effects = node.wait(1.01 * TEST_S, alive=around)
    assert told(effects, Suspected) == [Suspected(B, "test failed")]
    effects += node.wait(0.97 * PATIENCE_S, alive=around)
    assert sent(effects, Question) == []
    effects = node.wait(0.05 * PATIENCE_S, alive=around)
    assert sent(effects, Question) == [(A.uid, Question(B))]
    effects = node.receive(A, Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (pointer.uid, A.uid))]


def test_who_points_us_to_b_does_not_lead() -> None:
    """Z, behind us, waits for our word: to wait for its word would take the time of both."""
    node = Bench.on_ring(RING, 300)
    node.receive(Z, Question(B))
    effects = node.wait(1.01 * TEST_S, alive=AROUND_A)
    assert told(effects, Suspected) == [Suspected(B, "test failed")]
    assert sent(effects, Question) == [(C.uid, Question(B)), (Z.uid, Question(B))]


def test_a_that_misses_b_itself_does_not_wait_for_who_points_it_to_b() -> None:
    node = overdue(300, AROUND_A)
    node.receive(Z, Question(B))
    effects = node.wait(1.01 * TEST_S, alive=AROUND_A)
    assert told(effects, Suspected) == [Suspected(B, "silent")]
    assert sent(effects, Question) == [(C.uid, Question(B)), (Z.uid, Question(B))]
