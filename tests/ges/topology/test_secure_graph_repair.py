"""Lists of secure links that are false, or found no room: contradicted, and asked for again."""

from __future__ import annotations

import msgspec
import pytest

from ges.topology.secure_graph_repair import ANSWER_NS, ASK_NS, STANDS_NS
from ges.wire.broker_messages import SecureState, SecureStatesWanted
from ges.wire.link_codec import LINK_CODEC
from overlay.circular import HIGHEST
from overlay.ids import LinkClass, nanos
from overlay.machine import Message, MessageReceived, Send
from overlay.wire.frames import HEADER
from ring.wire.messages import Intent, Purpose
from tests.helpers.node_bench import Bench, state, told

SECONDS = nanos(1.0)
WANTED, TOLD = SecureStatesWanted(told=False), SecureStatesWanted(told=True)


def later(bench: Bench, seconds: float, alive: str) -> list[Send]:
    """Let time pass, in which ``alive`` are heard; return what was sent."""
    sent = []
    end = bench.now + nanos(seconds)
    while (due := bench.node.next_deadline()) is not None and due <= end:
        bench.now = max(bench.now, due)
        for name in alive:
            bench.node.ring.heard(name * 32, bench.now)
        effects = bench.node.handle_timers(bench.now)
        sent += [effect for effect in effects if isinstance(effect, Send)]
    bench.now = end
    return sent


def sent_to(name: str, sent: list[Send], kind: type[Message]) -> list[Message]:
    return [s.message for s in sent if s.uid == name * 32 and isinstance(s.message, kind)]


def ask(bench: Bench, name: str, message: Message) -> list[Send]:
    effects = bench.give(MessageReceived(name * 32, message))
    return [effect for effect in effects if isinstance(effect, Send)]


@pytest.fixture
def bench() -> Bench:
    """A broker with ring id 0 and a right neighbour, c with ring id 100."""
    bench = Bench()
    bench.neighbour("c", 100)
    assert [member.ring_id for member in bench.node.ring.right] == [100]
    return bench


def test_who_stands_where_nobody_can_is_contradicted(bench: Bench) -> None:
    """And the secure events are taken again that were refused for its sake."""
    bench.hear("c", state("f", ring_id=50))
    assert [s.origin[0] for s in bench.node.secure_graph.out_of_reach()] == ["f"]
    sent = later(bench, STANDS_NS / SECONDS + 1, "c")
    (answer,) = sent_to("c", sent, SecureState)
    assert isinstance(answer, SecureState)
    assert (answer.origin, answer.withdrawn) == ("f" * 32, True)
    assert not bench.node.secure_graph.out_of_reach()


def test_in_ones_own_place_too(bench: Bench) -> None:
    place = bench.node.ring.member
    assert place is not None
    bench.hear("c", state("f", ring_id=place.ring_id))
    later(bench, STANDS_NS / SECONDS + 1, "c")
    assert not bench.node.secure_graph.out_of_reach()


@pytest.mark.parametrize("ring_id", [100, 101, 2**31])
def test_elsewhere_others_know_better(bench: Bench, ring_id: int) -> None:
    bench.hear("c", state("f", ring_id=ring_id))
    sent = later(bench, STANDS_NS / SECONDS + 1, "c")
    assert sent_to("c", sent, SecureState) == []
    assert bench.node.secure_graph.out_of_reach()


def test_a_newcomer_has_time_to_become_a_neighbour(bench: Bench) -> None:
    bench.hear("c", state("d", "b", ring_id=50))
    later(bench, STANDS_NS / SECONDS / 2, "c")
    bench.neighbour("d", 50)
    sent = later(bench, STANDS_NS / SECONDS, "cd")
    assert not [s for s in sent_to("c", sent, SecureState) if getattr(s, "withdrawn", False)]


def test_one_that_is_linked_is_there_whatever_the_ring_makes_of_it(bench: Bench) -> None:
    bench.up("d")
    bench.give(MessageReceived("d" * 32, Intent(Purpose.RING)))
    bench.hear("d", state("d", ring_id=50))
    sent = later(bench, STANDS_NS / SECONDS + 1, "cd")
    assert not [s for s in sent_to("c", sent, SecureState) if getattr(s, "withdrawn", False)]


def test_one_that_is_contradicted_and_says_so_stands_again_for_a_while(bench: Bench) -> None:
    bench.hear("c", state("f", ring_id=50))
    later(bench, STANDS_NS / SECONDS + 1, "c")
    bench.hear("c", state("f", ring_id=50, version=9))
    assert bench.node.secure_graph.out_of_reach()
    later(bench, STANDS_NS / SECONDS - 1, "c")
    assert bench.node.secure_graph.out_of_reach()
    later(bench, 2, "c")
    assert not bench.node.secure_graph.out_of_reach()


def test_alone_and_without_links_nobody_else_is_there() -> None:
    bench = Bench()
    bench.up("c")
    bench.hear("c", state("f", ring_id=50))
    bench.down("c", LinkClass.NORMAL)
    later(bench, STANDS_NS / SECONDS + 1, "")
    assert not bench.node.secure_graph.out_of_reach()


def test_false_lists_that_filled_the_graph_leave_no_harm(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room comes back as they are contradicted; then all neighbours are asked what was missed."""
    monkeypatch.setattr("ges.topology.secure_graph.MAX_ORIGINS", 8)
    bench.neighbour("d", 2**31)
    for name in "123456789":
        bench.hear("d", state(name, ring_id=10 + int(name)))
    graph = bench.node.secure_graph
    assert graph.is_overfull
    bench.hear("c", state("e", "c", ring_id=7000))  # is left out, too
    sent = later(bench, ASK_NS / SECONDS + 1, "cd")
    assert sent_to("c", sent, SecureStatesWanted) == [WANTED]
    assert sent_to("d", sent, SecureStatesWanted) == [WANTED]
    bench.hear("c", state("e", "c", ring_id=7000))
    ask(bench, "c", TOLD)
    assert graph.is_overfull, "d may know more"
    ask(bench, "d", TOLD)
    assert not graph.is_overfull
    assert [s.origin[0] for s in graph.out_of_reach()] == ["e"]


def test_who_goes_need_not_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ges.topology.secure_graph.MAX_ORIGINS", 8)
    bench.neighbour("d", 2**31)
    for name in "123456789":
        bench.hear("d", state(name, ring_id=10 + int(name)))
    later(bench, (STANDS_NS + ASK_NS) / SECONDS + 1, "cd")
    ask(bench, "c", TOLD)
    bench.down("d", LinkClass.NORMAL)
    assert not bench.node.secure_graph.is_overfull


def test_without_room_nobody_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ges.topology.secure_graph.MAX_ORIGINS", 8)
    for name in "123456789":
        bench.hear("c", state(name, ring_id=1000 + int(name)))
    sent = later(bench, 3 * ASK_NS / SECONDS, "c")
    assert sent_to("c", sent, SecureStatesWanted) == []
    assert bench.node.secure_graph.is_overfull


def test_an_answer_with_what_there_is_no_room_for_was_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ges.topology.secure_graph.MAX_ORIGINS", 8)
    for name in "123456789":
        bench.hear("c", state(name, ring_id=10 + int(name)))
    later(bench, (STANDS_NS + ASK_NS) / SECONDS + 1, "c")
    for name in "123456789":
        bench.hear("c", state(name, ring_id=1000, version=7))
    ask(bench, "c", TOLD)
    assert bench.node.secure_graph.is_overfull


def test_who_asks_is_told_all_and_that_it_was_all(bench: Bench) -> None:
    bench.hear("c", state("e", ring_id=7000))
    sent = ask(bench, "c", WANTED)
    assert {s.message.origin[0] for s in sent if isinstance(s.message, SecureState)} == {"b", "e"}
    assert sent[-1].message == TOLD


def test_who_asks_all_the_time_is_not_answered_each_time(bench: Bench) -> None:
    assert ask(bench, "c", WANTED)
    assert not ask(bench, "c", WANTED)
    later(bench, ANSWER_NS / SECONDS, "c")
    assert ask(bench, "c", WANTED)


def test_who_is_told_of_hears_of_it(bench: Bench) -> None:
    """From those it is linked to, as there is nobody else; so it can put it right."""
    bench.neighbour("d", 2**31)
    lie = state("c", ring_id=100, version=9)
    assert told(bench.hear("d", lie)) == [("c", lie)]


@pytest.mark.parametrize("what", ["incarnation", "version"])
def test_no_number_told_of_us_is_so_high_that_we_cannot_answer(bench: Bench, what: str) -> None:
    """Lies go up to the highest number there is, and a bit further each time than the answer."""
    witness = Bench("c")
    witness.up("b")

    def own() -> SecureState:
        found = bench.node.secure_graph.state_of("b" * 32)
        assert found is not None
        return found

    witness.hear("b", own())
    for _ in range(5):
        number = min(getattr(own(), what) + HIGHEST // 2, HIGHEST)
        lie = msgspec.structs.replace(own(), withdrawn=True, linked=(), **{what: number})
        witness.hear("b", lie)
        assert bench.hear("c", lie)
        packed = LINK_CODEC.encode(own())
        assert LINK_CODEC.decode(packed[HEADER.size :]) == own(), "others can read it"
        witness.hear("b", own())
        assert witness.node.secure_graph.state_of("b" * 32) == own(), "and believe it"
        assert not own().withdrawn
