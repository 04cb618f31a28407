"""The way to each broker, for each class of events.

Over the multigraph that a broker knows (:mod:`ges.topology.survey`) this part of its machine keeps
the cheapest paths of each class (:mod:`overlay.multigraph.paths`) and chooses the ways to use
(:mod:`overlay.multigraph.path_choice`). An event takes a relay by naming the whole path
(:mod:`ges.wire.source_route`), so it goes round in no circle even where brokers hold different
weights. Paths are brought up to date at most ten times a second, however often links change.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ges.topology.survey import Survey
from overlay.ids import LinkClass, Nanos, nanos
from overlay.multigraph.path_choice import Offer, Path, PathChoice
from overlay.multigraph.paths import ShortestPaths
from overlay.multigraph.relay_gain import RelayGain
from overlay.multigraph.weights import LinkKey

AGREE_NS = nanos(0.5)  #: so often is looked whether measurements agree that a relay is faster
PATHS_NS = nanos(0.1)  #: paths are brought up to date at most that often
LONGEST_WAY = 8  #: brokers on a path, both ends included


class RelayPaths:
    """The ways in use from one broker."""

    def __init__(
        self, survey: Survey, detours: Mapping[str, Path], gain: RelayGain | None = None
    ) -> None:
        """``detours``: the ring's ways round failed links; events go to those brokers as well.

        ``gain``: what a relay path must save at least.
        """
        self._gain = gain if gain is not None else RelayGain()
        self.choice = PathChoice(self._gain)
        #: (uid, class) -> the brokers to pass on the way there, that one included; where there is
        #: no entry the direct link is used. The router holds this very dictionary.
        self.relays: dict[LinkKey, Path] = {}
        self.rounds = 0  #: how often paths were brought up to date
        self._survey = survey
        self._detours = detours
        self._detoured: frozenset[str] = frozenset()
        self._paths = {c: ShortestPaths(survey.graph, c, survey.uid) for c in LinkClass}
        self._is_undecided = False  #: paths have changed since the ways to use were chosen
        self._last: Nanos | None = None
        self._due: Nanos | None = None

    def follow(self, now: Nanos) -> None:
        """Links, costs or detours may have changed: choose anew, as soon as that may be done."""
        is_changed = self._survey.take_changed() or self._is_undecided
        if is_changed or self._detoured != self._detours.keys():
            self._wake(now if self._last is None else max(now, self._last + PATHS_NS))
        if self._due is not None and self._due <= now:
            self._choose(now)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`follow` wants to be called at the latest."""
        return self._due

    def path(self, key: LinkKey) -> Path | None:
        """Return the way events of a class take to a broker, both ends included.

        None: the broker is not within the horizon, or nothing leads there in that class.
        """
        uid, link_class = key
        relay = self.choice.relay(key)
        if self._total(relay, link_class) is not None:
            return relay
        if self._survey.has_link(key):
            return (self._survey.uid, uid)
        self._update(link_class)
        return self._paths[link_class].path(uid)

    def next_hop(self, link_class: LinkClass, uid: str) -> str | None:
        """Return the first broker on :meth:`path`; None if there is none, or it is here."""
        path = self.path((uid, link_class))
        return path[1] if path is not None and len(path) > 1 else None

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _update(self, link_class: LinkClass) -> None:
        changed = self._survey.graph.take_changed(link_class)
        if changed:
            self._paths[link_class].update(changed)
            self._is_undecided = True

    def _wake(self, at: Nanos) -> None:
        if self._due is None or at < self._due:
            self._due = at

    def _choose(self, now: Nanos) -> None:
        self.rounds += 1
        self._last, self._due = now, None
        self._detoured = frozenset(self._detours)
        for link_class in LinkClass:
            self._update(link_class)
        self._is_undecided = False
        wanted = self._survey.linked | self._detoured
        for key in self.choice.decided:
            if key[0] not in wanted:
                self.choice.forget(key)
        # Of a class of which there never was a link here there is nothing to decide.
        near, decided = self._survey.graph.near, {c for _, c in self.choice.decided}
        classes = [c for c in LinkClass if c in decided or near(self._survey.uid, c)]
        for uid in sorted(wanted):
            for link_class in classes:
                key = (uid, link_class)
                offer = self._offer(key, now)
                again = self.choice.decide(key, offer, now)
                if again is None and self._is_doubtful(key, offer):
                    again = now + AGREE_NS
                if again is not None:
                    self._wake(max(again, now + PATHS_NS))
        self.relays.clear()
        self.relays.update((key, path[1:]) for key, path in self.choice.relays.items())

    def _is_doubtful(self, key: LinkKey, offer: Offer) -> bool:
        """A relay seems really faster, but not by all of the latest measurements."""
        near = self._survey.graph.near(self._survey.uid, key[1])
        return (
            self.choice.relay(key) is None
            and offer.has_link
            and self._gain.is_reached(offer.path_ns, near.get(key[0]))
        )

    def _offer(self, key: LinkKey, now: Nanos) -> Offer:
        """Return the ways to a broker, and their costs.

        The direct link counts at its best of late, and the links of a relay as they are known. So
        neither one process that the scheduler runs late, nor a host on which all are, makes a
        relay seem faster.
        """
        uid, link_class = key
        paths, near = self._paths[link_class], self._survey.graph.near(self._survey.uid, link_class)
        path, path_ns = paths.path(uid), paths.distance(uid)
        if path is not None and len(path) > LONGEST_WAY:
            path = path_ns = None
        has_link = self._survey.has_link(key)
        kept_ns = self._total(self.choice.relay(key), link_class)
        direct_ns = near.get(uid) if has_link else None
        agreed_ns = self._survey.agreed_cost_ns(key, now)
        if direct_ns is not None and agreed_ns is not None:
            direct_ns = min(direct_ns, agreed_ns)
        return Offer(has_link, direct_ns, path, path_ns, kept_ns)

    def _total(self, path: Path | None, link_class: LinkClass) -> Nanos | None:
        """Return what a path costs now; None if a link of it is gone."""
        if path is None:
            return None
        total = 0
        for here, there in pairwise(path):
            cost = self._survey.graph.near(here, link_class).get(there)
            if cost is None:
                return None
            total += cost
        return total
