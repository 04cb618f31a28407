"""A broken protocol is noticed; the one we have passes. All mutants: ``make mutants``."""

from __future__ import annotations

import pytest

from benchmarks.ring.mutants import catch
from benchmarks.ring.mutations import MUTANTS, Mutant, OutOfDate
from ring.node import RingNode

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_the_protocol_as_it_is_passes() -> None:
    assert catch(rounds=1) is None


@pytest.mark.parametrize("name", ["second-forgotten", "ids-not-reserved", "suspicion-is-death"])
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


def test_there_are_enough_of_them() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= 20
    assert sum(mutant.zave for mutant in MUTANTS) >= 7


def test_a_mutant_whose_target_is_gone_says_so() -> None:
    gone = Mutant("gone", "", False, ((RingNode, "no_such_method", None),))
    with pytest.raises(OutOfDate, match=r"gone: RingNode.no_such_method is gone"), gone.applied():
        pass


def test_a_mutant_that_does_not_fit_any_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own code fails, as what it uses has another name now."""
    monkeypatch.setattr("benchmarks.ring.mutations.clockwise", None)
    mutant = BY_NAME["chords-do-not-double"]
    with mutant.applied(), pytest.raises(OutOfDate, match=r"chords-do-not-double: TypeError"):
        catch(rounds=1, mutant=mutant)
