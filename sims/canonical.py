"""Counters of a machine, brought down to what they are compared for.

Two states of a broker that differ in nothing but how often something has changed are one state to
:mod:`sims.explore`. A snapshot may leave out what is never looked at (:data:`sims.freeze.IGNORED`);
a counter that is compared has to be made small in the machine itself.

The version of a view is compared by three: the broker itself, to know whom it has not shown its
latest view; the one that is shown a view, to know it from an older one; and with each heartbeat. No
heartbeat is sent while the clock stands still. Views on one link come in the order in which they
were sent, and what is under way on a link is lost when another replaces it, so none is older than
the one held, but for those that come along detours. So all views are of version 0 here, and the
broker's own version is 1, after each step; when time passes, each view is asked for with the first
heartbeat, as if it were old.
"""

from __future__ import annotations

from msgspec import structs

from overlay.ids import Peer
from overlay.machine import Message
from ring.core import Timer
from ring.links import Link
from ring.messages import Failed, Towards, View
from ring.newcomer import Phase
from ring.node import RingNode

_GONE = Link(Peer("", 0, ""), 0)  #: stands for every link that is no more


def settle(node: RingNode) -> None:
    """Bring the state of a machine to the form that stands for all that go on the same."""
    _forget_versions(node)
    _forget_the_dead(node)
    _forget_old_links(node)
    _forget_measurements(node)


def ageless(message: Message) -> Message:
    """Return what a message comes to: without a version, and without the witnesses of a death.

    Those are only told on.
    """
    if isinstance(message, View):
        return _ageless(message)
    if isinstance(message, Failed):
        return structs.replace(message, witnesses=())
    return message


def _forget_versions(node: RingNode) -> None:
    """Make the versions of views in a broker's state the smallest that it goes on the same with."""
    parts = node._parts
    hood, detector, views = parts.hood, parts.detector, node._views
    current = hood.version
    for link in parts.links.up.values():
        link.sent_version = int(link.sent_version == current)
        if link.view is not None:
            link.view = _ageless(link.view)
    for side in parts.runs._sides.values():
        if side.seen is not None:
            side.seen = (side.seen[0], _ageless(side.seen[1]))
        if side.doubted is not None:
            side.doubted = (side.doubted[0], _ageless(side.doubted[1]))
    node._followed = _counted(node._followed, current)
    detector._followed = _counted(detector._followed, current)
    views._shown = _counted(views._shown, current)
    hood.version = 1


def _forget_the_dead(node: RingNode) -> None:
    """Take the dead out of the rows of runs, where it makes no difference that they stand there.

    The dead are neither waited for nor linked, whether they were refused or silent or not; only the
    two nearest of a row are looked at for themselves. Nobody tries to link them again. Who is under
    suspicion is waited for, refused or not.
    """
    parts = node._parts
    hood, runs, core = parts.hood, parts.runs, parts.core
    dead = {
        uid for uid, burial in hood._tombstones.items() if hood.is_dead(uid, burial.incarnation)
    }
    for side in runs._sides.values():
        beyond = tuple(m for m in side.row[2:] if not hood.is_dead(m.uid, m.incarnation))
        side.row = (*side.row[:2], *beyond)
        near = runs._near(side)
        seen = ((hood.right, hood.left)[side.towards is Towards.LEFT][1:2], near)
        if side.doubted is not None and (
            side.doubted[:1] != seen[0] or side.doubted[1] != runs._view_that_fits(side, near)
        ):
            side.doubted = None
    rows = set(runs._in_rows()) - dead
    judged = hood.suspects
    runs._refused = {u: None for u in runs._refused if u in rows and u not in judged}
    runs._silent = {uid: None for uid in runs._silent if uid in rows}
    for uid, peer in hood.remembered.items():
        if uid not in parts.links._wanted and uid not in parts.links.up:
            core.disarm(Timer.RETRY, peer.url)


def _forget_old_links(node: RingNode) -> None:
    """Drop what was sent over links that are gone, and what they were like: all is sent anew."""
    parts = node._parts
    backups, up = parts.link_backups, parts.links.up
    backups._sent = {uid: sent for uid, sent in backups._sent.items() if sent.link is up.get(uid)}
    for uid, held in backups._held.items():
        if held.link is not up.get(uid):
            held.link = _GONE


def _forget_measurements(node: RingNode) -> None:
    """Drop what a newcomer measured, once it has its place."""
    newcomer = node._parts.newcomer
    if newcomer.phase is Phase.IDLE:
        newcomer._candidates.clear()
        newcomer.contact = None


def _ageless(view: View) -> View:
    return view if view.version == 0 else structs.replace(view, version=0)


def _counted(at: tuple[int, int], current: int) -> tuple[int, int]:
    """Return the generation of links and version of our view at which something was done."""
    return at[0], int(at[1] == current)
