"""What is held of one other member, message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from ges.matching.asks import ask_for, digest_of
from ges.profiles import held as held_profiles
from ges.profiles.held import MemberProfiles
from ges.profiles.profile import Profile
from ges.wire.asked import Ask
from ges.wire.profile_messages import ProfileDelta
from ges.wire.telling_messages import RowVersion

A, LIFE, OURS = "a" * 32, 7, 3


class Told:
    """What a listener has been told."""

    def __init__(self) -> None:
        self.asks: set[Ask] = set()
        self.is_behind = False

    def change(self, uid: str, added: Iterable[Ask], removed: Iterable[Ask]) -> None:
        self.asks = (self.asks | set(added)) - set(removed)

    def replace(self, uid: str, asks: Iterable[Ask]) -> None:
        self.asks = set(asks)

    def set_behind(self, uid: str, is_behind: bool) -> None:
        self.is_behind = is_behind


class Pair:
    """A member that tells its profile, and a broker that holds it."""

    def __init__(self) -> None:
        self.profile = Profile(A, LIFE)
        self.told = Told()
        self.held = MemberProfiles(self.told, OURS)
        self.held.set_members({A: LIFE})

    def change(self, *added: str, removed: str = "") -> list[ProfileDelta]:
        for text in added:
            self.profile.add(ask_for(text))
        if removed:
            self.profile.remove(ask_for(removed))
        return self.profile.cut()

    def is_whole(self) -> bool:
        version = self.held.version_of(A)
        return (
            version == self.profile.version
            and self.told.asks == self.held.asks_of(A) == self.profile.asks
            and not self.told.is_behind
            and not self.held.is_behind(A)
        )


@pytest.fixture
def pair() -> Pair:
    """After the first statement."""
    pair = Pair()
    pair.change("a", "b/#")
    assert pair.held.take_delta(pair.profile.statement(OURS))
    assert pair.is_whole()
    return pair


def test_a_member_that_has_told_nothing_is_behind() -> None:
    pair = Pair()
    assert pair.told.is_behind
    assert pair.held.version_of(A) is None


def test_a_member_that_does_not_know_our_life_is_behind() -> None:
    """It tells all, and does not wait for us: what it tells later may be active before it comes."""
    pair = Pair()
    (delta,) = pair.change("a")
    assert pair.held.take_delta(delta)
    assert pair.held.asks_of(A) == pair.profile.asks
    assert pair.told.is_behind
    pair.held.take_delta(pair.profile.reminder(OURS - 1))
    assert pair.told.is_behind, "it means an earlier life"
    pair.held.take_delta(pair.profile.reminder(OURS))
    assert pair.is_whole()


def test_an_empty_profile_is_told_as_well() -> None:
    pair = Pair()
    assert pair.held.take_delta(pair.profile.statement(OURS))
    assert pair.is_whole()


def test_changes_in_order(pair: Pair) -> None:
    for delta in (*pair.change("c"), *pair.change("d", removed="a"), *pair.change(removed="b/#")):
        assert pair.held.take_delta(delta)
    assert pair.is_whole()


def test_a_change_that_comes_early_waits_and_is_not_taken_yet(pair: Pair) -> None:
    (first,), (second,), (third,) = pair.change("c"), pair.change("d"), pair.change("e")
    assert not pair.held.take_delta(third)
    assert pair.told.is_behind, "a version is told that is not held"
    assert not pair.held.take_delta(second)
    assert pair.held.take_delta(first)
    assert pair.is_whole()


def test_what_comes_twice_or_late_is_taken_already(pair: Pair) -> None:
    (first,), (second,) = pair.change("c"), pair.change(removed="c")
    for delta in (first, first, second, first, second):
        assert pair.held.take_delta(delta)
    assert pair.is_whole()


def test_pages_close_a_gap_and_what_came_meanwhile_is_added(pair: Pair) -> None:
    pair.change("c")
    (second,) = pair.change("d")
    (page,) = pair.profile.pages(OURS)
    (third,) = pair.change("e")
    assert not pair.held.take_delta(second)
    assert not pair.held.take_delta(third)
    assert pair.held.take_page(page)
    assert pair.is_whole()


def test_pages_in_any_order_and_of_one_version(pair: Pair) -> None:
    pair.change(*(f"long/{number}/{'x' * 900}" for number in range(100)))
    old = pair.profile.pages(OURS)
    pair.change("e")
    new = pair.profile.pages(OURS)
    for page in (*old[1:], *reversed(new[1:])):
        assert not pair.held.take_page(page)
    assert pair.held.take_page(new[0])
    assert pair.is_whole()


def test_pages_that_are_not_what_they_say_are_not_taken(pair: Pair) -> None:
    pair.change("c")
    (page,) = pair.profile.pages(OURS)
    for forged in (
        msgspec.structs.replace(page, asks=page.asks[1:]),
        msgspec.structs.replace(page, digest=page.digest ^ 1),
        msgspec.structs.replace(page, page=1, pages=1),
        msgspec.structs.replace(page, origin="f" * 32),
    ):
        assert not pair.held.take_page(forged)
        assert pair.held.version_of(A) == RowVersion(LIFE, 1)
    assert pair.held.take_page(page)
    assert pair.is_whole()


@pytest.mark.parametrize(
    "forge",
    [
        lambda delta: msgspec.structs.replace(delta, added=()),
        lambda delta: msgspec.structs.replace(delta, removed=()),
        lambda delta: msgspec.structs.replace(delta, digest=delta.digest ^ 1),
        lambda delta: msgspec.structs.replace(delta, added=(*delta.added, ask_for("x"))),
    ],
)
def test_a_change_with_another_digest_makes_the_member_doubtful(
    pair: Pair, forge: Callable[[ProfileDelta], ProfileDelta]
) -> None:
    (delta,) = pair.change("c", removed="a")
    assert not pair.held.take_delta(forge(delta))
    assert pair.told.is_behind
    assert pair.held.version_of(A) is None
    (page,) = pair.profile.pages(OURS)
    assert pair.held.take_page(page)
    assert pair.is_whole()


def test_what_was_there_is_not_added_again(pair: Pair) -> None:
    """The sums of hashes would agree if another one had been added twice as well."""
    version = pair.profile.version
    after = RowVersion(LIFE, version.count + 1)
    twice = (ask_for("a"),)
    digest = digest_of([*pair.profile.asks, *twice])
    assert not pair.held.take_delta(ProfileDelta(A, version, after, twice, (), digest))
    assert pair.told.is_behind


def test_two_contents_of_one_version_are_a_doubt(pair: Pair) -> None:
    told = pair.profile.reminder(OURS)
    assert pair.held.take_delta(told)
    assert not pair.held.take_delta(msgspec.structs.replace(told, digest=told.digest ^ 1))
    assert pair.told.is_behind


def test_a_page_from_before_takes_nothing_back(pair: Pair) -> None:
    """What is acknowledged stays the least that is to be held, in doubt by including all."""
    (old,) = pair.profile.pages(OURS)
    (delta,) = pair.change("c")
    assert pair.held.take_delta(delta)
    pair.held.take_delta(msgspec.structs.replace(pair.profile.reminder(OURS), digest=1))
    assert pair.held.take_page(old)
    assert pair.told.is_behind
    (page,) = pair.profile.pages(OURS)
    assert pair.held.take_page(page)
    assert pair.is_whole()


def test_another_life_of_the_member_begins_with_nothing(pair: Pair) -> None:
    (late,) = pair.change("c")
    pair.held.set_members({A: LIFE + 1})
    assert not pair.told.asks
    assert pair.told.is_behind
    assert not pair.held.take_delta(late), "told in the life before"
    pair.profile.renew(LIFE + 1)
    pair.change()
    assert pair.held.take_delta(pair.profile.statement(OURS))
    assert pair.is_whole()


def test_a_life_that_is_not_known_yet_is_not_taken(pair: Pair) -> None:
    pair.profile.renew(LIFE + 1)
    pair.change()
    assert not pair.held.take_delta(pair.profile.statement(OURS))
    assert pair.held.version_of(A) == RowVersion(LIFE, 1)


def test_a_stranger_is_not_held() -> None:
    pair = Pair()
    stranger = Profile("b" * 32, 1)
    assert not pair.held.take_delta(stranger.statement(OURS))
    assert not pair.held.take_page(stranger.pages(OURS)[0])
    assert [*pair.held.members] == [A]


def test_who_is_gone_takes_its_profile_along(pair: Pair) -> None:
    pair.held.set_members({})
    assert not pair.told.asks
    assert pair.held.rows() == []


def test_nothing_counts_for_a_broker_that_was_away(pair: Pair) -> None:
    pair.held.forget(OURS + 1)
    assert pair.told.is_behind
    assert not pair.told.asks
    pair.held.take_delta(pair.profile.statement(OURS))
    assert pair.told.is_behind, "said to its life before"
    pair.held.take_delta(pair.profile.statement(OURS + 1))
    assert pair.is_whole()


def test_bounds(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_profiles, "MAX_HELD", 4)
    monkeypatch.setattr(held_profiles, "MAX_EARLY", 3)
    early = [delta for number in range(9) for delta in pair.change(f"c/{number}")][1:]
    for delta in early:
        pair.held.take_delta(delta)
    assert len(pair.held._held[A].early) == 3
    assert not pair.held.take_page(pair.profile.pages(OURS)[0]), "eleven asks"
    assert pair.told.is_behind, "who tells too much counts as interested in everything"
