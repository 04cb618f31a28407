"""A machine that plays no protocol: it does as it is told, and notes what happens to it."""

from __future__ import annotations

from overlay.ids import Nanos, Peer
from overlay.machine import Command, Effect, Input, Refused


class Do(Command):
    """Have a recorder return these effects."""

    def __init__(self, *effects: Effect) -> None:
        self.effects = list(effects)


class Recorder:
    """A machine that does as it is told and notes what happens to it."""

    def __init__(self, me: Peer) -> None:
        self.peer = me
        self.seen: list[tuple[Nanos, Input]] = []
        self.refusal: Refused | None = None
        self.deadlines: list[Nanos] = []
        self.woken: list[Nanos] = []

    def admit(self, peer: Peer) -> Refused | None:
        return self.refusal

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        if isinstance(event, Do):
            return event.effects
        self.seen.append((now, event))
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        self.woken.append(now)
        self.deadlines = [deadline for deadline in self.deadlines if deadline > now]
        return []

    def next_deadline(self) -> Nanos | None:
        return min(self.deadlines, default=None)

    @property
    def inputs(self) -> list[Input]:
        return [event for _, event in self.seen]
