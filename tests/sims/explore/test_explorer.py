"""The explorer goes through all orders, finds what is broken, and shows it again."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from overlay.ids import Peer
from overlay.machine import Closed, LinkDown, LinkUp
from overlay.rng import rng_for
from ring.config import LAN
from ring.coordination.deaths import Deaths
from ring.facts import Found
from ring.node import RingNode
from sims.cli import sim
from sims.errors import InvariantViolated, SimulationError
from sims.explore.explorer import Explorer
from sims.explore.granularity import Granularity
from sims.explore.scopes import COMPLETE, SCOPES
from sims.explore.snapshots import Kept, Snapshot, shape
from sims.explore.unit_scopes import UNIT_SCOPES


@pytest.mark.parametrize(
    ("name", "brokers", "delays"),
    [
        ("crash", 3, COMPLETE),
        ("join", 3, COMPLETE),
        pytest.param("join", 4, COMPLETE, marks=pytest.mark.soak),
        pytest.param("crash", 4, COMPLETE, marks=pytest.mark.soak),
        pytest.param("crash-of-tester", 3, COMPLETE, marks=pytest.mark.soak),
        pytest.param("mutual-suspicion", 3, COMPLETE, marks=pytest.mark.soak),
        ("two-joins", 4, 0),
        ("join-crash", 4, 0),
        pytest.param("join-crash", 5, 0, marks=pytest.mark.soak),
        pytest.param("crash-of-tester", 4, 0, marks=pytest.mark.soak),
        ("crash-unseen", 5, 2),
        ("mutual-suspicion", 4, 1),
        ("leave-join", 4, 0),
    ],
)
def test_nothing_breaks_in_any_order(name: str, brokers: int, delays: int) -> None:
    report = Explorer(name, brokers=brokers, delays=delays).search()
    assert report.findings == ()
    assert report.complete
    assert report.states > 30
    assert report.rests >= 1


@pytest.mark.parametrize(
    ("name", "brokers", "grain"),
    [
        pytest.param("join-crash", 4, Granularity.TURNS, marks=pytest.mark.soak),
        pytest.param("crash-of-tester", 4, Granularity.TURNS, marks=pytest.mark.soak),
        pytest.param("crash-of-tester", 5, Granularity.TURNS, marks=pytest.mark.soak),
        pytest.param("crash-of-tester", 4, Granularity.READS, marks=pytest.mark.soak),
        ("crash", 5, Granularity.TURNS),
        ("mutual-suspicion", 5, Granularity.TURNS),
    ],
)
def test_nothing_breaks_in_any_order_of_coarse_steps(
    name: str, brokers: int, grain: Granularity
) -> None:
    search = Explorer(name, brokers=brokers, delays=COMPLETE, early=0, lists=True, grain=grain)
    report = search.search()
    assert report.findings == ()
    assert report.complete
    assert report.rests >= 1


def test_the_same_search_gives_the_same_report() -> None:
    first, second = (Explorer("join-crash", brokers=4, delays=0).search(200) for _ in range(2))
    assert first == second


def test_all_orders_are_more_than_few() -> None:
    states = [Explorer("crash", brokers=3, delays=d).search().states for d in (0, COMPLETE)]
    assert states[0] < states[1]


def test_a_search_stops_at_its_limit_and_says_so() -> None:
    report = Explorer("crash", brokers=4).search(limit=100)
    assert report.states == 100
    assert not report.complete
    assert report.in_words().endswith("stopped at the limit")


def _forget_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the protocol: who is told of a death does nothing."""
    monkeypatch.setattr(Deaths, "settle", lambda self, verdict: None)
    monkeypatch.setattr(Deaths, "on_failed", lambda self, uid, notice: None)


def test_a_broken_protocol_is_found_and_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_the_dead(monkeypatch)
    report = Explorer("crash", brokers=3).search()
    assert report.findings != ()
    assert len(report.story) == len(report.choices) > 0
    again = Explorer("crash", brokers=3).replay(report.choices)
    assert (again.findings, again.story) == (report.findings, report.story)


def test_an_accusation_of_the_living_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the protocol: suspicion is death."""
    monkeypatch.setattr(
        "ring.detection.suspicions.Suspicions._ask", lambda self, case: (case.subject, ())
    )
    report = Explorer("cut-and-crash", brokers=6, delays=0).search()
    assert any("lives and was declared dead" in finding for finding in report.findings)


@pytest.mark.parametrize("name", SCOPES)
def test_every_scenario_begins(name: str) -> None:
    assert Explorer(name).search(limit=3).findings == ()


def test_what_cannot_be_explored_is_refused() -> None:
    with pytest.raises(SimulationError, match="no scenario 'nothing'; there are join, crash"):
        Explorer("nothing")
    with pytest.raises(SimulationError, match="works with 4 to 12 brokers"):
        Explorer("two-joins", brokers=3)
    with pytest.raises(SimulationError, match="step 1 has"):
        Explorer("crash", brokers=3).replay([99])
    with pytest.raises(SimulationError, match="a grain other than packets goes with all orders"):
        Explorer("crash", brokers=3, delays=1, grain=Granularity.READS)


# A machine's state as a value


def _founder() -> RingNode:
    node = RingNode(LAN, Peer(f"{1:032x}", 1, "chordal://b1:1"), rng_for(1, "b1"))
    node.handle(Found(), 0)
    return node


def test_snapshots_that_share_what_is_the_same_are_put_back_one_by_one() -> None:
    node = _founder()
    kept: Kept = {}
    saved = []
    for number in range(2, 12):
        peer = Peer(f"{number:032x}", 1, f"chordal://b{number}:1")
        node.handle(LinkUp(peer, peer.url), 0)
        saved.append((shape(node), Snapshot(node, kept)))
        node.handle(LinkDown(peer.uid, Closed.UNWANTED), 0)
    assert len({before for before, _ in saved}) == len(saved)
    for before, snapshot in (*reversed(saved), *saved):
        snapshot.restore()
        assert shape(node) == before


def test_a_restored_machine_does_the_same_again() -> None:
    node = _founder()
    before, saved = shape(node), Snapshot(node, {})
    runs = []
    for _ in range(2):
        effects = []
        for _ in range(20):
            due = node.next_deadline()
            assert due is not None
            effects += node.handle_timers(due)
        runs.append((effects, node.next_deadline()))
        saved.restore()
        assert shape(node) == before
    assert runs[0] == runs[1]


def test_other_states_have_other_shapes() -> None:
    node = _founder()
    before = shape(node)
    node.handle(Found(7), 2)
    assert shape(node) != before


# The command


def test_the_command_says_how_far_it_went() -> None:
    result = CliRunner().invoke(sim, ["explore", "crash", "--brokers", "3"])
    assert result.exception is None
    assert result.stdout.startswith(
        "crash, 3 brokers, in any order (one for all that differ only in deliveries that commute): "
    )
    assert result.stdout.endswith(": complete\n")
    result = CliRunner().invoke(sim, ["explore", "crash", "--brokers", "3", "--unreduced"])
    assert result.stdout.startswith("crash, 3 brokers, in any order: ")
    assert result.stdout.endswith(": complete\n")
    result = CliRunner().invoke(sim, ["explore", "crash", "--brokers", "4", "--delays", "0"])
    assert result.stdout.endswith(": complete within that bound\n")
    result = CliRunner().invoke(sim, ["explore", "crash", "--brokers", "3", "--json"])
    assert json.loads(result.stdout)["complete"] is True


def test_the_command_fails_with_a_command_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _forget_the_dead(monkeypatch)
    result = CliRunner().invoke(sim, ["explore", "crash", "--brokers", "3"])
    assert isinstance(result.exception, InvariantViolated)
    command = str(result.exception).split("again with: chordal sim ")[1].split("\n")[0]
    again = CliRunner().invoke(sim, command.split())
    assert isinstance(again.exception, InvariantViolated)
    assert str(again.exception) == str(result.exception)
    assert "its sockets close at" in again.stdout


def test_the_command_lists_the_scenarios() -> None:
    names = [*SCOPES, *UNIT_SCOPES]
    result = CliRunner().invoke(sim, ["explore", "list"])
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == names
    told = json.loads(CliRunner().invoke(sim, ["explore", "list", "--json"]).stdout)
    assert [*told] == names
    assert told["join"] == SCOPES["join"].about


def test_a_finding_of_coarse_steps_is_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_the_dead(monkeypatch)
    scope = ["crash", "--brokers", "3", "--grain", "turns", "--lists"]
    result = CliRunner().invoke(sim, ["explore", *scope])
    assert isinstance(result.exception, InvariantViolated)
    command = str(result.exception).split("again with: chordal sim ")[1].split("\n")[0]
    assert " --grain turns --lists " in command
    again = CliRunner().invoke(sim, command.split())
    assert str(again.exception) == str(result.exception)


@pytest.mark.parametrize(
    "scope",
    [
        ["nothing"],
        ["crash", "--brokers", "99"],
        ["crash", "--brokers", "3", "--replay", "99"],
        ["crash", "--replay", "one"],
        ["crash", "--replay", ""],
        ["crash", "--delays", "1", "--unreduced"],
        ["crash", "--delays", "1", "--grain", "turns"],
    ],
)
def test_the_command_refuses_a_scope_that_is_none(scope: list[str]) -> None:
    result = CliRunner().invoke(sim, ["explore", *scope])
    assert result.exit_code == 2
    assert "Error: " in result.stderr


@pytest.mark.parametrize("option", ["--delays=-2", "--limit=0"])
def test_the_command_refuses_what_makes_no_sense(option: str) -> None:
    result = CliRunner().invoke(sim, ["explore", "crash", option])
    assert result.exit_code == 2
    assert option.split("=")[0] in result.stderr
