"""The judge from outside: once, in order, nothing lost between those that live on together."""

from __future__ import annotations

import pytest

from overlay.ids import nanos
from sims.verdicts.survivors import Sent, Survivors

S = nanos(1)
AT = 20 * S  #: when events are published, a second apart
CLIENTS = ("sub", "member", "other", "ann")


def scene(*, groups_in_change: bool = False) -> Survivors:
    """Return a judge who knows of brokers a, b and c, and of clients at b and c."""
    judge = Survivors(groups_in_change=groups_in_change)
    for broker in "abc":
        judge.joined(broker, 0)
        judge.stands(broker, (0, 0, 0), 0)
    for client, broker in zip(CLIENTS, "bbcb", strict=True):
        judge.attached(client, broker, 0)
    judge.wants("sub", 0, topic="t")
    judge.wants("member", 0, topic="t", group="g")
    judge.wants("other", 0, topic="t", group="g")
    judge.wants("ann", 0, name="ann")
    return judge


def publish(
    judge: Survivors, number: int = 1, *, near: bool = False, names: tuple[str, ...] = ()
) -> int:
    at = AT + number * S
    ident = judge.published(Sent("p", number, at, "a", "t", near, names))
    judge.confirmed("p", number, "a", at)
    return ident


def deliver(judge: Survivors, *idents: int, to: tuple[str, ...] = ("sub", "member")) -> list[str]:
    for ident in idents:
        for client in to:
            judge.got(client, ident, "b", AT + 20 * S)
    return judge.findings()


def test_each_once_in_order_is_no_finding() -> None:
    judge = scene()
    assert deliver(judge, publish(judge, 1), publish(judge, 2)) == []


def test_what_comes_again_or_late_or_is_not_wanted_or_was_never_published_is_found() -> None:
    judge = scene()
    first, second = publish(judge, 1), publish(judge, 2)
    named = publish(judge, 3, names=("bob",))
    judge.odd("sub", b"1\xa0")
    findings = deliver(judge, second, first, first, named, to=("sub", "member"))
    assert [sum(what in each for each in findings) for what in ("again", "later", "is for")] == [
        2,
        2,
        2,
    ]
    assert "nobody published" in findings[0]


@pytest.mark.parametrize("came", [("member",), ("sub",), ("sub", "member", "other")])
def test_what_is_lost_or_comes_to_two_of_a_group_is_found(came: tuple[str, ...]) -> None:
    judge = scene()
    deliver(judge, publish(judge, 1))
    assert len(deliver(judge, publish(judge, 2), to=came)) == 1


@pytest.mark.parametrize("judged", [False, True])
def test_groups_are_judged_while_clusters_change_if_that_is_wanted(judged: bool) -> None:
    judge = scene(groups_in_change=judged)
    event = publish(judge, 1)
    judge.stands("c", (0, 0, 1), AT)
    assert len(deliver(judge, event, to=("sub", "member", "other"))) == judged


def test_a_named_client_is_owed_what_is_for_it_and_nobody_else_is() -> None:
    judge = scene()
    assert deliver(judge, publish(judge, 1, names=("ann",)), to=("ann",)) == []
    publish(judge, 2, names=("ann",))
    assert len(judge.findings()) == 1


@pytest.mark.parametrize("who", ["a", "b"])
def test_what_was_published_where_a_broker_died_is_not_owed_and_who_moves_is_owed_it(
    who: str,
) -> None:
    judge = scene()
    deliver(judge, publish(judge, 1))
    lost = publish(judge, 2)
    judge.ended(who, AT + 3 * S)
    for client in ("sub", "member", "ann"):
        if who == "b":
            judge.detached(client, AT + 4 * S)
            judge.attached(client, "c", AT + 5 * S)
    findings = judge.findings()
    assert [f"event {judge.events[lost].number} " in each for each in findings] == [True] * (
        1 if who == "b" else 0
    )


@pytest.mark.parametrize(("side", "owed"), [(("b",), 0), (("c",), 1)])
def test_parts_owe_nothing_to_each_other(side: tuple[str, ...], owed: int) -> None:
    judge = scene()
    deliver(judge, publish(judge, 1))
    publish(judge, 2)
    judge.separated({"a"} | {"b", "c"} - {*side}, side, AT + S).until = AT + 5 * S
    assert sum("at sub" in each for each in judge.findings()) == owed


def test_nothing_is_owed_while_parts_grow_together() -> None:
    judge = scene()
    deliver(judge, publish(judge, 1))
    publish(judge, 2)
    judge.doubted(AT + S, AT + 3 * S)
    assert judge.findings() == []


def test_an_event_that_was_to_stay_in_its_cluster_is_owed_there_and_found_elsewhere() -> None:
    judge = scene()
    deliver(judge, publish(judge, 1))
    publish(judge, 2, near=True)
    assert sum("near" in each for each in judge.findings()) == 1
    judge = scene()
    judge.stands("b", (0, 0, 1), 0)
    ident = publish(judge, 1, near=True)
    assert judge.findings() == ["no event came at all"]
    assert sum("another cluster" in each for each in deliver(judge, ident)) == 2
