"""The broker's machine: who takes which message, and that its links are kept together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.topology.revocation_lists import Spread
from ges.wire.broker_messages import RevocationNotice
from ges.wire.link_codec import LINK_MESSAGES
from overlay.ids import LinkClass
from overlay.machine import CloseLink, MessageReceived, Notify, OpenLink, Send
from overlay.queues.resend import STREAM_MESSAGES
from overlay.wire.greetings import Goodbye
from ring.wire.messages import Leaving, Member
from ring.wire.registry import RING_MESSAGES
from tests.helpers.node_bench import EXPRESS, NORMAL, SECURE, Bench, peer


def test_every_message_between_brokers_is_for_one_part_or_the_ring() -> None:
    """But for those of the streams and the good-bye, which the driver takes."""
    parts = [kind for part in Bench().node.parts for kind in part.messages]
    everybody = [*parts, *RING_MESSAGES, *STREAM_MESSAGES, Goodbye]
    assert sorted(everybody, key=repr) == sorted(LINK_MESSAGES, key=repr)


def test_every_command_is_for_one_part() -> None:
    commands = [kind for part in Bench().node.parts for kind in part.commands]
    assert len(set(commands)) == len(commands)


@pytest.mark.parametrize("link_class", [SECURE, EXPRESS])
def test_messages_of_the_ring_count_on_normal_links_alone(link_class: LinkClass) -> None:
    bench = Bench()
    bench.neighbour("c")
    bench.up("c", link_class)
    leaving = Leaving(Member(peer("c"), 9))
    assert bench.give(MessageReceived("c" * 32, leaving, link_class)) == []
    assert [member.uid for member in bench.node.ring.right] == ["c" * 32]
    bench.give(MessageReceived("c" * 32, leaving))
    assert bench.node.ring.right == ()


def test_the_ring_comes_first_then_the_greeting_then_links_of_other_classes() -> None:
    bench = Bench()
    bench.up("a")
    bench.give(Spread(RevocationNotice(b"a list", b"")))
    effects = [e for e in bench.up("c") if not isinstance(e, Notify)]
    kinds: list[type] = [type(e.message) if isinstance(e, Send) else type(e) for e in effects]
    first = kinds.index(RevocationNotice)
    assert first > 0
    assert {*kinds[:first]} <= {*RING_MESSAGES}
    assert kinds[first:] == [RevocationNotice, OpenLink]


@given(
    st.lists(
        st.tuples(st.sampled_from("acde"), st.sampled_from(LinkClass), st.booleans()), max_size=30
    )
)
def test_whatever_comes_and_goes_express_and_secure_links_stay_subsets(
    changes: list[tuple[str, LinkClass, bool]],
) -> None:
    """The driver closes what it is told to close, and takes no other link without a normal one."""
    bench = Bench()
    links: set[tuple[str, LinkClass]] = set()
    for name, link_class, is_up in changes:
        key = (name, link_class)
        if is_up and (link_class is NORMAL or (name, NORMAL) in links):
            links.add(key)
            effects = bench.up(name, link_class)
        elif key in links and not is_up:
            links.remove(key)
            effects = bench.down(name, link_class)
        else:
            continue
        for effect in effects:
            if isinstance(effect, CloseLink):
                links.discard((effect.uid[0], effect.link_class))
        normal = {n for n, c in links if c is NORMAL}
        assert {n for n, _ in links} <= normal
        assert set(bench.node.secure_links) == {n * 32 for n, c in links if c is SECURE}
