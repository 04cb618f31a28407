"""Searches that are routed over all links towards a place on the ring.

A route goes greedily, each broker passing it to the link nearest to the target; ring links, chords
and links that others hold as their chords all count. Where nobody is nearer than the broker itself
and the ring there is not known to be whole, that is a dead end: the search goes on with the nearest
broker it has not seen, and goes back where there is none (J. Aspnes, Z. Diamadi and G. Shah,
"Fault-tolerant routing in peer-to-peer systems", 2002, compare such strategies and find
backtracking best). Departs from the paper, whose queries are greedy and nothing else (004, section
3.4.2): while many are dead, greedy routes to live brokers get stuck, and would call them dead.

The message carries its path and the dead ends, at most ``MAX_ROUTE_HOPS`` of each, and brokers on
the way keep it only until the next one has confirmed that it has it; if that one does not, it is
passed by. The answer comes back along the path by the longest steps there are links for, so it
needs no connection between the two ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from overlay.ids import Nanos
from ring.circle.greedy import distance, nearest
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.geometry import clockwise, gap
from ring.wire.messages import MAX_ROUTE_HOPS, Member, Route, Routed, RouteHeard, Towards, View

MAX_SEARCHES = 64  #: our own, at once
MAX_PASSED_ON = 256  #: routes watched until the next broker has confirmed them
MAX_DEAF = 256
MAX_WITHOUT = 8
TRIES = 3  #: of one search, before it ends without an answer


@dataclass(frozen=True, slots=True)
class Finding:
    """How a search ended."""

    token: int
    reached: bool  #: the very broker asked for; if none was named, nobody can be nearer
    member: Member | None  #: the nearest found; None: no answer came
    path: tuple[str, ...]  #: uids, from this broker to ``member``; empty if it lies off the path
    hops: int  #: moves it took to get there, those into dead ends and back included


@dataclass(slots=True)
class Search:
    """A search of ours under way."""

    target: int
    towards: Towards
    uid: str | None
    about: str | None
    done: Callable[[Finding], None]
    without: list[str]  #: not to lead through these; the first hops of the tries so far come last
    tries: int = 0


class Routing:
    """Starts searches, passes those of others on, and takes answers."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._searches: dict[int, Search] = {}
        self._passed_on: dict[str, tuple[Route, str]] = {}  #: search -> (route, to whom)
        self._deaf: dict[str, Nanos] = {}  #: uids that did not confirm a route, until when
        self._token = 0

    def find(
        self,
        target: int,
        done: Callable[[Finding], None],
        *,
        uid: str | None = None,
        towards: Towards = Towards.NEAREST,
        about: str | None = None,
        without: tuple[str, ...] = (),
    ) -> int:
        """Search for the broker ``uid`` at ``target``, or the one that is nearest to it.

        ``done`` is called once, at once or later; when too many searches are under way, at once and
        with nobody found. The route does not lead through those ``without``. With ``uid``, a
        finding that is not ``reached`` says only that no way to it was found.

        Returns:
            The number of the search, as in its finding.
        """
        self._token += 1
        token = self._token
        if not self._core.joined or len(self._searches) >= MAX_SEARCHES:
            done(Finding(token, False, None, (), 0))
            return token
        search = Search(target, towards, uid, about, done, list(without[:MAX_WITHOUT]))
        self._searches[token] = search
        self._start(token, search)
        return token

    def is_deaf(self, uid: str) -> bool:
        """Say whether ``uid`` has not confirmed a route sent to it lately."""
        return self._deaf.get(uid, 0) > self._core.now

    # ── messages and timers ───────────────────────────────────────────────────────────────────

    def on_route(self, sender: str, route: Route) -> None:
        """Take a route that comes on from ``sender``, or back from it."""
        here = self._core.peer.uid
        if not self._core.joined or not route.trail or route.hops > MAX_ROUTE_HOPS:
            return
        if route.trail[-1] == sender and here not in route.trail:
            route = replace(route, trail=(*route.trail, here))
        elif route.trail[-1] != here or sender not in route.tried:
            return  # not as we or our like would send it
        if len(route.trail) > MAX_ROUTE_HOPS + 1:
            return
        self._core.send(sender, RouteHeard(route.origin.uid, route.token, route.hops))
        self._go(self._measured(route))

    def on_heard(self, sender: str, heard: RouteHeard) -> None:
        """The next broker has the route; it is no longer ours to watch."""
        key = _key(heard.origin, heard.token)
        route, onward = self._passed_on.get(key, (None, None))
        if route is not None and onward == sender and route.hops == heard.hops:
            del self._passed_on[key]
            self._core.disarm(Timer.HEARD, key)

    def on_unheard(self, key: str) -> None:
        """The next broker has not confirmed in time: pass it by, now and for a while."""
        route, onward = self._passed_on.pop(key)
        core = self._core
        self._deaf = {uid: until for uid, until in self._deaf.items() if until > core.now}
        if len(self._deaf) < MAX_DEAF:
            self._deaf[onward] = core.now + 2 * core.config.silence_ns
        self._pass_by(route, onward)

    def on_link_gone(self, uid: str) -> None:
        """A link broke: what was sent over it and not confirmed takes another."""
        self._deaf.pop(uid, None)
        for key, (route, onward) in list(self._passed_on.items()):
            if onward == uid:
                del self._passed_on[key]
                self._core.disarm(Timer.HEARD, key)
                self._pass_by(route, onward)

    def on_routed(self, sender: str, answer: Routed) -> None:
        """Take the answer to a search of ours, or hand it back along its trail."""
        here = self._core.peer.uid
        self._deaf.pop(sender, None)
        if answer.trail[:1] == (here,):
            self._end(answer)
        elif here in answer.trail:
            self._hand_back(answer, answer.trail.index(here))

    def on_late(self, token: str) -> None:
        """No answer came: try once more, by another first hop."""
        search = self._searches.get(int(token))
        if search is None:
            return
        if search.tries >= TRIES:
            del self._searches[int(token)]
            search.done(Finding(int(token), False, None, (), 0))
        else:
            self._start(int(token), search)

    def clear(self) -> None:
        """This broker is no member any more: all searches end with nobody found."""
        searches, self._searches = self._searches, {}
        for token in searches:
            self._core.disarm(Timer.ROUTE, str(token))
        for key in self._passed_on:
            self._core.disarm(Timer.HEARD, key)
        self._passed_on.clear()
        self._deaf.clear()
        for token, search in searches.items():
            search.done(Finding(token, False, None, (), 0))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _start(self, token: int, search: Search) -> None:
        core = self._core
        search.tries += 1
        core.arm(Timer.ROUTE, str(token), core.config.route_ns)
        here = core.member
        self._go(
            Route(
                origin=here,
                token=token,
                target=search.target,
                towards=search.towards,
                uid=search.uid,
                trail=(here.uid,),
                tried=tuple(search.without),
                best=here,
                hops=0,
            )
        )

    def _go(self, route: Route) -> None:
        """Answer the route, or send it on, or back."""
        core = self._core
        here = core.member
        if route.uid == here.uid:
            self._answer(route, here, reached=True)
            return
        deaf = filter(self.is_deaf, self._deaf)
        away = frozenset((*route.trail, *route.tried, *deaf, *self._neighbourhood.suspects))
        if route.uid is not None and route.uid in self._links.up and route.uid not in away:
            self._send_on(route.uid, route)
            return
        links = [
            (uid, link.member.ring_id)
            for uid, link in self._links.up.items()
            if link.member is not None
        ]
        found = nearest(route.towards, route.target, links, away)
        own = distance(route.towards, route.target, here.ring_id)
        nearer = found is not None and found[0] < own
        if not nearer and self._is_end(route):
            self._answer(route, here, reached=route.uid is None and self._is_sure(route))
        elif route.hops >= MAX_ROUTE_HOPS:
            self._answer(route, route.best, reached=False)
        elif found is not None:
            self._send_on(found[1], route)
        else:
            self._send_back(route)

    def _is_end(self, route: Route) -> bool:
        """Say whether a search that finds no nearer link here has come to its end.

        Where the ring is whole, nobody stands between this broker and the neighbour beyond the
        target. A search to one side ends at the edge of a gap: the one that asks wants to close it.
        """
        if route.towards is Towards.NEAREST:
            return self._is_sure(route)
        return route.origin.uid != self._core.peer.uid

    def _is_sure(self, route: Route) -> bool:
        """Say whether the ring is known to be whole between here and the target."""
        here, hood = self._core.member.ring_id, self._neighbourhood
        if route.target == here:
            return True
        if not hood.right:
            return not hood.suspects
        right, left = hood.right[0], hood.left[0]
        if clockwise(here, route.target) <= gap(here, right.ring_id):
            view = self._view_of(right)
            back = view.left if view is not None else ()
        elif clockwise(route.target, here) <= gap(left.ring_id, here):
            view = self._view_of(left)
            back = view.right if view is not None else ()
        else:
            return False
        return bool(back) and back[0].uid == self._core.peer.uid

    def _view_of(self, member: Member) -> View | None:
        link = self._links.up.get(member.uid)
        unsure = link is None or member.uid in self._neighbourhood.suspects
        return None if unsure or link is None else link.view

    def _measured(self, route: Route) -> Route:
        """Note this broker on the route, if it is nearer than all before it."""
        here = self._core.member
        nearer = distance(route.towards, route.target, here.ring_id) < distance(
            route.towards, route.target, route.best.ring_id
        )
        return replace(route, best=here) if nearer else route

    def _send_on(self, uid: str, route: Route) -> None:
        if len(route.trail) == 1:
            search = self._searches.get(route.token)
            if search is not None and len(search.without) < MAX_WITHOUT + TRIES:
                search.without.append(uid)
        self._send(uid, route)

    def _send_back(self, route: Route) -> None:
        """This is a dead end: return to the last broker on the trail that is linked."""
        for at in range(len(route.trail) - 2, -1, -1):
            uid = route.trail[at]
            if uid in self._links.up and not self.is_deaf(uid):
                tried = (*route.tried, *route.trail[at + 1 :])[-MAX_ROUTE_HOPS:]
                self._send(uid, replace(route, trail=route.trail[: at + 1], tried=tried))
                return
        if len(route.trail) == 1:
            self._answer(route, route.best, reached=False)

    def _send(self, uid: str, route: Route) -> None:
        core = self._core
        route = replace(route, hops=route.hops + 1)
        core.send(uid, route, self._about(route))
        key = _key(route.origin.uid, route.token)
        if len(self._passed_on) < MAX_PASSED_ON or key in self._passed_on:
            self._passed_on[key] = (route, uid)
            core.arm(Timer.HEARD, key, core.config.answer_max_ns)

    def _pass_by(self, route: Route, onward: str) -> None:
        """``onward`` did not take the route: go on without it."""
        if not self._core.joined:
            return
        here = self._core.peer.uid
        trail, tried = route.trail, (*route.tried, onward)[-MAX_ROUTE_HOPS:]
        if here not in trail:  # it was on its way back
            trail = (*trail, here)
            tried = tuple(uid for uid in tried if uid != here)
        self._go(replace(route, trail=trail, tried=tried))

    def _answer(self, route: Route, member: Member, *, reached: bool) -> None:
        answer = Routed(route.token, reached, member, route.trail, route.hops)
        if len(route.trail) == 1:
            self._end(answer)
        else:
            # An origin that is linked to the one it asks for would have sent the route straight:
            # that it did not shows that its end of the link is gone.
            without = route.origin.uid if len(route.trail) > 2 and route.uid == member.uid else None
            self._hand_back(answer, len(route.trail) - 1, without)

    def _hand_back(self, answer: Routed, at: int, without: str | None = None) -> None:
        """Send an answer to the broker nearest to the origin on the trail that is linked."""
        for uid in answer.trail[:at]:
            if uid != without and uid in self._links.up and not self.is_deaf(uid):
                self._core.send(uid, answer)
                return

    def _end(self, answer: Routed) -> None:
        search = self._searches.pop(answer.token, None)
        if search is None:
            return
        self._core.disarm(Timer.ROUTE, str(answer.token))
        member, trail = answer.member, answer.trail
        path = trail[: trail.index(member.uid) + 1] if member.uid in trail else ()
        search.done(Finding(answer.token, answer.reached, member, path, answer.hops))

    def _about(self, route: Route) -> str | None:
        """The failure on whose account this message is sent, where this broker knows it."""
        search = self._searches.get(route.token) if route.origin == self._core.member else None
        return None if search is None else search.about


def _key(origin: str, token: int) -> str:
    return f"{origin}/{token}"
