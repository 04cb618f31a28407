"""Links that events go over, and through which nothing comes any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.machine import Closed
from ring.config import LAN, RingConfig
from ring.facts import Suspected
from ring.wire.messages import ChordAnswer, Intent, Ping, Pong, Purpose
from tests.helpers.bench import Bench, closed, member, opened, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700, 800, 900]
OTHERS = [member(i) for i in (100, 200, 400, 500)]
CHORD = member(700)
SILENCE_S = LAN.silence_ns / 1e9
ANSWER_S = LAN.test_ns / 1e9


def bench(config: RingConfig = LAN) -> Bench:
    """300 with the chords 500 and 700."""
    node = Bench.on_ring(RING, 300, config)
    node.receive(member(500), ChordAnswer(0, CHORD))
    node.up(CHORD)
    node.receive(CHORD, view_of(700, RING))
    return node


def running_late() -> Bench:
    """The same, with timers that have been late a few times, so that it doubts itself."""
    node = bench()
    for _ in range(4):
        node.wait(0.2, alive=OTHERS)
        node.now = max(node.now, node.node.next_deadline() or 0)
        node.oversleep(0.6 * LAN.answer_ns / 1e9)
        for other in OTHERS:
            node.node.heard(other.uid, node.now)
    return node


def use(node: Bench) -> None:
    node.node.told(CHORD.uid, node.now)


def test_a_silent_chord_that_carries_events_is_asked_and_given_up() -> None:
    node = bench()
    use(node)
    assert sent(node.wait(0.99 * SILENCE_S, alive=OTHERS), Ping) == []
    effects = node.wait(0.02 * SILENCE_S, alive=OTHERS)
    assert sent(effects, Ping) == [(CHORD.uid, Ping(0))]
    effects = node.wait(1.02 * ANSWER_S, alive=OTHERS)
    assert closed(effects) == [(CHORD.uid, Closed.LOST)]
    assert opened(effects) == [CHORD.peer.url], "it is made anew"
    assert told(effects, Suspected) == []
    assert CHORD.uid not in node.node.linked


def test_one_that_answers_is_kept_and_asked_again_when_it_is_silent_again() -> None:
    node = bench()
    pings = 0
    for _ in range(100):  # ten seconds
        use(node)
        asked = sent(node.wait(0.1, alive=OTHERS), Ping)
        pings += len(asked)
        if asked:
            assert closed(node.receive(CHORD, Pong(0))) == []
    assert CHORD.uid in node.node.linked
    assert 6 <= pings <= 9


def test_one_that_is_heard_anyway_is_not_asked() -> None:
    node = bench()
    for _ in range(50):
        use(node)
        assert sent(node.wait(0.1, alive=[*OTHERS, CHORD]), Ping) == []
    assert CHORD.uid in node.node.linked


def test_one_that_carries_nothing_is_left_alone() -> None:
    node = bench()
    assert sent(node.wait(5 * SILENCE_S, alive=OTHERS), Ping) == []
    assert CHORD.uid in node.node.linked


def test_one_that_was_silent_for_long_is_asked_at_once() -> None:
    node = bench()
    node.wait(5 * SILENCE_S, alive=OTHERS)
    use(node)
    assert sent(node.wait(0.01, alive=OTHERS), Ping) == [(CHORD.uid, Ping(0))]


def test_a_ring_link_is_watched_by_the_detector_alone() -> None:
    """Who runs late waits for more than a silence, and no event over the link makes it hasten."""
    others, used, unused = [member(i) for i in (100, 200, 500)], running_late(), running_late()
    used.node.told(uid(400), used.now)
    used.node.told(uid(999), used.now)  # nor is there a link to this one
    effects = used.wait(2 * SILENCE_S, alive=others)
    assert uid(400) in [to for to, _ in sent(effects, Ping)]
    assert effects == unused.wait(2 * SILENCE_S, alive=others)


def test_a_pause_of_our_own_is_no_silence() -> None:
    node = bench()
    use(node)
    node.wait(0.5 * SILENCE_S, alive=OTHERS)
    effects = node.oversleep(10.0)
    assert sent(effects, Ping) == []
    assert closed(effects) == []


@pytest.mark.parametrize("wanted_for", [Purpose.CHORD, Purpose.RING])
def test_a_link_that_only_the_other_end_wants_is_closed_if_it_stays_silent(
    wanted_for: Purpose,
) -> None:
    """The detector watches whom we hold for ring neighbours, not who holds us for one."""
    ids = [100, 200, 300, 400, 500, 600, 700, 800]
    node, other = Bench.on_ring(ids, 300), member(800)
    node.up(other)
    node.receive(other, Intent(wanted_for))
    effects = node.wait(40.0, alive=[member(i) for i in (100, 200, 400, 500)])
    assert (other.uid, Closed.LOST) in closed(effects)


def test_a_second_neighbour_is_probed_and_suspected() -> None:
    """It sends its heartbeats to another; so would the link be silent for many periods."""
    node, others = bench(), [member(i) for i in (100, 200, 400)]
    node.node.told(uid(500), node.now)
    effects = node.wait(0.99 * SILENCE_S, alive=others)
    assert [to for to, _ in sent(effects, Ping)] == []
    effects = node.wait(0.02 * SILENCE_S + ANSWER_S, alive=others)
    probes = [to for to, ping in sent(effects, Ping) if ping.token]
    assert probes == [uid(500)] * LAN.probes
    assert [suspected.subject.uid for suspected in told(effects, Suspected)] == [uid(500)]
    assert closed(effects) == [], "others are asked whether it is the link alone"


def test_one_that_is_heard_is_not_probed() -> None:
    node = bench()
    for _ in range(50):
        node.node.told(uid(500), node.now)
        assert sent(node.wait(0.1, alive=OTHERS), Ping) == []


def test_so_is_a_link_that_only_the_other_end_has_for_one_of_the_ring() -> None:
    ids = [100, 200, 300, 400, 500, 600, 700, 800]
    node, other = Bench.on_ring(ids, 300), member(800)
    node.up(other)
    node.receive(other, Intent(Purpose.RING))
    node.node.told(other.uid, node.now)
    effects = node.wait(1.01 * (SILENCE_S + ANSWER_S), alive=OTHERS)
    assert [to for to, _ in sent(effects, Ping) if to == other.uid] == [other.uid]
    assert closed(effects) == [(other.uid, Closed.LOST)]


def test_a_second_neighbour_is_not_probed_for_every_event_while_it_is_silent() -> None:
    node, others = bench(), [member(i) for i in (100, 200, 400)]
    pings = 0
    for _ in range(4000):  # four seconds
        node.node.told(uid(500), node.now)
        effects = node.wait(0.001, alive=others)
        pings += sum(to == uid(500) and ping.token > 0 for to, ping in sent(effects, Ping))
    assert LAN.probes <= pings <= 3 * LAN.probes


def test_one_that_has_answered_is_not_asked_again_for_nothing() -> None:
    """Though an answer may take longer than a silence."""
    node = bench(replace(LAN, answer_max_ns=2 * LAN.answer_max_ns))
    use(node)
    pings = 0
    for _ in range(50):  # five seconds
        asked = [to for to, _ in sent(node.wait(0.1, alive=OTHERS), Ping)].count(CHORD.uid)
        pings += asked
        if asked:
            node.receive(CHORD, Pong(0))
    assert pings == 1
    assert CHORD.uid in node.node.linked, "nor given up"
