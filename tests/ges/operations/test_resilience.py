"""How many losses a ring survives."""

from __future__ import annotations

import itertools
import json
import random

import networkx
import pytest
from click.testing import CliRunner

from ges.cli.main import cli
from ges.errors import ConnectionLost
from ges.operations import resilience
from ges.operations.resilience import Resilience, live_links, measure, ring_links
from ges.operations.walk import Walk
from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass, Peer
from ring.errors import InvariantBroken
from ring.wire.messages import Member


def graph(n: int, steps: tuple[int, ...]) -> dict[str, list[str]]:
    """Return a ring of ``n`` in which each is linked to those so many steps away."""
    return {
        str(at): sorted(
            {str((at + way * step) % n) for step in steps for way in (1, -1)} - {str(at)}
        )
        for at in range(n)
    }


def stays_connected(links: dict[str, list[str]], lost: set[str]) -> bool:
    found: networkx.Graph[str] = networkx.Graph(
        (uid, other) for uid, others in links.items() for other in others
    )
    found.remove_nodes_from(lost)
    return bool(networkx.is_connected(found))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_in_a_small_ring_each_is_linked_to_each_and_any_loss_is_survived(n: int) -> None:
    found = measure(graph(n, (1, 2)))
    assert found == Resilience(
        brokers=n,
        links=n * (n - 1) // 2,
        k=n - 1,
        is_complete=True,
        is_exact=True,
        cut=(),
        parts=(n,),
    )
    assert found.survives == max(n - 2, 0)


@pytest.mark.parametrize("n", [6, 7, 9, 32, 200])
def test_two_neighbours_on_each_side_survive_any_three_losses(n: int) -> None:
    links = graph(n, (1, 2))
    found = measure(links)
    assert (found.k, found.survives, found.is_complete, found.is_exact) == (4, 3, False, True)
    assert len(found.cut) == 4
    assert not stays_connected(links, set(found.cut))
    assert sum(found.parts) == n - 4


def test_what_it_says_is_so_for_every_choice_of_losses() -> None:
    rng = random.Random(4)
    for _ in range(20):
        links = graph(8, (1, 2))
        for a, b in (rng.sample(sorted(links), 2) for _ in range(4)):
            links[a].append(b)
        found = measure(links)
        for lost in itertools.combinations(links, found.survives):
            assert stays_connected(links, set(lost))
        assert found.is_complete or not stays_connected(links, set(found.cut))
        assert list(found.cut) == sorted(found.cut), "in ring order"


def test_a_ring_in_parts_survives_nothing() -> None:
    found = measure({"a": ["b"], "b": ["a"], "c": []})
    assert (found.k, found.survives, found.cut, found.parts) == (0, 0, (), (1, 2))


@pytest.mark.parametrize("half", [51, pytest.param(101, marks=pytest.mark.soak)])
def test_a_bottleneck_between_two_halves_is_found(
    half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the ring is too large for all pairs, and no single broker is easy to cut off."""
    links = {f"{side}{at}": list[str]() for side in "ab" for at in range(half)}
    for side in "ab":
        for uid, others in graph(half, (1, 2, 4, 8, 16)).items():
            links[side + uid] += [side + other for other in others]
    bridges = (("a5", "b5"), ("a20", "b20"), ("a40", "b40"))
    for a, b in bridges:
        links[a].append(b)
        links[b].append(a)
    monkeypatch.setattr(resilience, "EXACT_BROKERS", 2 * half - 1)
    found = measure(links)
    assert (found.k, found.survives, found.is_exact) == (3, 2, False)
    assert found.parts in ((half - 3, half), (half - 2, half - 1))
    assert not stays_connected(links, set(found.cut))
    monkeypatch.setattr(resilience, "EXACT_BROKERS", 2 * half)
    found = measure(links)
    assert (found.k, found.is_exact) == (3, True)


def test_in_a_large_ring_the_cut_found_is_a_cut() -> None:
    links = graph(1000, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
    found = measure(links)
    assert not found.is_exact
    assert len(found.cut) == found.k == 20
    assert not stays_connected(links, set(found.cut))


# ── links from what brokers say ───────────────────────────────────────────────────────────────


def status(uid: str, near: str, links: str, link_class: LinkClass = LinkClass.NORMAL) -> Status:
    members = tuple(Member(Peer(other, 1, f"chordal://{other}:1"), 0) for other in near)
    return Status(
        uid=uid,
        incarnation=1,
        url=f"chordal://{uid}:1",
        overlay="test",
        version="0",
        secure=False,
        member=None,
        left=members[:2],
        right=members[2:],
        chords=(),
        suspects=(),
        links=tuple(
            LinkStatus(other, f"chordal://{other}:1", None, link_class, (), 0, 0.0, None)
            for other in links
        ),
        clients=0,
        subscriptions=0,
        counters={},
        uptime_s=0.0,
    )


def test_a_link_counts_when_both_ends_report_it() -> None:
    ring = [status("a", "b", "bcx"), status("b", "a", "a"), status("c", "", "")]
    assert live_links(ring) == {"a": ["b"], "b": ["a"], "c": []}


def test_secure_links_hold_nothing_together() -> None:
    ring = [status(uid, "ab", "ab", LinkClass.SECURE) for uid in "ab"]
    assert live_links(ring) == {"a": [], "b": []}


def test_ring_links_are_those_to_the_four() -> None:
    ring = [status("a", "b", "bc"), status("b", "a", "ac"), status("c", "b", "ab")]
    assert live_links(ring)["a"] == ["b", "c"]
    assert ring_links(ring) == {"a": ["b"], "b": ["a", "c"], "c": ["b"]}


@pytest.mark.parametrize(
    ("near", "links", "in_parts"),
    [
        ({"a": "b", "b": "ac", "c": "b"}, {"a": "b", "b": "ac", "c": "b"}, []),
        ({"a": "b", "b": "ac", "c": "b"}, {"a": "b", "b": "a", "c": ""}, ["links", "ring links"]),
        ({"a": "b", "b": "a", "c": ""}, {"a": "bc", "b": "a", "c": "a"}, ["ring links"]),
        ({"a": ""}, {"a": ""}, []),
    ],
    ids=["whole", "apart", "held by a chord", "single"],
)
def test_the_check_fails_where_the_links_leave_the_ring_in_parts(
    near: dict[str, str],
    links: dict[str, str],
    in_parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all pointers as they should be: the walk itself has found nothing."""
    ring = tuple(status(uid, near[uid], links[uid]) for uid in near)

    async def fake(url: str, **rest: object) -> Walk:
        return Walk(ring, ())

    monkeypatch.setattr("ges.operations.walk.walk_ring", fake)
    done = CliRunner().invoke(cli, ["ring", "--check"])
    found = done.exception.findings if isinstance(done.exception, InvariantBroken) else ()
    assert found == tuple(f"the {name} leave the brokers in 2 parts" for name in in_parts)
    assert done.exit_code == int(bool(in_parts)), done.output
    assert ("is whole" in done.stdout) is (not in_parts)


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_of_a_ring_that_was_not_walked_to_its_end_nothing_is_said(
    option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What those met would survive among themselves is not what the ring does."""

    async def fake(url: str, **rest: object) -> Walk:
        early = "the walk ends: no answer"
        return Walk((status("a", "b", "b"),), (early,), early)

    monkeypatch.setattr("ges.operations.walk.walk_ring", fake)
    done = CliRunner().invoke(cli, ["ring", "--check", *option])
    assert done.exit_code == 1
    if option:
        assert json.loads(done.stdout)["connectivity"] == {}
    else:
        assert "not known" in done.stdout
        assert "survive any loss" not in done.stdout


def test_a_check_that_may_wait_waits_for_the_first_broker_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def fake(url: str, **rest: object) -> Walk:
        asked.append(url)
        if len(asked) < 3:
            raise ConnectionLost("it starts again just now")
        return Walk((status("a", "", ""),), ())

    monkeypatch.setattr("ges.operations.walk.walk_ring", fake)
    assert CliRunner().invoke(cli, ["ring", "--check", "--wait", "20"]).exit_code == 0
    assert len(asked) == 3
    asked.clear()
    refused = CliRunner().invoke(cli, ["ring", "--check"])
    assert isinstance(refused.exception, ConnectionLost)
