"""From a topic to the slots that want it, compared with the rules applied one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ges.matching.asks import ask_for
from ges.profiles.index import ProfileIndex
from ges.wire.asked import Ask
from ges.wire.matter import Matter
from overlay.ids import LinkClass
from tests.ges.matching.test_asks import asks
from tests.ges.profiles.cluster import TOPICS, asks_for

A, B, C = "abc"
NORMAL = LinkClass.NORMAL


def index_of(**slots: int) -> ProfileIndex:
    index = ProfileIndex()
    index.set_slots(slots)
    return index


@given(
    st.lists(
        st.tuples(
            st.sampled_from([A, B, C]),
            st.lists(asks, max_size=4),
            st.lists(asks, max_size=4),
            st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 63), max_size=3),
            st.sets(st.sampled_from([A, B, C])),
        ),
        max_size=12,
    )
)
def test_as_the_rules_say(
    steps: list[tuple[str, list[Ask], list[Ask], dict[str, int], set[str]]],
) -> None:
    """Two members may have one slot for a moment: its bit then means both."""
    index = index_of()
    held: dict[str, set[Ask]] = {A: set(), B: set(), C: set()}
    for uid, added, removed, slots, behind in steps:
        index.change(uid, added, removed)
        held[uid] = (held[uid] | set(added)) - set(removed)
        index.set_slots(slots)
        for each in held:
            index.set_behind(each, each in behind)
        for topic in TOPICS:
            for link_class in LinkClass:
                expected = 0
                groups: dict[tuple[str, str], int] = {}
                for member, slot in slots.items():
                    wanted = [e for e in held[member] if asks_for(e, link_class, topic)]
                    if any(one.group is None for one in wanted) or member in behind:
                        expected |= 1 << slot
                    for one in wanted:
                        if one.group is not None:
                            key = one.filter, one.group
                            groups[key] = groups.get(key, 0) | 1 << slot
                assert index.mask_of(Matter(link_class, topic.encode())) == expected
                found = index.groups.of(Matter(link_class, topic.encode()))
                masks = {(g.filter, g.name): index.groups.mask(link_class, g.key) for g in found}
                assert masks == groups


def test_who_is_behind_wants_everything_and_only_while_it_is() -> None:
    index = index_of(a=0, b=63)
    index.set_behind(B, True)
    assert index.mask_of(Matter(NORMAL, b"$x")) == 1 << 63
    index.set_behind(B, False)
    assert index.mask_of(Matter(NORMAL, b"$x")) == 0


def test_a_group_is_in_no_mask_but_in_that_of_its_own() -> None:
    index = index_of(a=5, b=7)
    plain, group = ask_for("a"), ask_for("a", group="g")
    index.change(A, [plain, group], ())
    index.change(B, [group, ask_for("a", LinkClass.NORMAL, "g")], ())
    assert index.mask_of(Matter(NORMAL, b"a")) == 1 << 5
    (found,) = index.groups.of(Matter(NORMAL, b"a"))
    assert (found.filter, found.name) == ("a", "g")
    assert index.groups.mask(NORMAL, found.key) == 1 << 5 | 1 << 7
    index.change(A, (), [group])
    assert index.mask_of(Matter(NORMAL, b"a")) == 1 << 5, "the plain one is left"
    assert index.groups.mask(NORMAL, found.key) == 1 << 7
    index.change(B, (), [group])
    assert index.groups.of(Matter(NORMAL, b"a")) == (found,), (
        "another ask for normal events is left"
    )
    assert index.groups.of(Matter(LinkClass.SECURE, b"a")) == ()
    index.set_slots({})
    assert index.groups.of(Matter(NORMAL, b"a")) == ()
    assert index.groups.mask(NORMAL, found.key) == 0


def test_groups_of_a_topic_are_those_on_each_filter_that_matches() -> None:
    index = index_of(a=5)
    groups = [ask_for(text, group=name) for text in ("a/+", "a/#", "b") for name in "gh"]
    index.change(A, groups, ())
    found = index.groups.of(Matter(NORMAL, b"a/x"))
    assert {(each.filter, each.name) for each in found} == {
        (text, name) for text in ("a/+", "a/#") for name in "gh"
    }
    assert index.groups.of(Matter(NORMAL, b"\xff")) == ()


def test_a_slot_that_changes_hands() -> None:
    index = index_of(a=5)
    index.change(A, [ask_for("a")], ())
    index.set_slots({A: 6, B: 5})
    assert index.mask_of(Matter(NORMAL, b"a")) == 1 << 6
    index.set_slots({B: 5})
    assert index.mask_of(Matter(NORMAL, b"a")) == 0
