"""A broken protocol is noticed; the one we have passes. All mutants: ``make mutants``."""

from __future__ import annotations

import pytest

from overlay.machine import Closed
from ring.node import RingNode
from sims.stories.stories import STORIES, Story
from tests.mutants import MUTANTS, Mutant, OutOfDate, hunt
from tests.mutants.hunt import catch, judge

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def _once(story: Story) -> object:
    """Stories of whole brokers are played by ``tests/sims/whole`` as well."""
    names = story.__name__, story.__module__.rpartition(".")[2]
    is_of_brokers = any(name.startswith(("event", "frames", "survivors", "unit")) for name in names)
    return pytest.param(story, id=story.__name__, marks=[pytest.mark.soak] * is_of_brokers)


@pytest.mark.parametrize("story", [_once(story) for story in STORIES])
def test_the_protocol_as_it_is_passes(story: Story) -> None:
    assert story(1) == []


@pytest.mark.parametrize(
    "name", ["second-forgotten", "ids-not-reserved", "suspicion-is-death", "no-tombstones"]
)
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = BY_NAME[name]
    with mutant.applied():
        assert catch(rounds=1, mutant=mutant) is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_has_something_to_break(mutant: Mutant) -> None:
    before = [vars(owner)[attribute] for owner, attribute, _ in mutant.patches]
    with mutant.applied():
        during = [vars(owner)[attribute] for owner, attribute, _ in mutant.patches]
    after = [vars(owner)[attribute] for owner, attribute, _ in mutant.patches]
    assert after == before
    assert all(a is not b for a, b in zip(before, during, strict=True))


def test_a_mutant_whose_target_is_gone_says_so() -> None:
    gone = Mutant("gone", "", False, ((RingNode, "no_such_method", None),))
    with pytest.raises(OutOfDate, match=r"gone: RingNode.no_such_method is gone"), gone.applied():
        pass


def test_a_mutant_that_does_not_fit_any_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own code fails, as what it uses has another name now."""
    monkeypatch.setattr("tests.mutants.chords.clockwise", None)
    mutant = BY_NAME["chords-do-not-double"]
    with mutant.applied(), pytest.raises(OutOfDate, match=r"chords-do-not-double: TypeError"):
        catch(rounds=1, mutant=mutant)


def test_a_story_that_does_not_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(seed: int) -> list[str]:
        while True:
            pass

    monkeypatch.setattr(hunt, "LIMIT_S", 0.05)
    monkeypatch.setattr(hunt, "STORIES", (endless,))
    found = catch(rounds=1)
    assert found is not None
    assert found[:2] == ("endless", 1)
    assert "has not ended" in found[2]


@pytest.mark.parametrize(("noticed", "met"), [(20, True), (19, True), (18, False)])
def test_less_than_95_percent_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], noticed: int, met: bool
) -> None:
    made = [Mutant(f"m{at}", "", False, ((Closed, "__doc__", str(at)),)) for at in range(20)]
    seen = [str(at) for at in range(noticed)]
    monkeypatch.setattr(hunt, "STORIES", (lambda seed: ["seen"] if Closed.__doc__ in seen else [],))
    monkeypatch.setattr(hunt, "SCOPES", lambda seed: [])
    assert judge(made, 1, with_control=True) is met
    last = capsys.readouterr().out
    assert f"measured {noticed} of 20" in last
    assert ("NOT MET" in last) is not met
