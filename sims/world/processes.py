"""Processes and the byte streams between them, in virtual time, as TCP shows them.

* To connect takes one round trip, and one more with TLS. A killed process refuses at once; a
  machine without power, or one that is cut off, does not answer.
* Bytes of one stream arrive in order; those of one turn arrive together. The kernel takes a
  :data:`SOCKET_BYTES` at most that the other end has not read.
* A process that closes, or is killed, has sent what its kernel has been given: the end comes behind
  that.
* Two processes can be cut off from each other (:mod:`sims.world.cuts`). A process that stands still
  reads nothing, and finds all that has come when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.ids import Nanos
from sims.world.bandwidth import Bandwidth
from sims.world.clocks import Clock, SkewedClock
from sims.world.cuts import Cut
from sims.world.network import Latency
from sims.world.timeline import Timeline
from sims.world.world import CrashMode

SOCKET_BYTES = 4 * 1024 * 1024  #: what both kernels hold of one stream


class Queue(Protocol):
    """A connection that has something to send at the end of a turn."""

    def write_now(self) -> None:
        """Hand the kernel what it takes."""


class Process:
    """One process. What it does is a :meth:`step`; what it sends leaves at the end of the step."""

    def __init__(self, network: Network, name: str, url: str) -> None:
        self.network = network
        self.timeline: Clock = network.timeline  #: what it takes for the time
        self.name = name
        self.url = url  #: where it can be called; empty: nowhere
        self.alive = True
        self.paused = False
        self.crash_mode: CrashMode | None = None
        self.sockets: dict[Socket, None] = {}  #: those that are open
        self.sent_bytes = 0  #: handed to the kernel so far
        self.noted: list[Queue] = []  #: connections with something to send
        self._soon: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._armed: Nanos | None = None

    # ── for those who derive from it ──────────────────────────────────────────────────────────

    def accept(self, socket: Socket) -> None:
        """Somebody has connected."""
        socket.close()

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return None

    def expire(self, now: Nanos) -> None:
        """Do what is due by ``now``."""

    # ── steps ─────────────────────────────────────────────────────────────────────────────────

    def step(self, action: Callable[..., None], *args: object) -> None:
        """Do something in this process, if it lives; later, if it stands still."""
        if not self.alive:
            return
        if self.paused:
            self._backlog.append((action, args))
            return
        action(*args)
        self.settle()

    def soon(self, action: Callable[..., None], *args: object) -> None:
        """Do something before this step ends, but not within what is being done now."""
        self._soon.append((action, args))

    def later(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do something in this process at ``time``."""
        self.timeline.at(time, self.step, action, *args)

    def settle(self) -> None:
        """End a step: do what was put off, send what is queued, arm the timer."""
        while self._soon or self.noted:
            if self._soon:
                soon, self._soon = self._soon, []
                for action, args in soon:
                    action(*args)
            else:
                noted, self.noted = self.noted, []
                for connection in noted:
                    connection.write_now()
        self.arm()

    def arm(self) -> None:
        """See to it that :meth:`expire` is called in time."""
        deadline = self.next_deadline()
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._armed = deadline
            self.timeline.at(max(deadline, self.timeline.now), self._on_deadline, deadline)

    def _on_deadline(self, deadline: Nanos) -> None:
        if self.alive and self._armed == deadline and not self.paused:
            if self.timeline.now < deadline:  # its clock has become slower meanwhile
                self.timeline.at(deadline, self._on_deadline, deadline)
                return
            self._armed = None
            self.expire(max(self.timeline.now, deadline))
            self.settle()

    # ── what befalls it ───────────────────────────────────────────────────────────────────────

    def crash(self, mode: CrashMode) -> None:
        """End the process without a word; with ``KILL`` its kernel closes the streams."""
        self.alive, self.crash_mode = False, mode
        self.noted.clear()
        self._soon.clear()
        self._backlog.clear()
        sockets, self.sockets = list(self.sockets), {}
        for socket in sockets:
            if mode is CrashMode.KILL:
                socket.close()
            else:
                socket.is_open = False

    def skew(self, rate: float) -> None:
        """Let its clock count ``rate`` seconds in each second from now on."""
        if not isinstance(self.timeline, SkewedClock):
            self.timeline = SkewedClock(self.timeline)
        self.timeline.run_at(rate)

    def pause(self) -> None:
        """Let it stand still; what comes in waits."""
        self.paused = True

    def resume(self) -> None:
        """Let it go on: it reads what has come, and then looks at the clock."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action, args in backlog:
            if self.alive:
                action(*args)
                self.settle()
        if self.alive and self._armed is not None and self._armed <= self.timeline.now:
            self._on_deadline(self._armed)


class Socket:
    """One end of a stream between two processes."""

    __slots__ = (
        "ended",
        "finished",
        "is_open",
        "is_short",
        "last",
        "late",
        "on_bytes",
        "on_closed",
        "on_room",
        "one_way_us",
        "other",
        "process",
        "secure",
        "silenced",
        "under_way",
        "wants_room",
    )

    def __init__(self, process: Process, *, secure: bool) -> None:
        self.process = process
        self.secure = secure  #: it runs over TLS
        self.other: Socket
        self.is_open = True
        self.ended = False  #: the other end has closed, and this end has heard so
        self.last: Nanos = 0  #: latest arrival at the other end, to keep bytes in order
        self.under_way = 0  #: bytes that the other end has not read
        self.finished = False  #: nothing that is sent from now on leaves
        self.is_short = False  #: what is sent next is cut short
        self.silenced = False  #: what is sent is lost
        self.late: list[bytes | None] | None = None  #: what is sent waits here; None: the end
        self.wants_room = False  #: tell ``on_room`` when there is any
        self.one_way_us = 0  #: microseconds to the other end, as connecting has shown
        self.on_bytes: Callable[[bytes], None] = _ignore
        self.on_closed: Callable[[], None] = _nothing
        self.on_room: Callable[[], None] = _nothing

    @property
    def room(self) -> int:
        """Bytes that the kernel takes now."""
        return SOCKET_BYTES - self.under_way

    def write(self, data: bytes) -> None:
        """Hand the kernel bytes to be sent; nothing comes of it once an end is closed."""
        if self.is_open and not self.ended:
            self.under_way += len(data)
            self.process.sent_bytes += len(data)
            self.process.network.carry(self, data)

    def close(self) -> None:
        """Close this end: the other one hears of it behind all that was sent."""
        if self.is_open:
            self.is_open = False
            self.process.sockets.pop(self, None)
            if not self.ended:
                self.process.network.carry(self, None)


def _ignore(data: bytes) -> None:
    pass


def _nothing() -> None:
    pass


class Network:
    """Brings bytes from one process to another."""

    def __init__(self, timeline: Timeline, latency: Latency) -> None:
        self.timeline = timeline
        self.bytes = 0  #: carried so far
        self.bandwidth: Bandwidth | None = None  #: None: bytes take no time
        self._latency = latency
        self._by_url: dict[str, Process] = {}
        #: (sender, receiver), by name, between whom nothing passes
        self._cuts: dict[tuple[str, str], Cut] = {}
        self._without_tls: set[frozenset[str]] = set()  #: pairs of names: no handshake succeeds

    def add(self, process: Process) -> None:
        """Let a process be called; it takes the place of an earlier one at its URL."""
        self._by_url[process.url] = process

    # ── cuts ──────────────────────────────────────────────────────────────────────────────────

    def cut(self, here: Process, there: Process, mode: Cut, *, one_way: bool = False) -> None:
        """Let nothing pass between two processes until :meth:`mend`; all others reach both.

        ``one_way``: only what ``here`` sends is harmed, but nobody can connect.
        """
        pairs = [(here, there)] if one_way else [(here, there), (there, here)]
        self._cuts.update({(one.name, other.name): mode for one, other in pairs})
        for one, other in pairs:
            for socket in list(one.sockets):
                if socket.other.process is other:
                    _harm(socket, mode)

    def harm(self, here: Process, there: Process, mode: Cut) -> None:
        """Harm the streams that there are between two processes; new ones can be made at once."""
        for socket in list(here.sockets):
            if socket.other.process is there:
                _harm(socket, mode)
                _harm(socket.other, mode)

    def forbid_tls(self, here: Process, there: Process) -> None:
        """Let no TLS handshake between two processes succeed, and end their streams over TLS."""
        self._without_tls.add(frozenset((here.name, there.name)))
        for socket in list(here.sockets):
            if socket.secure and socket.other.process is there:
                _harm(socket, Cut.CLOSED)

    def allow_tls(self, here: Process, there: Process) -> None:
        """End what :meth:`forbid_tls` began."""
        self._without_tls.discard(frozenset((here.name, there.name)))

    def mend(self, here: Process, there: Process) -> None:
        """Let two processes reach each other again; a stream that has lost something stays so."""
        for one, other in ((here, there), (there, here)):
            self._cuts.pop((one.name, other.name), None)
            for socket in list(one.sockets):
                if socket.other.process is other:
                    self.release(socket)

    def release(self, socket: Socket) -> None:
        """Let go what waits on a stream that is late."""
        waiting, socket.late = socket.late, None
        is_finished, socket.finished = socket.finished, False
        for data in waiting or ():  # an end that was to follow them is among them
            self.carry(socket, data)
        socket.finished = is_finished or socket.finished

    def is_cut(self, here: Process, there: Process) -> bool:
        """Say whether no call between the two can succeed."""
        pairs = ((here.name, there.name), (there.name, here.name))
        return any(pair in self._cuts for pair in pairs)

    # ── streams ───────────────────────────────────────────────────────────────────────────────

    def connect(
        self,
        caller: Process,
        url: str,
        *,
        secure: bool,
        on_open: Callable[[Socket], None],
        on_refused: Callable[[], None],
    ) -> None:
        """Connect to the broker at ``url``; neither is called where nobody answers."""
        target = self._by_url.get(url)
        if target is None or self.is_cut(caller, target):
            return
        one_way = self._latency.one_way_ns(caller.name, target.name)
        arrival = self.timeline.now + one_way * (3 if secure else 1)
        self.timeline.at(
            arrival, self._arrive_call, caller, target, secure, one_way, on_open, on_refused
        )

    def _arrive_call(
        self,
        caller: Process,
        target: Process,
        secure: bool,
        one_way: Nanos,
        on_open: Callable[[Socket], None],
        on_refused: Callable[[], None],
    ) -> None:
        back = self.timeline.now + one_way
        if self.is_cut(caller, target) or not caller.alive:
            return
        is_refused = secure and frozenset((caller.name, target.name)) in self._without_tls
        if is_refused or not target.alive:
            if is_refused or target.crash_mode is CrashMode.KILL:
                self.timeline.at(back, caller.step, on_refused)
            return
        near, far = self.pair(caller, target, secure=secure, one_way=one_way)
        far.last = back  # nothing overtakes the answer
        target.step(target.accept, far)
        self.timeline.at(back, caller.step, on_open, near)

    def pair(
        self, here: Process, there: Process, *, secure: bool, one_way: Nanos | None = None
    ) -> tuple[Socket, Socket]:
        """Return the ends of a stream between two processes that there is at once."""
        if one_way is None:
            one_way = self._latency.one_way_ns(here.name, there.name)
        near, far = Socket(here, secure=secure), Socket(there, secure=secure)
        near.other, far.other = far, near
        near.one_way_us = far.one_way_us = one_way // 1000
        here.sockets[near] = there.sockets[far] = None
        return near, far

    def carry(self, socket: Socket, data: bytes | None) -> None:
        """Bring bytes to the other end, or the news that this end is closed."""
        if socket.silenced:
            return
        if socket.late is not None:
            socket.late.append(data)
            return
        if socket.finished:
            return
        if socket.is_short and data:
            socket.is_short = False
            self.carry(socket, data[: len(data) // 2])
            _harm(socket, Cut.CLOSED)
            return
        timeline = self.timeline
        left, here, there = timeline.now, socket.process.name, socket.other.process.name
        way = self._latency.one_way_ns(here, there)
        if self.bandwidth is not None and data:
            left = self.bandwidth.leave(here, there, len(data), left)
        arrival = left + way
        if arrival <= socket.last:
            arrival = socket.last + 1
        socket.last = arrival
        timeline.at(arrival, self._arrive, socket, data)

    def _arrive(self, socket: Socket, data: bytes | None) -> None:
        if socket.silenced:
            return
        other = socket.other
        if other.is_open:
            process = other.process
            if not process.alive:
                return
            if process.paused:
                process.step(self._take, other, data)
            else:
                self._take(other, data)
                process.settle()

    def _take(self, socket: Socket, data: bytes | None) -> None:
        """The process at this end reads."""
        if not socket.is_open or socket.ended:
            return
        if data is None:
            socket.ended = True
            socket.on_closed()
            return
        sender = socket.other
        sender.under_way -= len(data)
        self.bytes += len(data)
        socket.on_bytes(data)
        if sender.wants_room and sender.is_open:
            sender.wants_room = False
            sender.process.step(sender.on_room)


def _harm(socket: Socket, mode: Cut) -> None:
    if mode is Cut.SILENT:
        socket.silenced = True
    elif mode is Cut.LATE:
        socket.late = socket.late or []
    elif mode is Cut.CLOSED:
        network = socket.process.network
        for end in (socket, socket.other):
            network.carry(end, None)
            end.finished = True
    elif mode is Cut.SHORT:
        socket.is_short = True
    else:
        for end in (socket, socket.other):
            if end.is_open:
                process = end.process
                timeline = process.network.timeline
                timeline.at(timeline.now, process.step, _break, end)
            end.silenced = True


def _break(socket: Socket) -> None:
    if socket.is_open and not socket.ended:
        socket.ended = True
        socket.on_closed()
