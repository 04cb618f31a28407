"""Odd frames that strangers throw; all seeds, and several clusters: ``make soak``."""

from __future__ import annotations

import pytest

from overlay.rng import rng_for
from sims.stories.frames import event_frames, thrown_at
from sims.workloads.odd_frames import LargestFrames
from tests.helpers.overlays import overlay
from tests.mutants import Mutant
from tests.mutants.frames import FRAMES


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 40))]
)
def test_no_frame_ends_a_broker_and_only_the_link_that_brings_it_pays(seed: int) -> None:
    assert event_frames(seed) == []


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 20))]
)
def test_what_brokers_say_of_the_largest_numbers_can_be_read(seed: int) -> None:
    """They ask for such events, answer, and tell of them: one that cannot read it cuts the link."""
    assert event_frames(seed, LargestFrames) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
def test_frames_from_unit_to_unit(seed: int) -> None:
    assert thrown_at(overlay(9, 4, seed), rng_for(seed, "frames"), seconds=4.0) == []


@pytest.mark.soak
@pytest.mark.parametrize("mutant", FRAMES, ids=lambda mutant: mutant.name)
def test_a_broker_that_does_not_look_is_noticed(mutant: Mutant) -> None:
    with mutant.applied():
        assert any(_noticed(seed) for seed in range(1, 6))


def _noticed(seed: int) -> bool:
    try:
        return bool(event_frames(seed))
    except Exception:  # noqa: BLE001 - a broker that fails is noticed, too
        return True
