"""Brokers reduced to their surveys and relay paths, on links whose latency is set."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import count

from ges.topology.relay_paths import RelayPaths
from ges.topology.survey import Survey
from ges.wire.broker_messages import MeasuredLinks
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Effect, LinkMessage, Send
from overlay.multigraph.path_choice import Path

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


@dataclass
class Node:
    """One broker: what it has measured, and the paths that it takes for that."""

    survey: Survey
    relay_paths: RelayPaths
    detours: dict[str, Path] = field(default_factory=dict)


class Mesh:
    """A world in virtual time; brokers have names of one letter, latencies are one way, in ms."""

    def __init__(self, names: str, seed: int = 1) -> None:
        self.now: Nanos = 0
        self.nodes: dict[str, Node] = {}
        self.latency: dict[tuple[str, str, LinkClass], float] = {}
        self.messages = 0
        self.tables: list[tuple[Nanos, str, str]] = []  #: that came: when, to whom, and of whom
        self._order = count()
        self._heap: list[tuple[Nanos, int, str, str, LinkClass, LinkMessage]] = []
        for name in names:
            survey = Survey(name, random.Random(f"{seed}:{name}"), express_range_ns=nanos(0.005))
            detours: dict[str, Path] = {}
            self.nodes[name] = Node(survey, RelayPaths(survey, detours), detours)

    def link(self, pair: str, latency: float, link_class: LinkClass = NORMAL) -> None:
        """Make a link, or change its latency."""
        a, b = pair[0], pair[1]
        is_new = (a, b, link_class) not in self.latency
        for here, there in ((a, b), (b, a)):
            self.latency[here, there, link_class] = latency
        for here, there in ((a, b), (b, a)):
            if is_new:
                self.nodes[here].survey.on_up((there, link_class), self.now)
                self._do(here, [])

    def cut(self, pair: str, link_class: LinkClass = NORMAL) -> None:
        """Break a link; both ends notice at once."""
        a, b = pair[0], pair[1]
        for here, there in ((a, b), (b, a)):
            del self.latency[here, there, link_class]
            self.nodes[here].survey.on_down((there, link_class), self.now, is_reset=True)
            self._do(here, [])

    def mislead(self, pair: str) -> int:
        """The first sends the second an event by a link that this does not have.

        Returns how many tables the second tells for that.
        """
        before = self.messages
        self._do(pair[1], self.nodes[pair[1]].survey.correct(pair[0]))
        return self.messages - before

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + nanos(seconds)
        while True:
            due, name = min((self._due(name, end + 1), name) for name in self.nodes)
            arrival = self._heap[0][0] if self._heap else end + 1
            if min(due, arrival) > end:
                break
            if arrival <= due:
                self._arrive()
            else:
                self.now = max(self.now, due)
                node = self.nodes[name]
                self._do(name, node.survey.handle_timers(self.now))
        self.now = end

    def path(self, pair: str, link_class: LinkClass = NORMAL) -> str | None:
        """Return the names on the way between two brokers."""
        path = self.nodes[pair[0]].relay_paths.path((pair[1], link_class))
        return "".join(path) if path is not None else None

    def changes(self, name: str) -> int:
        """How often a broker has changed the way to another."""
        return self.nodes[name].relay_paths.choice.changes

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _due(self, name: str, never: Nanos) -> Nanos:
        node = self.nodes[name]
        dues = (node.survey.next_deadline(), node.relay_paths.next_deadline())
        return min((due for due in dues if due is not None), default=never)

    def _arrive(self) -> None:
        self.now, _, sender, name, link_class, message = heapq.heappop(self._heap)
        if (sender, name, link_class) in self.latency:
            survey = self.nodes[name].survey
            if isinstance(message, MeasuredLinks):
                self.tables.append((self.now, name, message.origin))
            self._do(name, survey.on_message((sender, link_class), message, self.now))

    def _do(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Send)
            assert isinstance(effect.message, LinkMessage)
            latency = self.latency.get((name, effect.uid, effect.link_class))
            assert latency is not None, "sent over a link that is not there"
            self.messages += 1
            entry = (name, effect.uid, effect.link_class, effect.message)
            arrival = self.now + nanos(latency / 1000)
            heapq.heappush(self._heap, (arrival, next(self._order), *entry))
        self.nodes[name].relay_paths.follow(self.now)
