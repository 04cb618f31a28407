"""What brokers tell of an event reaches no terminal as it is, and fails where it should."""

from __future__ import annotations

import json

import pytest

from ges.cli.main import run
from ges.operations.explain import Destination, Explanation
from ges.wire.why import Why, WhyAsk, WhyClient, WhyFilter, WhyHop, WhyMember
from overlay.ids import LinkClass

NORMAL = LinkClass.NORMAL
EVIL = "\x1b[2J\x9b2J\n\u202e\rforged"
A, B, CLIENT = "a" * 32, "b" * 32, "c" * 32


def explained(refusal: str | None = None, problem: str | None = None) -> Explanation:
    """Return what two brokers say, with harm wherever a message takes any text."""
    asks = (WhyAsk(EVIL, (NORMAL,)),)
    path = (WhyHop(1, NORMAL), WhyHop(9, NORMAL))  # there is no slot 9
    member = WhyMember(1, B, f"chordal://{EVIL}", True, False, asks, True, path, problem)
    entry = Why(A, f"chordal://{EVIL}", "t", NORMAL, False, refusal, EVIL, 0, (member,))
    client = WhyClient(CLIENT, (WhyFilter(EVIL, None),), True, EVIL)
    answer = Why(B, member.url, "t", NORMAL, False, None, None, 1, (), (client,), 7)
    first = Destination(A, entry.url, None, entry)
    found = (first, Destination(B, member.url, member, answer))
    return Explanation(entry, found, (), {1: member}, {(A, B, NORMAL): EVIL})


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Explanation]:
    """What is found next."""
    found: list[Explanation] = []

    async def explain(*_: object, **__: object) -> Explanation:
        return found[-1]

    monkeypatch.setattr("ges.operations.explain.explain", explain)
    return found


@pytest.mark.parametrize("more", [[], ["--json"], ["--subscriber", CLIENT]])
def test_it_prints_nothing_that_does_not_show(
    said: list[Explanation], capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    said.append(explained(EVIL, EVIL))
    assert run(["why", "t", *more]) == 1
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert all(line.isprintable() for line in text.split("\n"))
        assert not any(line.startswith("\u202e") for line in text.split("\n"))
    assert "forged" in shown.out
    if more == ["--json"]:
        assert json.loads(shown.out)["brokers"][1]["hops"][0]["cipher"] == EVIL


def test_it_fails_where_the_event_would_not_get_there(
    said: list[Explanation], capsys: pytest.CaptureFixture[str]
) -> None:
    said.append(explained())
    assert run(["why", "t"]) == 0
    said.append(explained(refusal="no path"))
    assert run(["why", "t"]) == 1
    assert "it would be refused: no path" in capsys.readouterr().out
    said.append(explained(problem="no all-secure path leads there"))
    assert run(["why", "t"]) == 1
    assert "not reached: no all-secure path leads there" in capsys.readouterr().out
