"""Heartbeats, and the silence that makes a ring neighbour suspect.

Few heartbeats, quick probes. A broker is heard by its *monitors* at least once in every period T:
by its left neighbour alone (``monitors=1``, as MSPastry does it: Castro, Costa, Rowstron,
"Performance and dependability of structured peer-to-peer overlays", DSN 2004), by left and right
(2) or by all four (4). Whatever else goes that way within T saves the heartbeat. The phases of one
broker's heartbeats to its monitors are drawn independently of each other.

A monitor that has waited for T and for as long as heartbeats have been late on this link before
(:class:`~ring.detection.mean_deviation.MeanDeviation`) sends ``probes`` pings, half a wait for an
answer apart; a whole one after the last, the neighbour is suspected. So of the k misses that make a
suspicion only the first costs a whole period. With Ta the wait for a late heartbeat and Tr the one
for an answer, a broker that dies at any time is suspected

    T + Ta + Tr (probes + 1) / 2

after it was last heard: between ``config.silence_ns`` in calm and ``config.silence_max_ns``. With
M monitors of independent phases the first suspects it T M / (M + 1) earlier than that in the mean.

Links to ring neighbours that send us no heartbeats are looked after by others; we probe those only
when nothing was heard for :data:`IDLE_PERIODS`. A *new* neighbour is probed at once: in a run of
dead brokers the next is found after a few round trips, not after another period. Its answer is
also the first measurement of the round trip. Many brokers that start at once measure each other's
start rather than the way, so a round trip that seems long is measured again, a few times, and the
first one much shorter takes the place of all before it.

Anything heard on a link is a sign of life, and a slow observer doubts itself first
(:class:`~ring.detection.local_health.LocalHealth`). If our own timers come much too late, the
process stood still, and all deadlines move by that pause; else a broker waking from ``SIGSTOP``
would accuse everybody it had not listened to.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.circle.links import RingLink, RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.detection.local_health import LocalHealth
from ring.detection.mean_deviation import MeanDeviation
from ring.geometry import between, clockwise
from ring.wire.messages import Heartbeat, Member, Ping, Purpose

FIRST_SAMPLES = 8  #: of a round trip, which may be those of a busy moment
IDLE_PERIODS = 24  #: a neighbour that others monitor is probed after that long a silence ...
IDLE_SPREAD = 12  #: ... and up to that much more: of two ends one is first, and that will do
HASTE = 5  #: the shortest wait for one said to have lost its link is ``answer_ns`` divided by this
SUPPRESSED = 8  #: heartbeats in a row that other traffic may replace; they carry our view's version


class Beat:
    """Our heartbeats to one monitor."""

    __slots__ = ("in_place", "looked_at", "suppressed")

    def __init__(self) -> None:
        self.looked_at: Nanos = 0  #: when one was last due
        self.suppressed = 0  #: in a row
        self.in_place = 0  #: other messages sent in place of them, in a row


class Watch:
    """What we know of one ring neighbour's signs of life."""

    __slots__ = (
        "asked_at",
        "idle_ns",
        "is_expected",
        "lateness",
        "link",
        "probes",
        "round_trip",
        "since",
        "token",
    )

    def __init__(self, link: RingLink, idle_ns: Nanos) -> None:
        self.idle_ns = idle_ns  #: how long it may be silent where it sends us no heartbeats
        self.link = link  #: another link to the same broker is another matter
        self.is_expected = False  #: it is to send us heartbeats, or has no place yet
        self.lateness = MeanDeviation()  #: of heartbeats
        self.round_trip = MeanDeviation()  #: of pings
        self.probes = 0  #: pings sent since it is overdue; 0: it is not
        self.since: Nanos = 0  #: when the first of them was sent
        self.asked_at: Nanos = 0  #: and the latest
        self.token = 0  #: of the latest; 0: answered, or none was sent


class Detector:
    """Sends this broker's heartbeats and watches those of its ring neighbours."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, health: LocalHealth
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._health = health
        self._watches: dict[str, Watch] = {}
        self._beats: dict[str, Beat] = {}  #: by uid of the monitor
        self._token = 0
        self._beside: tuple[Member, ...] = ()  #: left and right, when last followed
        self._followed = (-1, -1)  #: generation of links and version of the view when last followed

    def clear(self) -> None:
        """Watch nobody: this broker is off the ring."""
        self._watches.clear()
        self._beats.clear()
        self._beside = ()
        self._followed = (-1, -1)

    def follow(self, about: str | None) -> None:
        """Watch, and beat for, the ring neighbours there are now."""
        links, hood = self._links, self._neighbourhood
        if self._followed == (links.generation, hood.version):
            return
        self._followed = (links.generation, hood.version)
        left, right = hood.left[:1], hood.right[:1]
        monitors = self._core.config.monitors
        beside = (*left, *right) if monitors == 2 else tuple(hood.adjacent.values())
        self._beat_for([m.uid for m in (left if monitors == 1 else beside) if m.uid in links.up])
        expected = {m.uid for m in (right if monitors == 1 else beside)}
        expected.update(uid for uid, link in links.up.items() if link.member is None)
        ring = [uid for uid, link in links.up.items() if link.purpose is Purpose.RING]
        for uid in [uid for uid in self._watches if uid not in ring]:
            del self._watches[uid]
            self._core.disarm(Timer.SILENT, uid)
        for uid in ring:
            self._watch(uid, about, is_expected=uid in expected)
        self._look_at_new((*left, *right), about)

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states."""
        generation, version = self._followed
        self._followed = (generation, int(version == self._neighbourhood.version))

    def forgive_pause(self, now: Nanos) -> None:
        """Called before timers run: notice that this process stood still."""
        core = self._core
        due = core.timers.next_deadline()
        pause = 0 if due is None else now - due
        if pause <= core.config.answer_ns // 2:
            return
        self._health.worse()
        if pause <= core.config.answer_ns:
            return
        core.timers.shift(pause)
        for link in self._links.up.values():
            link.heard_at = min(link.heard_at + pause, now)  # some may be heard since
        for uid in self._beats:  # but others have waited for us all the while
            core.arm(Timer.HEARTBEAT, uid, 0)

    # ── what others hear of us ────────────────────────────────────────────────────────────────

    def on_heartbeat_due(self, uid: str, instead: Callable[[str], bool]) -> None:
        """Let a monitor hear from us, unless it did within this period.

        ``instead`` may send it something else that is new to it, and says whether it did.
        """
        core, period = self._core, self._core.config.heartbeat_ns
        beat = self._beats.get(uid)
        if beat is None or uid not in self._links.up:  # the link was closed at this very moment
            return
        told_at, looked_at, beat.looked_at = core.told.get(uid, 0), beat.looked_at, core.now
        if told_at > looked_at and beat.suppressed < SUPPRESSED:
            beat.suppressed += 1
            wait = told_at + period - core.now
            if wait > 0:
                if len(self._beats) > 1:  # what went to all at once must not align the phases
                    wait = core.rng.randrange(wait) + 1
                core.arm(Timer.HEARTBEAT, uid, wait)
                return
        else:
            beat.suppressed = 0
        core.arm(Timer.HEARTBEAT, uid, period)
        if beat.in_place < SUPPRESSED and instead(uid):
            beat.in_place += 1
        else:
            beat.in_place = 0
            core.send(uid, Heartbeat(self._neighbourhood.version))

    # ── what we hear of others ────────────────────────────────────────────────────────────────

    def on_heartbeat(self, uid: str, after: Nanos) -> None:
        """A heartbeat came ``after`` ns without anything else from that broker."""
        watch = self._watches.get(uid)
        if watch is not None and watch.is_expected:
            config = self._core.config
            late = max(0, after - config.heartbeat_ns)
            watch.lateness.add(min(late, config.lateness_max_ns))  # one long gap is not for ever
            if watch.probes == 0:
                self._health.better()

    def on_pong(self, uid: str, token: int) -> None:
        """An answer to a probe: a sign of life, and a round trip measured.

        One whose token is not the latest is passed over.
        """
        watch = self._watches.get(uid)
        if watch is not None and token and watch.token == token:
            took = self._core.now - watch.asked_at
            if watch.round_trip.samples < FIRST_SAMPLES and took < watch.round_trip.mean // 4:
                watch.round_trip = MeanDeviation()  # so far it was not the way that took so long
            watch.round_trip.add(took)
            watch.token = 0
            if watch.probes <= 1:
                self._health.better()
            self._rest(uid, watch)

    def answer_ns(self, uid: str) -> Nanos:
        """Return how long to wait for an answer of that broker."""
        watch = self._watches.get(uid)
        return self._answer_ns(watch.round_trip if watch is not None else None)

    def patience_ns(self, uid: str) -> Nanos:
        """Return how long to wait for an answer over a link that another says is lost.

        Shorter than for one that may have died: at worst a link that was in order is made anew.
        """
        watch, config = self._watches.get(uid), self._core.config
        if watch is None or watch.round_trip.samples == 0:
            return config.answer_ns
        return watch.round_trip.within(config.answer_ns // HASTE, config.answer_ns)

    def beat_to(self, uid: str) -> Beat | None:
        """Return our heartbeats to ``uid``, if it is our monitor."""
        return self._beats.get(uid)

    @property
    def only_monitor(self) -> str | None:
        """Uid of the one broker that hears our heartbeats; None if there are none or several."""
        return next(iter(self._beats)) if len(self._beats) == 1 else None

    def watch_of(self, uid: str) -> Watch | None:
        """Return what is known of the signs of life of ``uid``, a ring neighbour that is linked."""
        return self._watches.get(uid)

    def is_in_time(self, watch: Watch) -> bool:
        """Say whether heartbeats come as on the calmest of links, and no one is in doubt."""
        config = self._core.config
        late = watch.lateness.within(config.lateness_ns, config.lateness_max_ns)
        return (
            watch.is_expected
            and watch.probes == 0
            and self._health.score == 0
            and late == config.lateness_ns
            and not self._seems_long(watch)
        )

    def watches(self, uid: str) -> bool:
        """Say whether that is a ring neighbour of ours, and linked."""
        return uid in self._watches

    def expects_heartbeats(self, uid: str) -> bool:
        """Say whether that broker is to send us heartbeats, and is missed where it does not."""
        watch = self._watches.get(uid)
        return watch is not None and watch.is_expected

    def hasten(self, uid: str, about: str | None) -> None:
        """Find out now whether a neighbour lives."""
        watch = self._watches.get(uid)
        if watch is not None and watch.probes == 0 and uid in self._links.up:
            self._probe(uid, watch, about)

    def ask(self, uid: str, about: str | None) -> None:
        """Let a broker show that it lives, if it is linked: ring neighbour or not."""
        if uid in self._watches:
            self.hasten(uid, about)
        elif uid in self._links.up:
            self._core.send(uid, Ping(0), about)

    def hasten_towards(self, there: int, about: str | None, *, denied: bool = False) -> None:
        """Find out whether our neighbours on the way to the ring id ``there`` live.

        A broker between us and a dead one may have died with its monitor, so a run of dead is seen
        from both its ends. Those heard of lately are left in peace, unless their place is
        ``denied`` by the broker that stands there: nobody else may ever have seen them.
        """
        here = self._core.member.ring_id
        if clockwise(there, here) < clockwise(here, there):
            here, there = there, here
        lately = self._core.now - self._core.config.silence_ns
        for member in self._neighbourhood.adjacent.values():
            link = self._links.up.get(member.uid)
            if link is None or (link.heard_at > lately and not denied):
                continue
            if between(here, member.ring_id, there):
                self.hasten(member.uid, about)

    def puts_off(self, uid: str, now: Nanos) -> bool:
        """Wait on, where ``uid`` was heard meanwhile and :meth:`on_silent` would do no more.

        Says whether it was so.
        """
        link, watch = self._links.up.get(uid), self._watches.get(uid)
        if link is None or watch is None or watch.probes or self._seems_long(watch):
            return False
        at = self._quiet_until(link.heard_at, watch)
        if at <= now:
            return False
        self._core.timers.set((Timer.SILENT, uid), at)
        return True

    def on_silent(self, uid: str) -> Member | None:
        """Return the neighbour to suspect, or None if it was heard meanwhile, or is asked now."""
        core = self._core
        link, watch = self._links.up.get(uid), self._watches.get(uid)
        if link is None or watch is None:
            return None
        if watch.probes:
            if link.heard_at > watch.since:
                self._rest(uid, watch)
                return None
            if watch.probes < core.config.probes:
                self._probe(uid, watch, None)
                return None
            self._rest(uid, watch, since=core.now)
            if link.member is None:  # it never took its place: nobody to suspect, but no link
                self._links.close(uid, Closed.LOST)
            return link.member
        if self._quiet_until(link.heard_at, watch) > core.now:
            if watch.token == 0 and self._seems_long(watch):
                self._ping(uid, watch, None)
            self._rest(uid, watch)
        else:
            self._probe(uid, watch, None)
        return None

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _beat_for(self, monitors: list[str]) -> None:
        core = self._core
        for uid in [uid for uid in self._beats if uid not in monitors]:
            del self._beats[uid]
            core.disarm(Timer.HEARTBEAT, uid)
        for uid in monitors:
            if uid not in self._beats:
                self._beats[uid] = Beat()
                core.arm(Timer.HEARTBEAT, uid, core.rng.randrange(core.config.heartbeat_ns))

    def _watch(self, uid: str, about: str | None, *, is_expected: bool) -> None:
        """Watch the link to ``uid`` that there is now; a new one is probed at once."""
        watch, link = self._watches.get(uid), self._links.up[uid]
        if watch is None or watch.link is not link:
            watch = self._watches[uid] = Watch(link, self._draw_idle())
            watch.is_expected = is_expected
            self._probe(uid, watch, about)
        elif watch.is_expected != is_expected:
            watch.is_expected = is_expected
            if is_expected:
                self.hasten(uid, about)
            else:
                self._rest(uid, watch)

    def _look_at_new(self, beside: tuple[Member, ...], about: str | None) -> None:
        """Probe who has come to stand beside us: it may have died together with its monitor."""
        for member in beside:
            link = self._links.up.get(member.uid)
            if link is None or member in self._beside:
                continue
            if link.heard_at + self._core.config.answer_ns < self._core.now:
                self.hasten(member.uid, about)
        self._beside = beside

    def _probe(self, uid: str, watch: Watch, about: str | None) -> None:
        core = self._core
        if watch.probes == 0:
            watch.since = core.now
        watch.probes += 1
        self._ping(uid, watch, about)
        wait = self._answer_ns(watch.round_trip)
        core.arm(Timer.SILENT, uid, wait if watch.probes == core.config.probes else wait // 2)

    def _ping(self, uid: str, watch: Watch, about: str | None) -> None:
        self._token += 1
        watch.token, watch.asked_at = self._token, self._core.now
        self._core.send(uid, Ping(self._token), about)

    def _seems_long(self, watch: Watch) -> bool:
        """Say whether the first measurements of the round trip make us wait long for an answer."""
        config, round_trip = self._core.config, watch.round_trip
        middle = (config.answer_ns + config.answer_max_ns) // 2
        return 0 < round_trip.samples < FIRST_SAMPLES and round_trip.within(0, middle) == middle

    def _rest(self, uid: str, watch: Watch, since: Nanos = 0) -> None:
        """Wait until it is overdue."""
        watch.probes = 0
        at = self._quiet_until(max(self._links.up[uid].heard_at, since), watch)
        self._core.timers.set((Timer.SILENT, uid), max(at, self._core.now))

    def _quiet_until(self, heard_at: Nanos, watch: Watch) -> Nanos:
        """Return until when nothing need be heard of a neighbour."""
        config = self._core.config
        if not watch.is_expected:
            return heard_at + (config.heartbeat_ns if self._seems_long(watch) else watch.idle_ns)
        late = watch.lateness.within(config.lateness_ns, config.lateness_max_ns)
        return heard_at + config.heartbeat_ns + self._health.stretch(late)

    def _draw_idle(self) -> Nanos:
        core = self._core
        period = core.config.heartbeat_ns
        return IDLE_PERIODS * period + core.rng.randrange(IDLE_SPREAD * period)

    def _answer_ns(self, round_trip: MeanDeviation | None) -> Nanos:
        config = self._core.config
        if round_trip is None or round_trip.samples == 0:
            return self._health.stretch(config.answer_max_ns)
        return self._health.stretch(round_trip.within(config.answer_ns, config.answer_max_ns))
