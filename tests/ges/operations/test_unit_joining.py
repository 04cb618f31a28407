"""Which unit is to join which context, as an operator has said it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ges.errors import UnitNotJoined
from ges.operations.unit_joining import plan_join
from ges.operations.unit_tree import Unit
from ges.telling.arcs import WHOLE
from overlay.errors import ConfigError
from tests.ges.operations.test_unit_tree import overlay


def unit(path: str, name: str, *inside: Unit, limit: int = 64) -> Unit:
    """Return a unit; only its steward stands in it."""
    numbers = tuple(map(int, path.split(".")))
    steward = replace(overlay()[0], unit_limit=limit)
    made = Unit(numbers, 4 - len(numbers), WHOLE, steward, [steward], [*inside])
    made.given = tuple(name.split("/")) if name else ("",) * len(numbers)
    return made


def tree(limit: int = 64) -> list[Unit]:
    """Return two super-super-clusters; a super-cluster of one is called as another's address."""
    clusters = [unit(f"0.0.{n}", f"eu/fra/{name}") for n, name in enumerate("ab")]
    fra = unit("0.0", "eu/fra", *clusters)
    par = unit("0.1", "eu/par", unit("0.1.0", "eu/par/x"), limit=limit)
    us = unit("1", "1.0", unit("1.0", "", unit("1.0.0", ""), limit=limit), limit=limit)
    return [unit("0", "eu", fra, par), us]


def test_units_are_given_by_name_or_address() -> None:
    for given in (("eu/fra/a", "eu/par"), ("0.0.0", "0.1"), ("eu/fra/a", "0.1")):
        plan = plan_join(tree(), *given)
        assert (plan.unit.name, plan.context.name) == ("0.0.0", "0.1")


def test_an_address_counts_where_a_unit_is_called_like_one() -> None:
    assert plan_join(tree(), "0.0.1", "1.0").context.name == "1.0"


@pytest.mark.parametrize(
    ("given", "into", "says"),
    [
        ("eu/rom", "1", "there is no unit 'eu/rom'; 'chordal units' shows all, and of those above"),
        ("eu/fra", "7", "there is no unit '7'"),
        ("eu fra", "1", "'eu fra' names no unit; write its address or name, as 0.1 or eu/fra"),
        ("eu", "1", "eu is a super-super-cluster, and there is nothing above it that it could"),
        ("eu/fra", "eu", "eu/fra is in eu already; give another --into"),
        (
            "eu/fra/a",
            "1",
            "eu/fra/a is a cluster and 1.0 a super-super-cluster; give --into",
        ),
        ("eu/fra", "eu/par", "give --into a super-super-cluster"),
        ("1.0.0", "1.0", "cluster 1.0.0 is in super-cluster 1.0 already"),
    ],
)
def test_what_does_not_fit_is_named_with_the_mend(given: str, into: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_join(tree(), given, into)
    assert says in str(refused.value)


def test_a_context_that_is_full_is_refused_at_once() -> None:
    with pytest.raises(UnitNotJoined) as refused:
        plan_join(tree(limit=1), "eu/fra/b", "eu/par")
    assert str(refused.value) == (
        "eu/par is full: it has 1 cluster, the most that it may have; give --into another one"
    )
