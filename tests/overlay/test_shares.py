"""Who has to make room for whom."""

from __future__ import annotations

from overlay.shares import MEND, NOWHERE, Shares, Source, source_of

A, B, C = (source_of(f"10.0.0.{number}", None) for number in (1, 2, 3))
PROVEN = source_of("10.0.0.1", "c" * 32)


def filled(slots: Shares, *counts: tuple[Source, int]) -> Shares:
    for source, many in counts:
        for _ in range(many):
            slots.take(source)
    return slots


def test_who_shows_a_certificate_counts_for_itself_and_others_for_their_address() -> None:
    assert Source("address 10.0.0.1") == A
    assert Source("certificate cccccccc", is_proven=True) == PROVEN
    assert source_of("2001:db8::1", None) == source_of("2001:db8::2", None)
    assert source_of(None, None) is NOWHERE


def test_a_source_has_its_share_and_leaves_the_rest_to_others() -> None:
    slots = filled(Shares(10, of_one=3, reserved=0), (A, 3))
    assert slots.crowd(A) == A
    assert slots.crowd(B) is None
    assert slots.crowd(PROVEN) is None, "it is at that address, and counts for itself"
    slots.free(A)
    assert slots.crowd(A) is None


def test_where_all_is_taken_it_is_for_want_of_whoever_has_most() -> None:
    slots = filled(Shares(6, of_one=4, reserved=0), (A, 2), (B, 4))
    assert slots.crowd(C) == B
    assert slots.crowd(A) == B


def test_the_reserve_is_for_those_who_have_proven_who_they_are() -> None:
    slots = filled(Shares(16, of_one=0, reserved=2), (A, 14))
    assert slots.crowd(B) == A
    assert slots.crowd(PROVEN) is None
    filled(slots, (PROVEN, 2))
    assert slots.crowd(PROVEN) == A


def test_nobody_proven_makes_room_for_somebody_who_is_not() -> None:
    slots = filled(Shares(4, of_one=0, reserved=0), (PROVEN, 4))
    assert slots.crowd(A) == A


def test_one_source_never_has_more_than_three_quarters_unless_there_is_no_limit() -> None:
    assert filled(Shares(8, of_one=100, reserved=0), (A, 6)).crowd(A) == A
    assert filled(Shares(8, of_one=0, reserved=0), (A, 7)).crowd(A) is None
    assert Shares(1, of_one=100, reserved=100).crowd(A) is None


def test_those_who_come_over_no_network_have_no_share() -> None:
    slots = filled(Shares(8, of_one=2, reserved=0), (NOWHERE, 5))
    assert slots.crowd(NOWHERE) is None


def test_a_stranger_has_a_quarter_and_a_token_half_where_nothing_is_set() -> None:
    shares, token = Shares(1000), Source("token line-1", is_proven=True)
    shares.take(A, 218)
    assert shares.crowd(A) == A
    told = f"address 10.0.0.1 may have 218 values, and has 218; {MEND}"
    assert shares.why_not(A, 1, "values") == told
    assert shares.why_not(A, 1, "values", is_new=False) == told, "it may not take over others'"
    shares.take(token, 500)
    assert shares.why_not(token, 1, "values") is not None
    assert shares.why_not(B, 157, "values") is None
    told = f"718 of 1000 values are taken, and the rest is not for strangers; {MEND}"
    assert shares.why_not(B, 158, "values") == told
    assert shares.why_not(B, 158, "values", is_new=False) is None
    assert shares.why_not(PROVEN, 282, "values") is None
    told = "718 of 1000 values are taken"
    assert shares.why_not(PROVEN, 283, "values") == told


def test_who_comes_to_one_broker_after_another_never_has_all() -> None:
    """Each counts its own clients, and knows what the others have taken together."""
    taken = 0
    for _ in range(8):
        shares = Shares(16384)
        shares.resize(16384, beside=taken)
        while shares.why_not(A, 1, "values") is None:
            shares.take(A)
        taken += len(shares)
    shares.resize(16384, beside=taken)
    assert shares.why_not(B, 200, "values") is None
    assert shares.why_not(PROVEN, 1700, "values") is None


def test_what_is_freed_is_there_again() -> None:
    shares = Shares(100, of_one=50, reserved=0)
    shares.take(A, 50)
    shares.free(A, 20)
    assert (shares.of(A), len(shares)) == (30, 30)
    assert shares.crowd(A, 20) is None
    shares.free(A, 30)
    assert (shares.of(A), len(shares)) == (0, 0)
