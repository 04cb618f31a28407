"""A world in which periodic work that changes nothing is not simulated one by one.

An example: B beats to A twice a second. In :class:`~sims.world.world.World` each heartbeat is a
timer of B, a message, its arrival, and a timer of A. Here the two timers are taken out of the
brokers' tables while all is well (:mod:`ring.coordination.calm_beats`). When anything else happens
at either end, the heartbeats since the last time are made up for first: when each left and arrived,
and what that changed at both brokers. So whatever looks at the state of a broker finds what it
would have found. If the link is calm no more, the timers go back, heartbeats under way arrive as
messages, and each is simulated until the link is calm again. A crash, a pause, a cut, a clock
that runs fast or slow disturb a link, and so do a suspicion, a late heartbeat, a new view or a new
link of the sender.

Two more things that brokers do again and again are each done in one step, at the moment at which
they begin, if they change nothing: a ping and its answer, and the question to all chords for theirs
(:class:`ring.circle.chords.Shortcut`).

Heartbeats come out to the bit as in a world that simulates each, if that draws the jitter of its
messages by key, as this one does (:meth:`sims.world.network.Latency.draw_by_key`). Pings and
questions to chords do so unless something else happens at either end in the millisecond or so that
they would have been under way.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush

from overlay.ids import Nanos, Peer
from overlay.machine import Effect, Input, Machine, Refused, Send
from ring.coordination.calm_beats import CalmBeats, CalmWatch
from ring.coordination.parts import Parts
from ring.core import Timer
from ring.node import RingNode
from ring.wire.messages import ChordAnswer, ChordQuery, Heartbeat, Ping
from sims.world.calm_answers import Answers, AskChords, is_undisturbed
from sims.world.cuts import Cut
from sims.world.network import Latency, Way
from sims.world.world import CrashMode, Host, Pipe, World

#: What a broker sends without having heard or found out anything.
_ROUTINE = frozenset({Ping, ChordQuery, ChordAnswer})


class _Flow:
    """The heartbeats from one broker to another, while their link is calm."""

    __slots__ = ("alarm", "beats", "hosts", "under_way", "version", "watch", "way", "wire")

    def __init__(
        self, beats: CalmBeats, watch: CalmWatch, hosts: tuple[Host, Host], wire: Pipe, way: Way
    ) -> None:
        self.beats = beats
        self.watch = watch
        self.hosts = hosts
        self.wire = wire
        self.way = way
        self.version = 0  #: of the sender's view
        self.under_way: list[Nanos] = []  #: when those arrive that have left
        self.alarm: Nanos | None = None  #: when it is looked at without anything else happening


class _Watched:
    """A broker's machine: before it is handed anything, what was left out is made up for."""

    __slots__ = ("_node", "_uid", "_world")

    def __init__(self, world: QuietWorld, node: RingNode) -> None:
        self._world = world
        self._node = node
        self._uid = node.peer.uid

    @property
    def peer(self) -> Peer:
        return self._node.peer

    def admit(self, peer: Peer) -> Refused | None:
        self._world.catch_up(self._uid)
        return self._node.admit(peer)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        world, uid = self._world, self._uid
        world.catch_up(uid)
        effects = self._node.handle(event, now)
        world.look(uid)
        return effects

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Run what is due; where that is routine, it need not be looked at what has changed."""
        world, uid, parts = self._world, self._uid, self._node.parts
        timers, kind = parts.core.timers, None
        while (due := timers.next_deadline()) == now and (key := timers.first()) is not None:
            kind, subject = key
            if kind is not Timer.SILENT or not parts.detector.puts_off(subject, now):
                break
        if due is None or due > now:
            return []
        world.catch_up(uid, by_timer=True)
        effects = self._node.handle_timers(now)
        is_routine = kind is Timer.CHORDS or kind is Timer.SILENT
        for effect in effects:
            if type(effect) is not Send or type(effect.message) not in _ROUTINE:
                is_routine = False
        if not is_routine:
            world.look(uid)
            world.begin(uid)
        return effects

    def next_deadline(self) -> Nanos | None:
        return self._node.next_deadline()


class QuietWorld(World):
    """Runs ring nodes; the calmer they are, the less there is to do."""

    def __init__(self, latency: Latency) -> None:
        super().__init__(latency)
        latency.draw_by_key(self)
        self._parts: dict[str, Parts] = {}
        self.answers = Answers(self, self.hosts, self._parts, latency)
        self._out: dict[str, _Flow] = {}  #: by uid of the sender, which has one monitor
        self._in: dict[str, _Flow] = {}  #: by uid of the monitor
        self._on_left_out: Callable[[str, Send], None] | None = None

    # ── what an experiment does ───────────────────────────────────────────────────────────────

    def add(self, machine: Machine) -> None:
        """Put a broker into the world, or a new one in the place of a dead one."""
        assert isinstance(machine, RingNode)
        uid = machine.peer.uid
        self._parts[uid] = machine.parts
        machine.parts.chords.shortcut = AskChords(self.answers, uid)
        super().add(_Watched(self, machine))

    def crash(self, uid: str, mode: CrashMode) -> None:
        """End a broker without a word of its own."""
        self._disturb(uid)
        super().crash(uid, mode)
        self.answers.look(uid)

    def cut(self, uid: str, other: str, mode: Cut = Cut.SILENT, *, one_way: bool = False) -> None:
        """Let nothing pass between two hosts until :meth:`mend`; see :meth:`World.cut`."""
        self._disturb(uid)
        self._disturb(other)
        super().cut(uid, other, mode, one_way=one_way)

    def silence(self, uid: str, other: str) -> None:
        """Lose all that is sent from now on over the wire between two hosts, if there is one."""
        self._disturb(uid)
        self._disturb(other)
        super().silence(uid, other)

    def pause(self, uid: str) -> None:
        """Stop a process; what comes in waits."""
        self._disturb(uid)
        super().pause(uid)
        self.answers.look(uid)

    def resume(self, uid: str) -> None:
        """Let a stopped process go on."""
        super().resume(uid)
        self.answers.look(uid)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count ``rate`` seconds in each second from now on."""
        self._disturb(uid)
        super().skew(uid, rate)
        self.answers.look(uid)

    def count(self) -> None:
        """Let :attr:`on_sent` hear of what is left out, too, from now on."""
        self.catch_up_all()
        self._on_left_out = self.answers.on_left_out = lambda uid, sent: self.on_sent(uid, sent)

    def catch_up_all(self) -> None:
        """Make up for all that was left out so far."""
        for flow in self._out.values():
            self._advance(flow, self.now)

    # ── heartbeats ────────────────────────────────────────────────────────────────────────────

    def catch_up(self, uid: str, *, by_timer: bool = False) -> None:
        """Make up for the heartbeats that a broker has sent and heard up to now.

        ``by_timer``: another of its timers has come up. If a heartbeat is due at the same moment,
        the broker is to do both, in their order.
        """
        flow = self._out.get(uid)
        if flow is not None:
            self._advance(flow, self.now - by_timer)
            if flow.beats.due <= self.now:
                self._end(flow)
        flow = self._in.get(uid)
        if flow is not None:
            self._advance(flow, self.now)

    def look(self, uid: str) -> None:
        """Something has happened at a broker: see whether its links are calm."""
        self.answers.look(uid)
        for flows in (self._out, self._in):
            flow = flows.get(uid)
            if flow is not None and not self._is_calm(flow):
                self._end(flow)

    def begin(self, sender: str) -> None:
        """A broker may have sent a heartbeat: from now on leave them out, if its link is calm."""
        here, parts = self.hosts[sender], self._parts[sender]
        if sender in self._out or not is_undisturbed(here):
            return
        beats = CalmBeats.begin(parts, self.now)
        if beats is None or beats.monitor in self._in:
            return
        monitor = beats.monitor
        wire, there = here.wires.get(monitor), self.hosts[monitor]
        if wire is None:
            return
        watch = CalmWatch(self._parts[monitor], sender)
        flow = _Flow(beats, watch, (here, there), wire, self._latency.way(sender, monitor))
        if self._is_calm(flow):
            beats.take_timer()
            watch.take_timer()
            self._out[sender] = self._in[monitor] = flow

    def _is_calm(self, flow: _Flow) -> bool:
        """Say whether nothing but heartbeats is to be expected; note when that ends."""
        (here, there), wire, beats = flow.hosts, flow.wire, flow.beats
        sender, monitor = flow.watch.sender, beats.monitor
        if here.wires.get(monitor) is not wire or there.wires.get(sender) is not wire:
            return False
        if wire.silenced or not is_undisturbed(here) or not is_undisturbed(there):
            return False
        version = self._parts[sender].hood.version
        if not beats.is_calm(self.now) or not flow.watch.is_calm(version, self.now):
            return False
        flow.version = version
        until = beats.until
        if until is not None and (flow.alarm is None or until < flow.alarm):
            flow.alarm = until
            self.at(until, self._on_alarm, flow)
        return True

    def _on_alarm(self, flow: _Flow) -> None:
        if self._out.get(flow.watch.sender) is not flow:
            return
        flow.alarm = None
        self._advance(flow, self.now - 1)
        if not self._is_calm(flow):
            self._end(flow)

    def _advance(self, flow: _Flow, now: Nanos) -> None:
        beats, under_way = flow.beats, flow.under_way
        if beats.due <= now:
            times = beats.sent(now)
            if times:
                sender, last = flow.watch.sender, flow.wire.last
                under_way += flow.way.arrivals(times, last.get(sender, 0))
                last[sender] = under_way[-1]
                if self._on_left_out is not None:
                    beat = Send(beats.monitor, Heartbeat(flow.version))
                    for _ in times:
                        self._on_left_out(sender, beat)
        if not under_way or under_way[-1] <= now:
            flow.watch.heard(under_way, now)
            under_way.clear()
        else:
            flow.watch.heard([at for at in under_way if at <= now], now)
            flow.under_way = [at for at in under_way if at > now]

    def _disturb(self, uid: str) -> None:
        for flows in (self._out, self._in):
            flow = flows.get(uid)
            if flow is not None:
                self._advance(flow, self.now)
                self._end(flow)

    def _end(self, flow: _Flow) -> None:
        """From now on each heartbeat is simulated; those under way arrive as messages."""
        sender, monitor = flow.watch.sender, flow.beats.monitor
        del self._out[sender], self._in[monitor]
        flow.beats.end()
        flow.watch.end()
        beat = Heartbeat(flow.version)
        for at in flow.under_way:
            args = (sender, monitor, flow.wire, beat)
            heappush(self._heap, (at, self._next_number(), self._arrive, args))
        for uid, host in zip((sender, monitor), flow.hosts, strict=True):
            if host.alive:
                self._perform(uid, host, [])

    # ── pings ─────────────────────────────────────────────────────────────────────────────────

    def _carry(self, uid: str, effect: Send, wire: Pipe) -> None:
        message = effect.message
        if isinstance(message, Ping) and effect.about is None:
            is_answered = self.answers.is_answered(uid, effect.uid, message.token, wire)
        else:
            is_answered = False
        if not is_answered:
            super()._carry(uid, effect, wire)
