"""Ways round failed links, message by message (paper 004, section 3.4.2).

A is broker 300, B its right neighbour 400, C the neighbour 500 on B's other side.
"""

from __future__ import annotations

import pytest

from overlay.machine import Closed, Effect, Message, OpenLink, Refused, Send
from ring.config import LAN
from ring.facts import (
    Confirmed,
    Detoured,
    DetourEnded,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Rejoining,
    Suspected,
)
from ring.repair.detours import MAX_WAYS
from ring.wire.messages import (
    MAX_PATH,
    MAX_RELAYED_BYTES,
    Backup,
    DetourBroken,
    DetourClosed,
    DetourOpen,
    DetourOpened,
    Failed,
    Heartbeat,
    HeldDead,
    Intent,
    Leaving,
    Member,
    Ping,
    Place,
    Pong,
    Purpose,
    Relay,
    View,
    ViewRequest,
)
from ring.wire.messages import Tested as Answer
from ring.wire.messages import TestNeighbour as Question
from ring.wire.relay import unwrap, wrap
from tests.helpers.bench import Bench, closed, member, opened, peer, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C = member(300), member(400), member(500)
OTHERS = [member(100), member(200), C]
TEST_S = LAN.test_ns / 1e9
SILENCE_S = LAN.silence_ns / 1e9
PATH = (A.uid, C.uid, B.uid)
BACK = PATH[::-1]


def relayed(effects: list[Effect]) -> list[tuple[tuple[str, ...], Message | None]]:
    """Return what starts on its way along a path, and the path."""
    found = []
    for to, relay in sent(effects, Relay):
        if relay.at == 1:
            assert to == relay.path[1]
            found.append((relay.path, unwrap(relay)))
    return found


def arriving(path: tuple[str, ...], message: Message, incarnation: int = 1) -> Relay:
    """Return a relay as the last broker on the path gets it."""
    sender = peer(int(path[0], 16), incarnation)
    relay = wrap(sender, path, message)
    assert relay is not None
    return Relay(relay.path, len(path) - 1, relay.sender, relay.body)


def looking(here: int = 300) -> Bench:
    """A after it has lost its link to B and heard from C that B lives."""
    node = Bench.on_ring(RING, here)
    node.down(B)
    node.receive(C, Answer(B, alive=True))
    return node


def detoured() -> Bench:
    node = looking()
    node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
    assert node.node.detours == {B.uid: PATH}
    return node


# A asks B through C


def test_b_is_asked_through_the_witness_to_talk_that_way() -> None:
    node = Bench.on_ring(RING, 300)
    node.down(B)
    node.now += 7_000_000
    effects = node.receive(C, Answer(B, alive=True))
    assert relayed(effects) == [(PATH, DetourOpen(300, 7_000_000))]


def test_once_b_agrees_all_that_is_said_to_it_goes_that_way() -> None:
    node = looking()
    effects = node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
    assert told(effects, Detoured) == [Detoured(B.uid, PATH)]
    kinds = [type(message) for path, message in relayed(effects) if path == PATH]
    assert {Intent, View} <= set(kinds)
    assert [to for to, _ in sent(effects, View)] == []
    later = node.wait(16 * LAN.heartbeat_ns / 1e9, alive=OTHERS)
    assert (PATH, Ping) in [(path, type(message)) for path, message in relayed(later)]
    assert B.uid not in {effect.uid for effect in later if isinstance(effect, Send)}


def test_a_monitor_is_heard_of_by_way_of_the_detour() -> None:
    """B's left neighbour A watches it: B's heartbeats go to A through C."""
    node = Bench.on_ring(RING, 400)
    node.wait(1.0, alive=[member(200), A, C, member(600)])
    node.receive(C, arriving(PATH, DetourOpen(300, 0)))
    node.wait(LAN.answer_max_ns / 1e9, alive=[member(200), C, member(600)])
    beats = node.wait(2 * LAN.heartbeat_ns / 1e9, alive=[member(200), A, C, member(600)])
    [(_, view)] = sent(node.receive(C, ViewRequest()), View)
    assert (BACK, Heartbeat(view.version)) in relayed(beats)
    assert sent(beats, Heartbeat) == []


def test_b_keeps_its_place_and_its_view() -> None:
    node = looking()
    effects = node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
    assert node.node.right == (B, C)
    assert node.node.suspects == ()
    for kind in (NeighboursChanged, Refuted, Confirmed, LinkFailed):
        assert told(effects, kind) == [], "the link was said to have failed before"


def test_what_comes_over_the_detour_is_taken_as_if_it_came_directly() -> None:
    node = detoured()
    answers = node.receive(C, arriving(BACK, Ping(7)))
    assert relayed(answers) == [(PATH, Pong(7))]
    changed = node.receive(C, arriving(BACK, view_of(400, [*RING, 450], version=2)))
    assert opened(changed) == [member(450).peer.url]


def test_a_silent_detour_is_suspected_and_its_end_confirmed_dead() -> None:
    node = detoured()
    effects = node.wait(LAN.silence_max_ns / 1e9, alive=OTHERS)
    assert told(effects, Suspected) == [Suspected(B, "silent")]
    asked = [to for to, _ in sent(effects, Question)]
    assert asked[0] == C.uid
    assert told(node.receive(C, Answer(B, alive=False)), Confirmed) == []
    effects = node.receive(member(200), Answer(B, alive=False))
    assert told(effects, Confirmed) == [Confirmed(B, (C.uid, uid(200)))]
    assert node.node.detours == {}
    assert B not in node.node.right


def test_what_was_sent_before_our_request_could_be_heard_is_not_refused() -> None:
    """The refusal would come behind the request, and end the detour that it has just begun.

    Two that had just ended a detour refused each other's next ones so, thousands of times a second.
    """
    node = looking()
    assert relayed(node.receive(C, arriving(BACK, Ping(1)))) == []
    node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
    assert node.node.detours == {B.uid: PATH}


def test_another_way_is_tried_if_no_answer_comes() -> None:
    """Broker 200 has B for its right-right neighbour, so it reaches both."""
    node = looking()
    other = (A.uid, uid(200), B.uid)
    effects = node.wait(2 * TEST_S, alive=OTHERS)
    assert [path for path, message in relayed(effects) if isinstance(message, DetourOpen)] == [
        other
    ]
    node.receive(member(200), arriving(other[::-1], DetourOpened(B.ring_id)))
    assert node.node.detours == {B.uid: other}


def test_another_way_is_tried_at_once_if_the_first_is_known_to_be_broken() -> None:
    node = looking()
    effects = node.receive(C, arriving((C.uid, A.uid), DetourBroken(B.uid)))
    assert [path for path, _ in relayed(effects)] == [(A.uid, uid(200), B.uid)]


def test_a_witness_that_reaches_b_only_through_the_one_that_asks_does_not_answer() -> None:
    node = detoured()
    assert sent(node.receive(C, Question(B)), Relay) == []
    assert sent(node.wait(2 * TEST_S, alive=[*OTHERS, B]), Answer) == []


def test_where_those_beside_it_cannot_reach_it_others_are_asked() -> None:
    """They may show B among their neighbours because they have a way round to it themselves."""
    node, far = Bench.on_ring(RING, 300), member(700)
    node.up(far)
    node.receive(far, Intent(Purpose.CHORD))
    node.receive(far, Place(far))
    node.down(B)
    asked = [path[1] for path, _ in relayed(node.receive(C, Answer(B, alive=True)))]
    for _ in range(MAX_WAYS - 1):
        broken = arriving((asked[-1], A.uid), DetourBroken(B.uid))
        effects = node.receive(member(int(asked[-1], 16)), broken)
        asked += [path[1] for path, _ in relayed(effects)]
    assert asked[:2] == [C.uid, uid(200)], "those that show it come first"
    assert set(asked[2:]) == {uid(100), far.uid}


def test_a_late_agreement_that_is_not_needed_is_taken_back() -> None:
    node = looking()
    node.wait(2 * MAX_WAYS * TEST_S, alive=OTHERS)
    effects = node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
    assert relayed(effects) == [(PATH, DetourClosed(Closed.LOST))]
    assert node.node.detours == {}


def test_the_link_is_tried_all_the_while_and_takes_over_when_it_is_back() -> None:
    node = detoured()
    node.refused(B, Refused.TIMEOUT)
    effects = node.wait(2.0, alive=[*OTHERS, B])
    assert B.peer.url in opened(effects)
    effects = node.up(B)
    assert told(effects, DetourEnded) == [DetourEnded(B.uid, restored=True)]
    assert [to for to, _ in sent(effects, Intent)] == [B.uid]
    assert told(effects, NeighboursChanged) == []
    assert node.node.verdicts[-1].restored_ns == node.now


def test_a_refused_link_does_not_end_the_detour() -> None:
    """Nor is it a word to give to others: B answers them the way round."""
    node, asker = detoured(), member(100)
    node.receive(asker, Question(B))
    effects = node.refused(B, Refused.UNREACHABLE)
    assert (told(effects, Suspected), told(effects, DetourEnded)) == ([], [])
    assert sent(effects, Answer) == []
    assert node.node.detours == {B.uid: PATH}
    effects = node.receive(C, arriving(BACK, Pong(0)))
    assert sent(effects, Answer) == [(asker.uid, Answer(B, alive=True))]


def test_who_declares_us_dead_over_a_detour_is_believed() -> None:
    node = detoured()
    effects = node.receive(C, arriving(BACK, DetourClosed(Closed.DECLARED_DEAD)))
    assert [fact.incarnation for fact in told(effects, Rejoining)] == [2]


def test_one_that_leaves_over_a_detour_is_no_failure() -> None:
    node = detoured()
    effects = node.receive(C, arriving(BACK, Leaving(B)))
    assert told(effects, Suspected) == []
    assert B not in node.node.right


def test_a_detour_ends_with_the_link_it_begins_with() -> None:
    node = detoured()
    effects = node.down(C)
    assert told(effects, DetourEnded) == [DetourEnded(B.uid, restored=False)]
    assert [fact.subject for fact in told(effects, Suspected)] == [C, B]
    assert node.node.right == (B, C)


def test_only_a_broker_on_the_path_can_say_that_it_is_broken() -> None:
    node = detoured()
    stranger = (uid(200), A.uid)
    node.receive(member(200), arriving(stranger, DetourBroken(B.uid)))
    assert node.node.detours == {B.uid: PATH}
    node.receive(C, arriving((C.uid, A.uid), DetourBroken(B.uid)))
    assert node.node.detours == {}
    assert node.node.suspects == (B.uid,)


# B is asked


def asked() -> Bench:
    """B, whose link to A is up, after it has heard by way of C that A has lost it."""
    node = Bench.on_ring(RING, 400)
    node.wait(1.0, alive=[member(200), A, C, member(600)])
    effects = node.receive(C, arriving(PATH, DetourOpen(300, 0)))
    assert sent(effects, Ping) == [(A.uid, Ping(0))]
    assert (closed(effects), relayed(effects), node.node.detours) == ([], [], {})
    return node


def test_b_keeps_its_link_if_a_answers_over_it_whatever_c_says() -> None:
    """Else any linked stranger could come to stand between two whose link is in order."""
    node = asked()
    effects = node.receive(A, Pong(0))
    effects += node.wait(5.0, alive=[member(200), A, C, member(600)])
    assert (closed(effects), relayed(effects), node.node.detours) == ([], [], {})
    assert told(effects, LinkFailed) == []


def test_a_later_life_that_c_speaks_of_does_not_end_a_link_that_is_in_order() -> None:
    node = Bench.on_ring(RING, 400)
    node.wait(1.0, alive=[member(200), A, C, member(600)])
    effects = node.receive(C, arriving(PATH, DetourOpen(None, 0), incarnation=2))
    assert sent(effects, Ping) == [(A.uid, Ping(0))]
    effects += node.receive(A, Pong(0)) + node.wait(1.0, alive=[member(200), A, C, member(600)])
    assert (closed(effects), node.node.detours) == ([], {})
    assert node.node.left == (A, member(200))


def test_b_agrees_as_soon_as_it_finds_its_link_lost_as_well() -> None:
    node = asked()
    effects = node.down(A)
    assert node.node.detours == {A.uid: BACK}
    assert DetourOpened in [type(message) for _, message in relayed(effects)]
    assert node.node.left == (A, member(200))


def test_b_agrees_concludes_the_same_and_gives_up_its_silent_link() -> None:
    node = asked()
    effects = node.wait(LAN.answer_ns / 1e9, alive=[member(200), C, member(600)])
    assert closed(effects) == [(A.uid, Closed.LOST)]
    assert told(effects, LinkFailed) == [LinkFailed(A, C.uid)]
    kinds = [type(message) for _, message in relayed(effects)]
    assert kinds[:4] == [DetourOpened, Intent, View, Ping]
    assert node.node.detours == {A.uid: BACK}
    assert node.node.left == (A, member(200))


def test_b_with_a_link_younger_than_the_loss_keeps_it() -> None:
    """The request has crossed with the link's return."""
    node = Bench.on_ring(RING, 400)
    node.now += 1_000_000_000
    node.up(A)
    node.now += 1_000_000
    effects = node.receive(C, arriving(PATH, DetourOpen(300, 2_000_000)))
    assert (effects, node.node.detours) == ([], {})


def test_b_tells_one_it_holds_for_dead() -> None:
    node = Bench.on_ring(RING, 400)
    node.receive(C, Failed(A, (C.uid,), None))
    effects = node.receive(C, arriving(PATH, DetourOpen(300, 0)))
    assert relayed(effects) == [(BACK, DetourClosed(Closed.DECLARED_DEAD))]


def test_b_admits_one_that_it_alone_holds_for_dead_and_tells_it_so() -> None:
    node = Bench.on_ring(RING, 400)
    effects = node.down(A)
    while not told(effects, Confirmed):
        effects = node.wait(0.1, [C, member(500), member(600)])
    words = [word for _, word in relayed(node.receive(C, arriving(PATH, DetourOpen(300, 0))))]
    assert HeldDead(1, witnessed=False) in words
    assert DetourClosed(Closed.DECLARED_DEAD) not in words


def test_words_of_one_without_a_detour_are_answered_with_the_end_of_it() -> None:
    node = Bench.on_ring(RING, 400)
    node.down(A)
    effects = node.receive(C, arriving(PATH, Heartbeat(1)))
    assert relayed(effects) == [(BACK, DetourClosed(Closed.LOST))]


def test_a_new_life_asking_ends_the_old_one() -> None:
    node = detoured()
    again = member(400, incarnation=2)
    node.receive(C, arriving(BACK, DetourOpen(None, 0), incarnation=2))
    assert node.node.admit(B.peer) is not None, "its old life is over"
    assert node.node.detours == {B.uid: PATH}
    node.receive(C, arriving(BACK, view_of(400, RING), incarnation=2))
    node.receive(
        C,
        arriving(BACK, View(1, again, *_pointers(400)), incarnation=2),
    )
    assert node.node.right[0] == again


def _pointers(ring_id: int) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    view = view_of(ring_id, RING)
    return view.left, view.right


# C in between


def between() -> Bench:
    return Bench.on_ring(RING, 500)


def midway(message: Message, path: tuple[str, ...] = PATH, at: int = 1) -> Relay:
    relay = wrap(peer(int(path[0], 16)), path, message)
    assert relay is not None
    return Relay(path, at, relay.sender, relay.body)


def test_c_passes_on_what_it_does_not_look_into() -> None:
    node = between()
    relay = Relay(PATH, 1, A.peer, b"\xffno message")
    assert node.receive(A, relay) == [Send(B.uid, Relay(PATH, 2, A.peer, b"\xffno message"))]


def test_c_says_if_it_is_not_linked_to_b_either() -> None:
    node = between()
    node.down(B)
    effects = node.receive(A, midway(Heartbeat(1)))
    assert relayed(effects) == [((C.uid, A.uid), DetourBroken(B.uid))]


def test_c_does_not_go_round_for_others() -> None:
    """One that it reaches by a detour itself is not linked to it: relays cannot go in circles."""
    node = detoured()
    path = (uid(200), A.uid, B.uid)
    effects = node.receive(member(200), midway(Heartbeat(1), path))
    assert relayed(effects) == [((A.uid, uid(200)), DetourBroken(B.uid))]


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ((A.uid, B.uid, C.uid), 1),  # not for us to pass on
        ((uid(200), C.uid, B.uid), 1),  # not from where it came from
        ((A.uid, C.uid, B.uid, C.uid), 1),  # in circles
        ((A.uid, C.uid, A.uid), 1),
        ((A.uid, C.uid), 2),  # beyond its end
        ((A.uid, C.uid, B.uid), 2),
    ],
)
def test_what_no_broker_would_relay_is_dropped(path: tuple[str, ...], at: int) -> None:
    assert between().receive(A, midway(Ping(1), path, at)) == []


def test_a_relay_in_the_name_of_another_is_dropped() -> None:
    relay = midway(Ping(1))
    forged = Relay(relay.path, 1, member(600).peer, relay.body)
    assert between().receive(A, forged) == []


def test_a_message_too_long_for_a_relay_is_not_sent() -> None:
    holders = tuple(peer(n) for n in range(128))
    long = tuple(type(p)(p.uid, p.incarnation, "chordal://" + "x" * 290, p.secure) for p in holders)
    backup = Backup(1, long + long)
    assert wrap(A.peer, PATH, backup) is None
    assert wrap(A.peer, PATH, Backup(1, holders)) is not None


def test_no_relay_holds_a_relay() -> None:
    inner = midway(Ping(1))
    outer = wrap(A.peer, PATH, inner)
    assert outer is not None
    assert unwrap(outer) is None
    assert MAX_RELAYED_BYTES + MAX_PATH * 34 + 500 < 64 * 1024


# Candidates that cannot be linked


def test_a_newcomer_that_cannot_be_linked_is_asked_through_its_other_neighbour() -> None:
    """Non-transitive: A never had a link to the new broker 350 that B shows in its view."""
    node = Bench.on_ring(RING, 300)
    new = member(350)
    assert opened(node.receive(B, view_of(400, [*RING, 350], version=2))) == [new.peer.url]
    effects = node.refused(new, Refused.TIMEOUT)
    path = (A.uid, B.uid, new.uid)
    assert [p for p, m in relayed(effects) if isinstance(m, DetourOpen)] == [path]
    effects = node.receive(B, arriving(path[::-1], DetourOpened(350)))
    assert told(effects, LinkFailed) == [LinkFailed(new, B.uid)]
    node.receive(B, arriving(path[::-1], view_of(350, [*RING, 350])))
    assert node.node.right == (new, B)


# Links that flap


def test_a_link_held_back_is_not_made_while_there_is_a_way_round_it() -> None:
    node = Bench.on_ring(RING, 300)
    for _ in range(3):
        node.down(B)
        node.receive(C, Answer(B, alive=True))
        node.receive(C, arriving(BACK, DetourOpened(B.ring_id)))
        if node.node.admit(B.peer) is None:
            node.up(B)
    assert node.node.admit(B.peer) is Refused.DAMPED
    assert node.node.admit(peer(400, 2)) is None, "another life of it has done nothing wrong"
    effects = node.wait(8 * SILENCE_S - 0.1, alive=[*OTHERS, B])
    assert B.peer.url not in opened(effects)
    effects = node.wait(0.2, alive=[*OTHERS, B])
    assert B.peer.url in opened(effects)
    assert node.node.admit(B.peer) is None


def test_a_new_neighbour_is_linked_at_once_however_its_link_has_flapped() -> None:
    node, far = Bench.on_ring(RING, 300), member(600)
    for _ in range(3):
        node.up(far)
        node.receive(far, view_of(600, RING))
        node.down(far)
    assert node.node.parts.links.damper.held_ns(far.uid, node.now) > 0
    assert far.peer.url in opened(node.receive(B, Leaving(B)))


def test_without_a_way_round_a_flapping_link_is_made_again_at_once() -> None:
    node = Bench.on_ring(RING, 300)
    for _ in range(3):
        node.up(B)
        node.receive(B, view_of(400, RING))
        node.down(B)
    assert node.node.parts.links.damper.held_ns(B.uid, node.now) > 0
    node.receive(C, Answer(B, alive=True))
    effects: list[Effect] = []
    for via in (C, member(200), member(100)):
        assert OpenLink(B.peer.url, B.uid, B.uid) not in effects
        effects = node.receive(via, arriving((via.uid, A.uid), DetourBroken(B.uid)))
    assert OpenLink(B.peer.url, B.uid, B.uid) in effects
