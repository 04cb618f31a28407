"""What ``chordal graph`` says of links, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from ges.cli.main import run
from ges.operations.walk import Walk
from overlay.ids import LinkClass
from tests.ges.operations.test_overlay_graph import broker

NORMAL = LinkClass.NORMAL


def say(monkeypatch: pytest.MonkeyPatch, walk: Walk) -> None:
    async def walk_ring(*_: object, **__: object) -> Walk:
        return walk

    monkeypatch.setattr("ges.operations.walk.walk_ring", walk_ring)


def test_the_graph_of_one_broker_has_no_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, Walk((broker("a" * 32),), ()))
    assert run(["graph"]) == 0
    out = capsys.readouterr().out
    assert "normal: no links, as there is one broker alone\n" in out
    assert "each linked" not in out


def test_a_graph_of_which_a_part_was_met_claims_nothing_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = "a" * 32, "b" * 32
    for met in (
        [broker(a, (b, NORMAL, 1.0))],
        [broker(a, (b, NORMAL, 1)), broker(b, (a, NORMAL, 1))],
    ):
        say(monkeypatch, Walk(tuple(met), ("x",), "the walk ends: x"))
        assert run(["graph"]) == 1
        shown = capsys.readouterr()
        assert "connectivity not known" in shown.out
        assert "each linked to each" not in shown.out
        assert "the walk ends: x" in shown.err
        assert run(["graph", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert found["ends_early"] == "the walk ends: x"
        assert found["connectivity"]["normal"]["k"] is None
    say(monkeypatch, Walk(tuple(met), ()))
    assert run(["graph", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ends_early"] is None
    assert found["connectivity"]["normal"] == {"brokers": 2, "links": 1, "k": 1}
    assert run(["graph"]) == 0
    assert "normal: 1 link between 2 brokers, each linked to each" in capsys.readouterr().out
