"""States are numbers, and what a step once did it does again: nothing is left out of either."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from sims.errors import SimulationError
from sims.explore.explorer import Explorer
from sims.explore.granularity import Granularity
from sims.explore.local_states import LocalStates
from sims.explore.packed_states import PRIME, WIDTH, Act, Note, Packed, PackedStates, T
from sims.explore.scopes import COMPLETE
from sims.explore.state import State
from sims.explore.world import UntimedWorld

SCOPES = [
    ("crash-of-tester", 4, Granularity.TURNS),
    ("crash-unseen", 4, Granularity.READS),
    ("join-crash", 4, Granularity.TURNS),
    ("leave-join", 4, Granularity.TURNS),
    ("mutual-suspicion", 4, Granularity.READS),
    ("two-joins", 4, Granularity.READS),
    ("cut", 3, Granularity.PACKETS),
    ("join", 3, Granularity.PACKETS),
]


def _scope(name: str, brokers: int, grain: Granularity, *, early: int | None = None) -> Explorer:
    return Explorer(
        name, brokers=brokers, delays=COMPLETE, early=early, lists=True, grain=grain, reduce=False
    )


@pytest.mark.parametrize("limit", [150, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("name", "brokers", "grain"), SCOPES)
def test_steps_do_what_they_are_remembered_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, brokers: int, grain: Granularity, limit: int
) -> None:
    take = PackedStates.take
    taken = 0

    def twice(
        cells: PackedStates, packed: Packed, step: Hashable, act: Act, note: Note[T]
    ) -> tuple[Packed, T]:
        nonlocal taken
        remembered = take(cells, packed, step, act, note)
        before, state = cells.unpack(packed), cells.unpack(packed)
        act(state)
        assert cells.pack(state) == remembered[0]
        assert note(before, state) == remembered[1]
        taken += 1
        return remembered

    monkeypatch.setattr(PackedStates, "take", twice)
    assert _scope(name, brokers, grain).search(limit).findings == ()
    assert taken > 20


def test_no_two_small_changes_leave_the_fingerprint() -> None:
    assert all(
        2**12 < (some << WIDTH * cells) % PRIME < PRIME - 2**12
        for cells in range(1, 12 * 13)
        for some in range(1, 2**12)
    )


def test_a_step_that_changes_what_it_did_not_look_at_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wither(world: UntimedWorld, state: State, at: int, event: object) -> None:
        state.fate[at] = "killed"

    monkeypatch.setattr(UntimedWorld, "enter", wither)
    with pytest.raises(SimulationError, match="a step has changed what it did not look at"):
        _scope("join", 3, Granularity.TURNS).search()


@pytest.mark.parametrize(
    ("name", "brokers", "grain"),
    [
        ("crash-of-tester", 3, Granularity.PACKETS),
        pytest.param("crash-of-tester", 4, Granularity.TURNS, marks=pytest.mark.soak),
        pytest.param("join-crash", 4, Granularity.TURNS, marks=pytest.mark.soak),
    ],
)
def test_what_the_dead_knew_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, name: str, brokers: int, grain: Granularity
) -> None:
    forgotten = _scope(name, brokers, grain, early=0)
    states = forgotten.search().states
    monkeypatch.setattr(LocalStates, "forgotten", lambda self, at, number: number)
    kept = _scope(name, brokers, grain, early=0)
    assert states < kept.search().states
    assert forgotten.ends == kept.ends != set()
