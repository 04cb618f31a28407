"""States that are held to be one go on the same: what the explorer abstracts away hides nothing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

import sims.explore.snapshots
import sims.explore.state
from overlay.machine import Effect, Message, Notify, OpenLink, Send
from ring.facts import Confirmed, NeighboursChanged
from ring.node import RingNode
from ring.wire.messages import Failed, Relay
from sims.explore.canonical import ageless
from sims.explore.explorer import Explorer
from sims.explore.local_states import Told
from sims.explore.scopes import COMPLETE
from sims.explore.snapshots import IGNORED, RESET, shape
from sims.explore.world import UntimedWorld

#: What the shape leaves out although a broker does look at it.
HELD_EQUAL = frozenset({"_unrepaired", "patience_ends", "probes", "seen", "tries"})


ROOT = Path(__file__).parents[3]


def _attributes() -> Iterator[str]:
    """Yield what the objects of a ring's machine have: fields of classes, and what they set."""
    for path in (*ROOT.glob("ring/**/*.py"), ROOT / "overlay" / "machine.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def test_what_is_not_told_apart_is_there_at_all() -> None:
    """They are named by strings: whoever renames one would let it tell states apart again."""
    assert (IGNORED | RESET | HELD_EQUAL) - set(_attributes()) == set()


def _without_witnesses(message: Message) -> Message:
    return structs.replace(message, witnesses=()) if isinstance(message, Failed) else message


def _explore_exactly(
    monkeypatch: pytest.MonkeyPatch, name: str, brokers: int, early: int, limit: int, *, lists: bool
) -> UntimedWorld:
    """Go through a scope with nothing abstracted away that this is about."""
    monkeypatch.setattr(RingNode, "normalise", lambda node: None)
    monkeypatch.setattr(sims.explore.state, "ageless", _without_witnesses)
    monkeypatch.setattr(sims.explore.snapshots, "IGNORED", IGNORED - HELD_EQUAL)
    search = Explorer(name, brokers=brokers, delays=COMPLETE, early=early, lists=lists)
    report = search.search(limit)
    assert not report.findings
    monkeypatch.undo()
    return search._world


def _done(effects: list[Effect]) -> list[Hashable]:
    """Return what others ever see of effects."""
    seen: list[Hashable] = []
    for effect in effects:
        if isinstance(effect, Send):
            message = ageless(effect.message)
            if isinstance(message, Relay):  # with a view inside, and its version
                message = structs.replace(message, body=message.body[:6])
            seen.append((effect.uid, message))
        elif isinstance(effect, OpenLink):
            seen.append((effect.url, effect.uid))
        elif isinstance(effect, Notify):
            if isinstance(effect.fact, Confirmed):
                seen.append(effect.fact.subject)
            elif isinstance(effect.fact, NeighboursChanged):
                seen.append(effect.fact)
        else:
            seen.append(effect)
    return seen


def _tell(node: RingNode, event: Told, now: int) -> list[Effect]:
    return node.expire(event, now) if isinstance(event, tuple) else node.handle(event, now)


@pytest.mark.parametrize(
    ("name", "brokers", "early", "lists", "limit"),
    [
        ("crash", 3, 0, False, 3_000),
        ("join", 3, 0, False, 3_000),
        ("crash-of-tester", 3, 1, True, 300),
        pytest.param("crash-of-tester", 3, 1, True, 3_000, marks=pytest.mark.soak),
        ("cut", 3, 0, False, 1_000),
        pytest.param("cut", 3, 0, False, 3_000, marks=pytest.mark.soak),
    ],
)
def test_states_held_equal_go_on_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, brokers: int, early: int, limit: int, *, lists: bool
) -> None:
    world = _explore_exactly(monkeypatch, name, brokers, early, limit, lists=lists)
    merged = differ = 0
    for at, node in enumerate(world.nodes):
        classes: dict[Hashable, list[int]] = defaultdict(list)
        for number, local in enumerate(world.states.locals[at]):
            local.frozen.restore()
            node.normalise()
            classes[shape(node)].append(number)
        events: dict[int, set[Told]] = defaultdict(set)
        for where, number, event in world.states._known:
            if where == at:
                events[number].add(event)
        for equal in classes.values():
            merged += len(equal) - 1
            for event in set().union(*(events[number] for number in equal)):
                outcomes = set()
                for number in equal:
                    for canonical in (False, True):
                        world.states.locals[at][number].frozen.restore()
                        if canonical:
                            node.normalise()
                        done = _done(_tell(node, event, world.now))
                        node.normalise()
                        outcomes.add((repr(done), shape(node)))
                differ += len(outcomes) > 1
    assert merged > 0
    assert differ == 0
