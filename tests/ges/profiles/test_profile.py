"""One broker's profile: minimal, told in versions, never less than what is asked for.

Rules of the kind "in doubt include" held here: a budget is kept by asking for more, never for less;
what a group asks for is not merged, as a wider group would be chosen where it serves nobody; a
subscription that is covered has the version of the earliest cover, never one before it was covered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.errors import ProfileFull
from ges.matching.asks import ask_for, covers, digest_of, everything, order
from ges.profiles import profile as profiles
from ges.profiles.held import MemberProfiles
from ges.profiles.merging import merge
from ges.profiles.profile import Profile
from ges.wire.asked import Ask
from ges.wire.profile_messages import ProfileDelta
from ges.wire.telling_messages import RowVersion
from overlay.ids import LinkClass
from tests.ges.matching.test_asks import asks
from tests.helpers.examples import examples

UID = "a" * 32
LIFE = 7


class Nobody:
    """Hears what is held, and does nothing with it."""

    def change(self, uid: str, added: Iterable[Ask], removed: Iterable[Ask]) -> None: ...
    def replace(self, uid: str, asks: Iterable[Ask]) -> None: ...
    def set_behind(self, uid: str, is_behind: bool) -> None: ...


def made_of(*texts: str, limit: int = 16_384) -> Profile:
    profile = Profile(UID, LIFE, limit=limit)
    for text in texts:
        profile.add(ask_for(text))
    profile.cut()
    return profile


def texts(found: Iterable[Ask]) -> set[str]:
    return {each.filter for each in found}


def minimal(known: Iterable[Ask]) -> set[Ask]:
    """Return those that no other one covers."""
    unique = set(known)
    return {
        each
        for each in unique
        if not any(other != each and covers(other, each) for other in unique)
    }


def test_many_equal_subscriptions_are_told_once() -> None:
    profile = made_of("a/b")
    for _ in range(1000):
        profile.add(ask_for("a/b"))
    assert not profile.has_changed
    for _ in range(1000):
        profile.remove(ask_for("a/b"))
    assert not profile.has_changed
    profile.remove(ask_for("a/b"))
    (delta,) = profile.cut()
    assert texts(delta.removed) == {"a/b"}


def test_a_cover_that_goes_brings_back_what_it_covered_in_the_same_delta() -> None:
    profile = made_of("a/#", "a/b", "a/c", "a/c/d", "b")
    assert texts(profile.asks) == {"a/#", "b"}
    profile.remove(ask_for("a/#"))
    (delta,) = profile.cut()
    assert (texts(delta.removed), texts(delta.added)) == ({"a/#"}, {"a/b", "a/c", "a/c/d"})
    assert (delta.before.count, delta.after.count) == (1, 2)


def test_what_comes_and_goes_between_two_cuts_is_not_told() -> None:
    profile = made_of("a")
    profile.add(ask_for("b"))
    profile.remove(ask_for("b"))
    profile.remove(ask_for("a"))
    profile.add(ask_for("a"))
    assert profile.cut() == []
    assert profile.version == RowVersion(LIFE, 1)
    assert profile.since(ask_for("a")) == 1, "it has been there all the time"


def test_what_nobody_asked_for_is_not_taken_out() -> None:
    profile = made_of("a")
    profile.remove(ask_for("b"))
    assert not profile.has_changed
    assert texts(profile.asks) == {"a"}


def test_since_when_all_versions_cover_it() -> None:
    profile = made_of("a/#")
    profile.add(ask_for("a/b"))
    assert profile.since(ask_for("a/b")) == 1, "its cover has been told"
    profile.add(ask_for("b/#"))
    profile.add(ask_for("b/c"))
    assert profile.since(ask_for("b/c")) is None, "its cover has not"
    profile.cut()
    assert profile.since(ask_for("b/c")) == 2
    profile.add(ask_for("#"))
    profile.cut()
    profile.add(ask_for("b/d"))
    assert profile.since(ask_for("b/d")) == 2, "of two covers the earlier one"


@settings(max_examples=examples(200))
@given(
    steps=st.lists(st.tuples(asks | st.none(), st.integers(0, 5)), max_size=60),
    limit=st.sampled_from([2, 5, 16_384]),
)
def test_whoever_takes_all_deltas_holds_the_profile(
    steps: list[tuple[Ask | None, int]], limit: int
) -> None:
    """Each version covers what is asked for since an earlier one, steps in between included."""
    profile, live = Profile(UID, LIFE, limit=limit), Counter[Ask]()
    held = MemberProfiles(Nobody(), 1)
    held.set_members({UID: LIFE})
    assert held.take_delta(profile.statement(1))
    for ask, pick in steps:
        if ask is None:
            promised = [each for each in live if profile.since(each) is not None]
            for delta in profile.cut():
                assert held.take_delta(delta)
                for each in promised:
                    assert any(covers(wide, each) for wide in held.asks_of(UID))
            assert held.asks_of(UID) == profile.asks == profile.told
            assert profile.digest == digest_of(profile.asks)
            assert all(profile.since(each) is not None for each in live)
        elif pick and live:
            gone = sorted(live, key=order)[pick % len(live)]
            profile.remove(gone)
            live -= Counter([gone])
        else:
            profile.add(ask)
            live[ask] += 1
        assert minimal(profile.asks) == profile.asks
        if not profile.is_merged:
            assert profile.asks == minimal(live)
        for each in live:
            assert any(covers(wide, each) for wide in profile.asks)
        if not any(each.group for each in live):
            assert len(profile) <= limit
    for each in live.elements():
        profile.remove(each)
    assert not profile.asks, "nothing merged is left over"


def test_too_large_a_change_goes_in_steps_that_fit_into_frames() -> None:
    """In between, both what goes and what comes is there."""
    long = [f"a/{number}/" + "x" * 900 for number in range(100)]
    profile = made_of("a/#", *long)
    profile.remove(ask_for("a/#"))
    deltas = profile.cut()
    assert len(deltas) > 2
    assert [delta.before for delta in deltas[1:]] == [delta.after for delta in deltas[:-1]]
    assert all(len(msgspec.msgpack.encode(delta)) < 60 * 1024 for delta in deltas)
    assert all(not delta.removed for delta in deltas[:-1])
    assert texts(deltas[-1].removed) == {"a/#"}
    assert profile.since(ask_for(long[0])) == 1, "it was covered all the time"


def test_all_of_it_goes_in_pages_that_fit_into_frames() -> None:
    profile = made_of(*(f"a/{number}/" + "x" * 900 for number in range(100)))
    assert profile.statement(3).added == (), "it does not fit"
    pages = profile.pages(3)
    assert len(pages) > 1
    assert all(len(msgspec.msgpack.encode(page)) < 60 * 1024 for page in pages)
    assert {each for page in pages for each in page.asks} == profile.asks
    assert {(page.pages, page.digest, page.life) for page in pages} == {
        (len(pages), profile.digest, 3)
    }
    assert [page.asks for page in made_of().pages(3)] == [()], "nothing is one page as well"


def test_what_is_not_cut_yet_is_in_no_page() -> None:
    profile = made_of("a", "b")
    profile.add(ask_for("c"))
    profile.remove(ask_for("a"))
    assert texts(profile.pages(3)[0].asks) == texts(profile.statement(3).added) == {"a", "b"}


def test_another_life_tells_everything_anew() -> None:
    profile = made_of("a", "b")
    profile.add(ask_for("c"))
    profile.renew(LIFE + 1)
    assert profile.statement(3).added == ()
    (delta,) = profile.cut()
    assert delta.before == RowVersion(LIFE + 1, 0)
    assert texts(delta.added) == {"a", "b", "c"}
    assert profile.since(ask_for("a")) == 1
    assert profile.digest == digest_of(profile.asks)


# ── budgets ───────────────────────────────────────────────────────────────────────────────────


def test_16384_asks_are_exact_and_one_more_is_merged() -> None:
    profile = Profile(UID, LIFE)
    for number in range(profiles.MAX_ASKS):
        profile.add(ask_for(f"s/{number % 100}/{number}"))
    assert (len(profile), profile.is_merged) == (16_384, False)
    profile.add(ask_for("t/7/x"))
    assert profile.counters["profiles_merged"] == 1
    assert len(profile) <= 16_384 * 3 // 4
    assert "t/7/x" in texts(profile.asks), "what has nothing in common is left alone"
    assert not any(each.filter in ("s/#", "#") for each in profile.asks), "no wider than need"
    told = profile.asks
    for number in range(profiles.MAX_ASKS):
        asked = ask_for(f"s/{number % 100}/{number}")
        assert asked in told or ask_for(f"s/{number % 100}/#") in told


def test_merged_by_the_deepest_prefix_first() -> None:
    known = [ask_for(text) for text in ("s/1/t", "s/1/u", "s/2/t", "s/2/u", "s/2/v", "q/r/s")]
    assert texts(merge(known, 4, 10**6)) == {"s/2/#"}, "the largest group first"
    assert texts(merge(known, 3, 10**6)) == {"s/2/#", "s/1/#"}
    assert texts(merge(known, 2, 10**6)) == {"s/#"}
    assert texts(merge(known, 1, 10**6)) == {""}


def test_what_takes_too_many_bytes_is_merged_as_well() -> None:
    profile = Profile(UID, LIFE, limit_bytes=5000)
    for number in range(20):
        profile.add(ask_for(f"s/{number}/" + "x" * 300))
    assert texts(profile.asks) == {"s/#"}


def test_topics_of_the_system_are_not_missed_when_nothing_else_helps() -> None:
    """No wildcard in first place matches them, so only everything does."""
    profile = made_of(*(f"$s{number}" for number in range(5)), limit=4)
    assert profile.asks == {everything()}


def test_classes_are_not_mixed_until_nothing_else_helps() -> None:
    profile = Profile(UID, LIFE, limit=3)
    for number in range(3):
        profile.add(ask_for(f"a/{number}", LinkClass.NORMAL))
    profile.add(ask_for("a/9", LinkClass.EXPRESS))
    assert profile.asks == {
        ask_for("a/#", LinkClass.NORMAL),
        ask_for("a/9", LinkClass.EXPRESS),
    }


def test_exact_again_when_half_has_gone() -> None:
    profile = made_of(*(f"a/{number}" for number in range(9)), limit=8)
    assert texts(profile.asks) == {"a/#"}
    for number in range(8):
        profile.remove(ask_for(f"a/{number}"))
    assert texts(profile.asks) == {"a/8"}
    (delta,) = profile.cut()
    assert (texts(delta.added), texts(delta.removed)) == ({"a/8"}, {"a/#"})


def test_a_client_may_ask_for_what_is_merged() -> None:
    profile = made_of(*(f"a/{number}" for number in range(9)), limit=8)
    profile.add(ask_for("a/#"))
    for number in range(9):
        profile.remove(ask_for(f"a/{number}"))
    assert texts(profile.asks) == {"a/#"}, "it outlives what was merged"
    profile.remove(ask_for("a/#"))
    assert not profile.asks


def test_groups_are_bounded_and_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_GROUPED", 3)
    profile = Profile(UID, LIFE, limit=4)
    for number in range(3):
        profile.add(ask_for(f"a/{number}", group="g"))
    with pytest.raises(ProfileFull, match="3 queue groups"):
        profile.add(ask_for("a/3", group="g"))
    profile.add(ask_for("a/2", group="g"))  # nothing new
    for number in range(3):
        profile.add(ask_for(f"b/{number}"))
    grouped = {each for each in profile.asks if each.group}
    assert texts(grouped) == {"a/0", "a/1", "a/2"}
    profile.remove(ask_for("a/2", group="g"))
    profile.remove(ask_for("a/2", group="g"))
    profile.add(ask_for("a/3", group="g"))


def test_groups_that_take_all_the_room_leave_everything_to_others() -> None:
    grouped = [ask_for(f"a/{number}", group="g") for number in range(9)]
    assert merge(grouped, 4, 10**6) == set(), "there is nothing to merge"
    assert merge([*grouped, ask_for("b", LinkClass.NORMAL)], 4, 10**6) == {everything(1)}
    profile = Profile(UID, LIFE, limit=4)
    for each in [*grouped, ask_for("b"), ask_for("c")]:
        profile.add(each)
    assert profile.asks == {*grouped, everything()}
    assert profile.counters["profiles_merged"] == 1


def test_the_delta_names_what_it_builds_upon() -> None:
    profile = made_of("a")
    profile.add(ask_for("b"))
    assert profile.cut() == [
        ProfileDelta(
            UID,
            RowVersion(LIFE, 1),
            RowVersion(LIFE, 2),
            (ask_for("b"),),
            (),
            digest_of([ask_for("a"), ask_for("b")]),
        )
    ]
