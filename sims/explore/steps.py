"""What the steps of :mod:`sims.explore.explorer` do to the world."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from ring.facts import Join
from sims.explore.granularity import Granularity, arrive, at_once
from sims.explore.packed_states import Act
from sims.explore.report import What
from sims.explore.scopes import Action
from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld


class Steps:
    """Carries steps out.

    ``grain`` says what one step delivers, None: a packet, and :data:`sims.explore.world.BACKGROUND`
    at once. ``place``: numbers of the brokers in the order of the ring. ``begin`` is called before
    anything is done.
    """

    def __init__(
        self,
        world: UntimedWorld,
        actions: Sequence[Action],
        place: Sequence[int],
        grain: Granularity | None,
        begin: Callable[[], None],
    ) -> None:
        self._world = world
        self._actions = actions
        self._place = place
        self._grain = grain
        self._begin = begin
        self._known: dict[What, list[tuple[Hashable, Act]]] = {}

    def parts(self, what: What) -> list[tuple[Hashable, Act]]:
        """Return what a step consists of, and what to remember each part by."""
        known = self._known.get(what)
        if known is None:
            parts = enumerate(self._acts(what))
            known = self._known[what] = [((what, at), self._settled(act)) for at, act in parts]
        return known

    def _settled(self, act: Act) -> Act:
        """Return ``act``, with all that happens at once then."""

        def settled(state: State) -> None:
            self._begin()
            act(state)
            if self._grain is None:
                self._world.settle_background(state)
            elif self._grain is not Granularity.PACKETS:
                at_once(self._world, state)

        return settled

    def _acts(self, what: What) -> list[Act]:
        world = self._world
        if isinstance(what, Channel):
            return [partial(arrive, world, channel=what, grain=self._grain or Granularity.PACKETS)]
        if not isinstance(what, int):
            return [partial(world.expire, at=what[0], timer=what[1])]
        action, place = self._actions[what], self._place
        who, others = place[action.who], [place[other] for other in action.others]
        if action.verb == "join":
            urls = tuple(world.nodes[other].peer.url for other in others)
            return [partial(world.enter, at=who, event=Join(urls))]
        if action.verb == "crash":
            return world.crash(who, frozenset(others))
        if action.verb == "cut":
            return [partial(world.cut, a=who, b=others[0])]
        return [partial(world.leave, at=who)]
