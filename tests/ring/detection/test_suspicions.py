"""Is it the broker or the link? (paper 004, section 3.4)

A is broker 300, B its right neighbour 400, C the neighbour 500 on B's other side. Z, the broker
200, is linked to A and B and so the second witness.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from overlay.ids import nanos
from overlay.machine import Closed, Notify, OpenLink, Refused, Send
from ring.config import LAN
from ring.facts import Confirmed, LinkFailed, NeighboursChanged, Refuted, Suspected
from ring.wire.messages import Failed, Heartbeat, HeldDead, Ping, Place, Pong, Relay
from ring.wire.messages import Tested as Answer
from ring.wire.messages import TestNeighbour as Question
from tests.helpers.bench import Bench, closed, member, opened, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
B, C, Z = member(400), member(500), member(200)
OTHERS = [member(100), Z, C]
TEST_S = LAN.test_min_ns / 1e9  #: round trips are short on the bench
PATIENCE_S = (LAN.test_ns + LAN.answer_max_ns) / 1e9  #: with a witness


def bench(here: int = 300) -> Bench:
    return Bench.on_ring(RING, here)


def suspecting() -> Bench:
    """A after it has lost its link to B."""
    node = bench()
    node.down(B)
    return node


# A suspects B and asks C


def test_a_lost_link_makes_a_ask_c_to_test_b() -> None:
    """Section 3.4.1: it sends test-neighbour(B) to node C, its neighbour's neighbour.

    Departs from the paper: a second witness is asked as well.
    """
    assert bench().down(B) == [
        Notify(Suspected(B, "link lost")),
        OpenLink(B.peer.url, B.uid, B.uid),
        Send(C.uid, Question(B), B.uid),
        Send(Z.uid, Question(B), B.uid),
    ]


def test_silence_makes_a_ask_c_to_test_b() -> None:
    node = bench()
    effects = node.wait(LAN.silence_ns / 1e9, alive=OTHERS)
    assert told(effects, Suspected) == [Suspected(B, "silent")]
    assert sent(effects, Question) == [(C.uid, Question(B)), (Z.uid, Question(B))]
    at = effects.index(Notify(Suspected(B, "silent")))
    pings = [to for to, _ in sent(effects[at:], Ping)]
    assert pings == [B.uid, C.uid, Z.uid], "do they live themselves?"


def test_on_the_left_side_the_neighbour_further_left_is_asked() -> None:
    effects = bench().down(Z)
    assert sent(effects, Question) == [(uid(100), Question(Z)), (B.uid, Question(Z))]


def test_a_second_neighbour_is_left_to_the_brokers_beside_it() -> None:
    """They tell us; if they do not, the broker at its other side is 600."""
    node = bench()
    effects = node.down(C)
    assert (opened(effects), sent(effects, Question)) == ([C.peer.url], [])
    assert told(effects, Suspected) == [Suspected(C, "link lost")]
    assert opened(node.wait(0.99 * PATIENCE_S, alive=[*OTHERS, B])) == []
    effects = node.wait(0.02 * PATIENCE_S, alive=[*OTHERS, B])
    assert opened(effects) == [member(600).peer.url]
    assert sent(effects, Question) == [(B.uid, Question(C))]


def test_a_second_neighbour_that_comes_to_stand_beside_us_is_our_affair() -> None:
    node = bench()
    node.down(C)
    effects = node.receive(Z, Failed(B, ("0" * 32,), None))
    assert opened(effects)[-1:] == [member(600).peer.url]
    assert (Z.uid, Question(C)) in sent(effects, Question)


def test_a_suspected_broker_keeps_its_place() -> None:
    node = suspecting()
    assert node.node.right == (B, C)
    assert node.node.suspects == (B.uid,)


@pytest.mark.parametrize("reason", [Closed.UNWANTED, Closed.LEAVING])
def test_a_link_closed_with_a_word_is_no_failure(reason: Closed) -> None:
    assert told(bench().down(B, reason), Suspected) == []


def test_a_broker_that_is_no_neighbour_is_not_suspected() -> None:
    """Though it has told its place: others stand beside it, and miss it."""
    node, far = bench(), member(5000)
    node.up(far)
    node.receive(far, Place(far))
    assert far.uid in node.node.linked
    assert told(node.down(far), Suspected) == []


# C tests B


def test_c_tests_b_and_reports_that_it_lives() -> None:
    """Section 3.4.1: C sends a test-acknowledgement message to B to test if it is live or not."""
    c, a = bench(500), member(300)
    assert c.receive(a, Question(B)) == [Send(B.uid, Ping(0), B.uid)]
    effects = c.receive(B, Pong(0))
    assert sent(effects, Answer) == [(a.uid, Answer(B, alive=True))]


def test_c_reports_failure_if_b_does_not_reply_in_time() -> None:
    """Section 3.4.1: if it receives no reply within the stipulated time, it sends failed(B)."""
    c, a = bench(500), member(300)
    c.receive(a, Question(B))
    assert sent(c.wait(0.99 * TEST_S), Answer) == []
    effects = c.wait(0.02 * TEST_S)
    assert sent(effects, Answer) == [(a.uid, Answer(B, alive=False))]


def test_c_asks_b_three_times() -> None:
    c, a = bench(500), member(300)
    asked = c.receive(a, Question(B)) + c.wait(0.99 * TEST_S, alive=[a, member(600), member(700)])
    assert len([to for to, _ in sent(asked, Ping) if to == B.uid]) == LAN.probes


def test_c_does_not_judge_alone() -> None:
    """It may be cut off from B just as A may be; it waits for A's verdict, then asks D."""
    c, a = bench(500), member(300)
    c.receive(a, Question(B))
    effects = c.wait(1.01 * TEST_S, alive=[a, member(600), member(700)])
    assert told(effects, Suspected) == [Suspected(B, "test failed")]
    assert (told(effects, Confirmed), sent(effects, Question)) == ([], [])
    effects = c.wait(PATIENCE_S, alive=[a, member(600), member(700)])
    assert sent(effects, Question) == [(uid(600), Question(B))]
    effects = c.receive(member(600), Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (a.uid, uid(600)))]


def test_any_sign_of_life_will_do() -> None:
    c, a = bench(500), member(300)
    c.receive(a, Question(B))
    assert sent(c.receive(B, Heartbeat(1)), Answer) == [(a.uid, Answer(B, alive=True))]
    assert sent(c.wait(TEST_S), Answer) == []


def test_c_makes_a_link_to_b_if_it_has_none() -> None:
    """A witness that is no neighbour of B: the broker 100, asked about 600."""
    witness, asker, subject = bench(100), member(200), member(400)
    effects = witness.receive(asker, Question(subject))
    assert effects == [OpenLink(subject.peer.url, subject.uid, subject.uid)]
    assert sent(witness.up(subject), Answer) == [(asker.uid, Answer(subject, alive=True))]


def test_a_refused_link_is_a_failed_test_at_once() -> None:
    witness, asker, subject = bench(100), member(200), member(400)
    witness.receive(asker, Question(subject))
    effects = witness.refused(subject)
    assert sent(effects, Answer) == [(asker.uid, Answer(subject, alive=False))]


def test_two_who_ask_are_one_test_and_both_are_told() -> None:
    c, a, d = bench(500), member(300), member(600)
    assert len(sent(c.receive(a, Question(B)), Ping)) == 1
    assert c.receive(d, Question(B)) == []
    assert c.receive(a, Question(B)) == []
    told_to = [to for to, _ in sent(c.receive(B, Pong(0)), Answer)]
    assert told_to == [a.uid, d.uid]


def test_that_its_own_link_to_b_breaks_is_no_proof_to_c_which_calls_b() -> None:
    """All links of a broker may break at one moment, as with its switch, and it lives."""
    c, a = bench(500), member(300)
    c.receive(a, Question(B))
    effects = c.down(B)
    assert B.peer.url in opened(effects)
    effects += c.wait(TEST_S, alive=[a])
    assert sent(effects, Answer) == []
    assert (a.uid, Answer(B, alive=True)) in sent(c.up(B), Answer)


def test_c_says_that_b_failed_once_it_refuses_calls() -> None:
    c, a = bench(500), member(300)
    c.receive(a, Question(B))
    c.down(B)
    assert (a.uid, Answer(B, alive=False)) in sent(c.refused(B), Answer)


def test_a_witness_that_knows_b_dead_says_so_at_once() -> None:
    c, a = bench(500), member(300)
    c.receive(member(600), Failed(B, ("0" * 32,), None))
    effects = c.receive(a, Question(B))
    assert sent(effects, Answer) == [(a.uid, Answer(B, alive=False))]
    assert sent(effects, Ping) == []


def test_nobody_tests_itself() -> None:
    """It has no link to itself, so it would find that it is dead."""
    node, others = bench(400), [member(i) for i in (200, 300, 500, 600)]
    effects = node.receive(member(300), Question(B))
    effects += node.wait(2 * LAN.test_ns / 1e9, alive=others)
    assert sent(effects, Answer) == []
    assert B.peer.url not in opened(effects)


# What A concludes


def test_failed_confirms_the_death() -> None:
    """Section 3.4.1: C confirms node failure of B and sends failed(B) to A; and so does Z."""
    node = suspecting()
    effects = node.receive(C, Answer(B, alive=False))
    assert told(effects, Confirmed) == []
    effects = node.receive(Z, Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (C.uid, Z.uid))]
    assert B not in node.node.right


@pytest.mark.parametrize("first", [True, False])
def test_one_witness_that_reaches_b_outweighs_one_that_does_not(first: bool) -> None:
    """Not all pairs of brokers that live can reach each other."""
    node = suspecting()
    effects = node.receive(C, Answer(B, alive=first)) + node.receive(Z, Answer(B, alive=not first))
    assert told(effects, LinkFailed) == [LinkFailed(B, C.uid if first else Z.uid)]
    assert told(effects, Confirmed) == []
    assert sent(effects, Question) == [], "no third is asked to outvote it"
    assert node.node.right == (B, C)


def test_the_same_witness_does_not_count_twice() -> None:
    node = suspecting()
    node.receive(C, Answer(B, alive=False))
    assert told(node.receive(C, Answer(B, alive=False)), Confirmed) == []


def test_who_was_not_asked_has_no_say() -> None:
    node = suspecting()
    node.receive(C, Answer(B, alive=False))
    assert told(node.receive(member(100), Answer(B, alive=False)), Confirmed) == []


def test_alive_means_that_the_link_failed() -> None:
    """Section 3.4.2: the node is up and the original node confirms link failure."""
    node = suspecting()
    effects = node.receive(C, Answer(B, alive=True))
    assert told(effects, LinkFailed) == [LinkFailed(B, C.uid)]
    assert [relay.path for _, relay in sent(effects, Relay)] == [(uid(300), C.uid, B.uid)]
    assert node.node.right == (B, C)
    assert told(node.wait(4 * TEST_S, alive=OTHERS), Confirmed) == []


def test_a_link_through_which_nothing_comes_is_made_anew() -> None:
    node = bench()
    node.wait(LAN.silence_ns / 1e9, alive=OTHERS)
    assert closed(node.receive(C, Answer(B, alive=True))) == [], "its own answer may be near"
    effects = node.wait(LAN.answer_ns / 1e9, alive=OTHERS)
    assert told(effects, LinkFailed) == [LinkFailed(B, C.uid)]
    assert closed(effects) == [(B.uid, Closed.LOST)]
    assert opened(effects) == [B.peer.url]
    assert (uid(300), C.uid, B.uid) in [relay.path for _, relay in sent(effects, Relay)]


def test_one_that_stood_still_answers_a_witness_first_and_its_link_is_left_alone() -> None:
    node = bench()
    node.wait(LAN.silence_ns / 1e9, alive=OTHERS)
    node.receive(C, Answer(B, alive=True))
    effects = [*node.receive(B, Pong(0)), *node.wait(1, alive=[B, *OTHERS])]
    assert told(effects, Refuted) == [Refuted(B)]
    assert told(effects, LinkFailed) == []
    assert closed(effects) == []
    assert node.node.suspects == ()


def test_a_link_that_breaks_while_its_brokers_answer_is_awaited_is_gone_round() -> None:
    node = bench()
    node.wait(LAN.silence_ns / 1e9, alive=OTHERS)
    node.receive(C, Answer(B, alive=True))
    node.down(B)
    effects = node.wait(LAN.answer_ns / 1e9, alive=OTHERS)
    assert told(effects, LinkFailed) == [LinkFailed(B, C.uid)]
    assert (uid(300), C.uid, B.uid) in [relay.path for _, relay in sent(effects, Relay)]


def test_if_the_link_cannot_be_made_again_b_is_tested_anew() -> None:
    node = suspecting()
    node.refused(B)
    assert opened(node.receive(C, Answer(B, alive=True))) == [B.peer.url]
    assert sent(node.refused(B), Question) == [(C.uid, Question(B)), (Z.uid, Question(B))]


def test_across_a_link_that_stays_cut_b_is_tested_now_and_then() -> None:
    """Refusals and answers take no time on a fast network: without a pause they are a storm."""
    node = suspecting()
    questions = 1
    asked = True
    for _ in range(400):  # ten seconds, with answers as soon as anybody is asked
        if asked:
            node.receive(C, Answer(B, alive=True))
        asked = bool(sent(node.refused(B), Question))
        asked |= bool(sent(node.wait(0.025, alive=OTHERS), Question))
        questions += asked
    assert 5 <= questions <= 15
    assert node.node.suspects == (B.uid,)


def test_an_answer_about_another_life_is_ignored() -> None:
    """Both witnesses answer: of one life, their words would be the verdict."""
    node, later = suspecting(), member(400, incarnation=2)
    effects = node.receive(C, Answer(later, alive=False))
    effects += node.receive(Z, Answer(later, alive=False))
    assert told(effects, Confirmed) == []


def test_an_answer_nobody_asked_for_is_ignored() -> None:
    node = bench()
    assert node.receive(C, Answer(B, alive=False)) == []
    assert node.node.right == (B, C)


# C is silent as well


def test_if_c_is_silent_the_next_nearest_is_asked() -> None:
    node = suspecting()
    node.receive(Z, Answer(B, alive=False))
    effects = node.wait(0.99 * PATIENCE_S, alive=OTHERS)
    assert (sent(effects, Question), told(effects, Confirmed)) == ([], [])
    effects = node.wait(0.02 * PATIENCE_S, alive=OTHERS)
    assert sent(effects, Question) == [(uid(100), Question(B))]


def test_the_silence_of_all_witnesses_is_the_verdict() -> None:
    """Departs from the paper, which knows one witness: four are asked, one after the other."""
    node = suspecting()
    start = node.now
    effects = node.wait(4 * PATIENCE_S, alive=OTHERS)
    assert told(effects, Confirmed) == [Confirmed(B, ())]
    assert node.now - start <= 4 * PATIENCE_S * 1e9


def test_a_pause_of_our_own_is_no_silence_of_a_witness() -> None:
    node = suspecting()
    effects = node.oversleep(60)
    assert (told(effects, Confirmed), sent(effects, Question)) == ([], [])
    node.receive(C, Answer(B, alive=False))
    effects = node.receive(Z, Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (C.uid, Z.uid))]


def test_no_witness_is_asked_twice() -> None:
    node = bench()
    effects = node.down(B) + node.wait(4 * PATIENCE_S, alive=OTHERS)
    asked = [to for to, _ in sent(effects, Question)]
    asked += [url for url in opened(effects) if url != B.peer.url]
    assert len(asked) == len(set(asked)) == LAN.witnesses


def test_a_witness_under_suspicion_itself_is_asked_last() -> None:
    node = bench()
    node.down(C)
    assert [to for to, _ in sent(node.down(B), Question)] == [Z.uid, uid(100)]


def test_a_witness_lost_while_it_is_asked_is_replaced_at_once() -> None:
    node = suspecting()
    assert opened(node.down(C))[0] == member(600).peer.url


def test_a_witness_that_cannot_be_reached_is_replaced_at_once() -> None:
    node = suspecting()
    node.down(C)  # asks 600 in its place, to whom a link must be made first
    asked = sent(node.refused(member(600)), Question)
    assert asked == [(uid(100), Question(B)), (uid(100), Question(C))]  # nobody else asks about C


def test_a_witness_whose_link_comes_back_is_asked_anew() -> None:
    """What it was asked, or would have answered, went down with the link."""
    b, c = member(200), member(300)
    node = Bench.on_ring([100, 200, 300], 100)
    assert sent(node.down(b), Question) == [(c.uid, Question(b))]
    node.down(c)
    assert sent(node.up(c), Question) == [(c.uid, Question(b))]
    assert told(node.refused(b), Confirmed) == [], "its word is waited for"
    effects = node.receive(c, Answer(b, alive=False))
    assert told(effects, Confirmed) == [Confirmed(b, (c.uid,))]


def test_a_witness_whose_link_is_replaced_is_asked_anew() -> None:
    """The other end has noticed first that the link was gone."""
    b, c = member(200), member(300)
    node = Bench.on_ring([100, 200, 300], 100)
    node.down(b)
    assert sent(node.up(c), Question) == [(c.uid, Question(b))]
    node.receive(c, Answer(b, alive=True))
    assert sent(node.up(c), Question) == [], "it has answered"


def test_witnesses_whose_links_flap_are_not_asked_for_ever() -> None:
    node = suspecting()
    node.refused(B)
    confirmed: list[Confirmed] = []
    for _ in range(150):
        for witness in (C, Z):
            confirmed += told(node.down(witness), Confirmed)
            confirmed += told(node.wait(0.1, alive=OTHERS), Confirmed)
            confirmed += told(node.up(witness), Confirmed)
    assert B in [verdict.subject for verdict in confirmed]


def flapping(ids: list[int]) -> Bench:
    """100 has lost all its links in the ring of ``ids``, so that there is nobody to ask."""
    node = Bench.on_ring(ids, 100)
    for other in ids[1:]:
        node.down(member(other))
    return node


@pytest.mark.parametrize("ids", [[100, 200], [100, 200, 300]])
def test_a_refusal_that_a_link_flaps_is_no_reason_to_hold_b_for_dead(ids: list[int]) -> None:
    """With nobody to ask: whoever says that lives, and is called again."""
    node, b = flapping(ids), member(200)
    effects = node.refused(b, Refused.DAMPED) + node.wait(0.5 * PATIENCE_S)
    assert (told(effects, Confirmed), opened(effects)) == ([], [b.peer.url])
    assert told(node.up(b), Refuted) == [Refuted(b)]


@pytest.mark.parametrize("ids", [[100, 200], [100, 200, 300]])
def test_one_that_only_said_that_its_link_flaps_may_die_all_the_same(ids: list[int]) -> None:
    node, b = flapping(ids), member(200)
    node.refused(b, Refused.DAMPED)
    assert Confirmed(b, ()) in told(node.wait(3 * PATIENCE_S), Confirmed)


def test_a_witness_that_is_turned_away_as_a_link_flaps_has_seen_that_b_lives() -> None:
    witness, asker = bench(100), member(200)
    witness.receive(asker, Question(B))
    effects = witness.refused(B, Refused.DAMPED)
    assert sent(effects, Answer) == [(asker.uid, Answer(B, alive=True))]


def test_with_nobody_to_ask_our_own_call_decides() -> None:
    node = Bench.on_ring([100, 200], 100)
    effects = node.down(member(200))
    calls = []
    while node.now < LAN.alone_ns:
        assert told(effects, Confirmed) == []
        if opened(effects):
            assert opened(effects) == [member(200).peer.url]
            calls.append(node.now)
            effects = node.refused(member(200))
        else:
            effects = node.wait(0.1)
    assert told(effects, Confirmed) == [Confirmed(member(200), ())]
    pauses = [later - call for call, later in pairwise(calls)]
    assert max(pauses) <= 1.5 * LAN.retry_ns + nanos(0.1), "not ever more rarely"


def test_with_nobody_to_ask_a_call_that_is_answered_shows_that_it_lives() -> None:
    node = Bench.on_ring([100, 200], 100)
    node.down(member(200))
    effects = node.up(member(200))
    assert told(effects, Refuted) == [Refuted(member(200))]
    assert node.node.suspects == ()


def test_with_nobody_to_ask_a_call_that_is_not_answered_is_waited_for_a_while() -> None:
    node = Bench.on_ring([100, 200], 100)
    assert told(node.down(member(200)), Confirmed) == []
    assert told(node.wait(0.99 * LAN.alone_ns / 1e9), Confirmed) == []
    effects = node.wait(0.02 * LAN.alone_ns / 1e9)
    assert told(effects, Confirmed) == [Confirmed(member(200), ())]


def test_with_nobody_to_ask_one_that_is_silent_is_waited_for_as_long() -> None:
    node = Bench.on_ring([100, 200], 100)
    assert told(node.wait((LAN.silence_ns + 0.9 * LAN.alone_ns) / 1e9), Confirmed) == []
    effects = node.wait((LAN.silence_max_ns - LAN.silence_ns + 0.2 * LAN.alone_ns) / 1e9)
    assert told(effects, Confirmed) == [Confirmed(member(200), ())]


def test_when_all_links_break_at_once_nobody_is_held_for_dead_who_takes_a_call() -> None:
    node = Bench.on_ring([100, 200, 300], 100)
    effects = node.down(member(200)) + node.down(member(300))
    effects += node.up(member(200)) + node.up(member(300))
    assert told(effects, Confirmed) == []
    assert told(effects, Refuted) == [Refuted(member(200)), Refuted(member(300))]


# B shows that it lives


def test_a_word_from_b_ends_the_suspicion() -> None:
    node = bench()
    node.wait(LAN.silence_ns / 1e9, alive=OTHERS)
    assert told(node.receive(B, Pong(0)), Refuted) == [Refuted(B)]
    assert node.node.suspects == ()
    effects = node.wait(4 * PATIENCE_S, alive=[*OTHERS, B])
    assert told(effects, Confirmed) == []


def test_a_new_link_from_b_ends_the_suspicion() -> None:
    node = suspecting()
    assert told(node.up(B), Refuted) == [Refuted(B)]
    node.receive(B, view_of(400, RING, version=2))
    assert node.node.right == (B, C)


def test_a_refusal_of_the_link_does_not_end_the_suspicion() -> None:
    node = suspecting()
    effects = node.refused(B, Refused.TIMEOUT)
    assert told(effects, Refuted) == []
    assert node.node.suspects == (B.uid,)


def test_once_dead_is_dead() -> None:
    node = suspecting()
    node.receive(C, Answer(B, alive=False))
    node.receive(Z, Answer(B, alive=False))
    again = node.receive(C, Answer(B, alive=False))
    assert told(again, Confirmed) == []
    assert told(again, NeighboursChanged) == []
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=True))]
    node.receive(B, view_of(400, RING, version=2))
    assert B not in node.node.right
