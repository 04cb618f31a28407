"""A world of brokers in virtual time: the second driver of the machines, beside trio's.

Future steps are in a :class:`~sims.world.timeline.Timeline`, so that the same seed gives the same
run in any process. Connections are modelled as TCP is for the machines in production:

* making a link takes two round trips, and both ends ask their machine whether it admits the other;
* a call between two that are linked is refused, unless it is to replace that very link;
* messages on a link arrive in order, and after what was sent before a close;
* a killed process closes its sockets at once; a machine without power says nothing, and attempts
  to reach it time out; a stopped process accepts but does not answer until it is resumed;
* a pair of hosts can be cut off from each other, one way or both: see :meth:`World.cut`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from heapq import heappush

from overlay.ids import Nanos, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Fact,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Machine,
    Message,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
)
from sims.world.bandwidth import Bandwidth
from sims.world.clocks import SkewedClock
from sims.world.cuts import Cut
from sims.world.network import Latency
from sims.world.timeline import Timeline

CONNECT_TIMEOUT_NS = nanos(2.0)


class CrashMode(StrEnum):
    """How a broker dies."""

    KILL = "kill"  #: the process is killed: its machine closes the sockets
    POWER = "power"  #: the machine is gone: silence


class Host:
    """One broker in the world."""

    __slots__ = ("alive", "armed", "backlog", "clock", "crash_mode", "machine", "paused", "wires")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.alive = True
        self.paused = False
        self.crash_mode: CrashMode | None = None
        self.armed: Nanos | None = None  #: by its own clock
        self.clock: SkewedClock | None = None  #: None: it shows the true time
        self.wires: dict[str, Pipe] = {}
        self.backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []


class Pipe:
    """One link; ``last`` is the latest arrival by sender, to keep messages in order.

    Messages of the ``silenced`` senders are lost, for as long as the wire exists: messages on one
    link arrive in order or not at all, so one that has lost some cannot go on.
    """

    __slots__ = ("last", "silenced")

    def __init__(self) -> None:
        self.last: dict[str, Nanos] = {}
        self.silenced: set[str] = set()


class World(Timeline):
    """Runs many machines. ``on_fact`` and ``on_sent`` are told what they say and send.

    They send a message on a link that there is, or an attempt to make one.
    """

    def __init__(self, latency: Latency) -> None:
        super().__init__()
        self.hosts: dict[str, Host] = {}
        self.on_fact: Callable[[str, Fact], None] = lambda uid, fact: None
        self.on_sent: Callable[[str, Send | OpenLink], None] = lambda uid, effect: None
        self._latency = latency
        self._by_url: dict[str, str] = {}
        self._cuts: set[tuple[str, str]] = set()  #: (sender, receiver) between whom nothing passes
        self.bandwidth: Bandwidth | None = None  #: None: bytes take no time
        self.size_of: Callable[[Message], int] = lambda message: 0  #: bytes of its frame
        self.left_out: frozenset[type[Message]] = frozenset()  #: such messages are not carried
        #: By a partition: sims.world.partitions.
        self.apart: Callable[[str, str], bool] | None = None

    # ── what an experiment does ───────────────────────────────────────────────────────────────

    def add(self, machine: Machine) -> None:
        """Put a broker into the world, or a new one in the place of a dead one."""
        self.hosts[machine.peer.uid] = Host(machine)
        self._by_url[machine.peer.url] = machine.peer.uid

    def give(self, uid: str, event: Input) -> None:
        """Hand an input to a broker now."""
        host = self.hosts[uid]
        if host.alive:
            self._perform(uid, host, host.machine.handle(event, self._time_of(host)))

    def link(self, uid: str, other: str) -> None:
        """Let there be a link between two brokers, without a call; none where they are cut off."""
        if self.is_cut(uid, other):
            return
        wire = Pipe()
        ends = [(self.hosts[uid], self.hosts[other]), (self.hosts[other], self.hosts[uid])]
        for here, there in ends:
            here.wires[there.machine.peer.uid] = wire
        for here, there in ends:
            peer = there.machine.peer
            self.give(here.machine.peer.uid, LinkUp(peer, peer.url))

    def crash(self, uid: str, mode: CrashMode) -> None:
        """End a broker without a word of its own."""
        host = self.hosts[uid]
        host.alive, host.crash_mode = False, mode
        if mode is CrashMode.KILL:
            for other, wire in host.wires.items():
                self._later(uid, other, wire, self._arrive_down, Closed.LOST)
        host.wires.clear()
        host.backlog.clear()

    def cut(self, uid: str, other: str, mode: Cut = Cut.SILENT, *, one_way: bool = False) -> None:
        """Let nothing pass between two hosts until :meth:`mend`; all others reach both.

        No new link can be made, and ``mode`` says what becomes of the one there is. ``one_way``:
        only what ``uid`` sends is lost, but a call needs both ways.
        """
        pairs = [(uid, other)] if one_way else [(uid, other), (other, uid)]
        self._cuts.update(pairs)
        here, there = self.hosts.get(uid), self.hosts.get(other)
        if here is None or there is None:
            return
        wire = here.wires.get(other)
        if wire is None or there.wires.get(uid) is not wire:
            return
        if mode is Cut.BROKEN:
            self._later(uid, other, wire, self._arrive_down, Closed.LOST)
            self._later(other, uid, wire, self._arrive_down, Closed.LOST)
        else:
            wire.silenced.update(sender for sender, _ in pairs)

    def mend(self, uid: str, other: str) -> None:
        """Let two hosts reach each other again; a wire that went silent stays so."""
        self._cuts -= {(uid, other), (other, uid)}

    def is_cut(self, uid: str, other: str) -> bool:
        """Say whether no call between the two can succeed."""
        if self.apart is not None and self.apart(uid, other):
            return True
        return (uid, other) in self._cuts or (other, uid) in self._cuts

    def silence(self, uid: str, other: str) -> None:
        """Lose all that is sent from now on over the wire between two hosts, if there is one."""
        wire = self.hosts[uid].wires.get(other)
        if wire is not None and self.hosts[other].wires.get(uid) is wire:
            wire.silenced.update((uid, other))

    def reset(self, uid: str, other: str) -> None:
        """Let both ends of a wire that went silent find out that it is broken."""
        for here, there in ((uid, other), (other, uid)):
            wire = self.hosts[here].wires.get(there)
            if wire is not None and wire.silenced:
                self.at(self.now, self._lose, here, there, wire)

    def pause(self, uid: str) -> None:
        """Stop a process; what comes in waits."""
        self.hosts[uid].paused = True

    def resume(self, uid: str) -> None:
        """Let a stopped process go on."""
        host = self.hosts[uid]
        host.paused = False
        backlog, host.backlog = host.backlog, []
        for action, args in backlog:
            action(*args)
        if host.armed is not None and host.armed <= self._time_of(host):
            self._run_timers(uid, host, host.armed)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count ``rate`` seconds in each second from now on."""
        host = self.hosts[uid]
        if host.clock is None:
            host.clock = SkewedClock(self)
        host.clock.run_at(rate)

    @property
    def alive(self) -> list[str]:
        """Uids of the brokers that live, in the order they came."""
        return [uid for uid, host in self.hosts.items() if host.alive]

    # ── performing effects ────────────────────────────────────────────────────────────────────

    def _perform(self, uid: str, host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                wire = host.wires.get(effect.uid)
                if wire is not None and type(effect.message) not in self.left_out:
                    self.on_sent(uid, effect)
                    self._carry(uid, effect, wire)
            elif isinstance(effect, OpenLink):
                self.on_sent(uid, effect)
                self._connect(uid, effect)
            elif isinstance(effect, CloseLink):
                wire = host.wires.pop(effect.uid, None)
                if wire is not None:
                    self._later(uid, effect.uid, wire, self._arrive_down, effect.reason)
            elif isinstance(effect, Notify):
                self.on_fact(uid, effect.fact)
        deadline = host.machine.next_deadline()
        if deadline is not None and (host.armed is None or deadline < host.armed):
            host.armed = deadline
            clock = host.clock
            due = max(deadline, self.now) if clock is None else clock.true_time(deadline)
            self.at(due, self._on_deadline, uid, host, deadline)

    def _carry(self, uid: str, effect: Send, wire: Pipe) -> None:
        self._later(uid, effect.uid, wire, self._arrive, effect.message)

    def _time_of(self, host: Host) -> Nanos:
        clock = host.clock
        return self.now if clock is None else clock.now

    def _on_deadline(self, uid: str, host: Host, deadline: Nanos) -> None:
        if host.alive and host.armed == deadline and not host.paused:
            clock = host.clock
            if clock is not None and clock.now < deadline:  # it has become slower meanwhile
                clock.at(deadline, self._on_deadline, uid, host, deadline)
            else:
                self._run_timers(uid, host, deadline)

    def _run_timers(self, uid: str, host: Host, deadline: Nanos) -> None:
        host.armed = None
        self._perform(uid, host, host.machine.handle_timers(max(self._time_of(host), deadline)))

    def _later(
        self, sender: str, receiver: str, wire: Pipe, action: Callable[..., None], what: object
    ) -> None:
        if sender in wire.silenced:
            return
        left = self.now
        if self.bandwidth is not None and isinstance(what, Message):
            left = self.bandwidth.leave(sender, receiver, self.size_of(what), left)
        arrival = left + self._latency.one_way_ns(sender, receiver)
        last = wire.last.get(sender, 0)
        if arrival <= last:
            arrival = last + 1
        wire.last[sender] = arrival
        heappush(self._heap, (arrival, self._next_number(), action, (sender, receiver, wire, what)))

    def _arrive(self, sender: str, receiver: str, wire: Pipe, message: Message) -> None:
        host = self.hosts[receiver]
        if host.wires.get(sender) is not wire or sender in wire.silenced:
            return
        if host.paused:
            host.backlog.append((self._arrive, (sender, receiver, wire, message)))
            return
        effects = host.machine.handle(MessageReceived(sender, message), self._time_of(host))
        self._perform(receiver, host, effects)

    def _arrive_down(self, sender: str, receiver: str, wire: Pipe, reason: Closed) -> None:
        host = self.hosts[receiver]
        if host.wires.get(sender) is not wire or sender in wire.silenced:
            return
        if host.paused:
            host.backlog.append((self._arrive_down, (sender, receiver, wire, reason)))
            return
        del host.wires[sender]
        self._perform(
            receiver, host, host.machine.handle(LinkDown(sender, reason), self._time_of(host))
        )

    def _lose(self, uid: str, other: str, wire: Pipe) -> None:
        host = self.hosts[uid]
        if host.wires.get(other) is not wire:
            return
        if host.paused:
            host.backlog.append((self._lose, (uid, other, wire)))
            return
        del host.wires[other]
        self._perform(
            uid, host, host.machine.handle(LinkDown(other, Closed.LOST), self._time_of(host))
        )

    # ── making links ──────────────────────────────────────────────────────────────────────────

    def _connect(self, uid: str, request: OpenLink) -> None:
        target = self._by_url.get(request.url)
        if target is None:
            self._refuse(uid, request, Refused.UNREACHABLE, CONNECT_TIMEOUT_NS)
            return
        one_way = self._latency.one_way_ns(uid, target)
        host = self.hosts[target]
        if host.crash_mode is CrashMode.KILL and not self.is_cut(uid, target):
            self._refuse(uid, request, Refused.UNREACHABLE, 2 * one_way)
        elif not host.alive or host.paused or self.is_cut(uid, target):
            self._refuse(uid, request, Refused.TIMEOUT, CONNECT_TIMEOUT_NS)
        else:
            replaced = self.hosts[uid].wires.get(target) if request.replace else None
            arrival = self.now + 3 * one_way
            self.at(arrival, self._hello, uid, target, request, one_way, replaced)

    def _refuse(self, uid: str, request: OpenLink, reason: Refused, after: Nanos) -> None:
        answer = LinkRefused(request.url, request.uid, reason)
        self.at(self.now + after, self._tell, uid, self.hosts[uid], answer)

    def _tell(self, uid: str, host: Host, event: Input) -> None:
        if host is not self.hosts[uid] or not host.alive:
            return
        if host.paused:
            host.backlog.append((self._tell, (uid, host, event)))
        else:
            self._perform(uid, host, host.machine.handle(event, self._time_of(host)))

    def _hello(
        self, uid: str, target: str, request: OpenLink, one_way: Nanos, replaced: Pipe | None
    ) -> None:
        """The initiator's greeting arrives: the acceptor decides.

        ``replaced`` may go for the new link; one that was made since the call began may not.
        """
        here, there = self.hosts[uid], self.hosts[target]
        if not here.alive:
            return
        if not there.alive or there.paused or self.is_cut(uid, target):
            self._refuse(uid, request, Refused.TIMEOUT, CONNECT_TIMEOUT_NS)
            return
        if request.uid not in (None, target):
            self._refuse(uid, request, Refused.OTHER_PEER, one_way)
            return
        refused = there.machine.admit(here.machine.peer)
        wire = there.wires.get(uid)
        is_linked = wire is not None and here.wires.get(target) is wire
        if refused is None and is_linked and wire is not replaced:
            refused = Refused.DUPLICATE
        if refused is not None:
            self._refuse(uid, request, refused, one_way)
            return
        wire = there.wires[uid] = Pipe()
        here.wires[target] = wire  # so that a crossing attempt is seen to be a duplicate
        peer = here.machine.peer
        effects = there.machine.handle(LinkUp(peer, peer.url), self._time_of(there))
        wire.last[target] = self.now + one_way  # nothing overtakes the welcome
        self._perform(target, there, effects)
        self.at(self.now + one_way, self._welcome, uid, here, target, wire, request)

    def _welcome(self, uid: str, here: Host, target: str, wire: Pipe, request: OpenLink) -> None:
        """The acceptor's answer arrives: the initiator has its link, if it still wants it."""
        if not here.alive or here.wires.get(target) is not wire:
            return
        if here.paused:
            here.backlog.append((self._welcome, (uid, here, target, wire, request)))
            return
        if wire.silenced:
            del here.wires[target]
            self._refuse(uid, request, Refused.TIMEOUT, CONNECT_TIMEOUT_NS)
            return
        peer = self.hosts[target].machine.peer
        refused = here.machine.admit(peer)
        if refused is not None:
            del here.wires[target]
            dead = refused is Refused.DECLARED_DEAD
            reason = Closed.DECLARED_DEAD if dead else Closed.LOST
            self._later(uid, target, wire, self._arrive_down, reason)
            self._refuse(uid, request, Refused.UNREACHABLE, 0)
            return
        self._perform(
            uid, here, here.machine.handle(LinkUp(peer, request.url), self._time_of(here))
        )
