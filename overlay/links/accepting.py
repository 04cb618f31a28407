"""Taking calls: a stranger has little time and little memory to show that it is one of ours."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

import trio

from overlay.address import site_of
from overlay.errors import NoTlsError, ProtocolError, UntrustedError
from overlay.ids import Nanos, Peer, uid_of
from overlay.limits import Limits
from overlay.links.counted_log import CountedLog
from overlay.links.doorkeeper import Doorkeeper, of_links
from overlay.links.first_message import read_greeting
from overlay.links.heap_trim import HeapTrim
from overlay.links.lifecycle import Links
from overlay.links.link import Greeted, Upper
from overlay.machine import Closed, Machine, Refused
from overlay.net.connection import BROKEN
from overlay.net.transport import Transport, Wire, close, remote_host
from overlay.security.identity import PeerIdentity, Role
from overlay.shares import NOWHERE, Shares, Source, source_of
from overlay.wire.codec import FrameReader
from overlay.wire.frames import MAX_CONTROL_BYTES
from overlay.wire.greetings import GREETINGS, Hello, LinkTable, Refusal, Welcome, judge_hello
from overlay.wire.versions import Agreement, Dialect
from overlay.wording import counted

EVICTED_AT_ONCE = 16  #: strangers dropped when the process can open no more files

UNPROVEN = (
    "nothing proves that the client's uid is its own; update its library to this broker's version, "
    "or attach over chordals:// with an identity"
)

#: Refusals of daily work, which say nothing about who calls: counted, and not logged.
_ORDINARY = frozenset({Refused.DUPLICATE, Refused.SELF, Refused.LEAVING, Refused.DAMPED})


class Acceptor:
    """Judges who calls, and hands brokers to the links and clients to the layer above."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        table: LinkTable,
        links: Links,
        upper: Upper,
        *,
        overlay: str,
        name: str,
        dialect: Dialect,
        limits: Limits,
        counted_log: CountedLog,
        now: Callable[[], Nanos],
        is_severed: Callable[[str | None], bool] = lambda uid: False,
    ) -> None:
        self._machine = machine
        self._transport = transport
        self._table = table
        self._links = links
        self._upper = upper
        self._overlay = overlay
        self._name = name
        self._dialect = dialect
        self._limits = limits
        self._counted_log = counted_log
        self._now = now
        self._is_severed = is_severed
        self._doorkeeper = Doorkeeper(limits)
        self._link_rate = Doorkeeper(limits, of_links)
        self._strangers: dict[trio.CancelScope, str | None] = {}  #: their sites, oldest first
        self._by_site: Counter[str | None] = Counter()
        self._connections = 0
        self.beside = 0  #: connections that came by another door of this process; they count, too
        self.heap_trim = HeapTrim()

    @property
    def strangers(self) -> int:
        """Connections that have not greeted yet."""
        return len(self._strangers)

    @property
    def has_room(self) -> bool:
        """One more connection may be served."""
        return self._connections + self.beside < self._limits.connections

    async def accept(self, stream: trio.abc.Stream) -> None:
        """Serve one incoming connection; whatever it does, nobody else notices."""
        host = remote_host(stream)
        if not self.has_room:
            self._counted_log.note("connections_turned_away", "too many connections", host=host)
            await trio.aclose_forcefully(stream)
            return
        if host is not None and not self._doorkeeper.admit(host, self._now()):
            self._counted_log.note("connections_too_fast", "too many new connections", host=host)
            await trio.aclose_forcefully(stream)
            return
        reader = FrameReader(MAX_CONTROL_BYTES)
        try:
            greeted = await self._meet(stream, host, reader)
            if greeted is not None:
                await self._serve(*greeted, reader)
        finally:
            self.heap_trim.note_end()

    async def _serve(self, hello: object, wire: Wire, reader: FrameReader) -> None:
        self._connections += 1
        try:
            await self._on_greeting(hello, wire, reader)
        finally:
            self._connections -= 1
            await close(wire.stream)

    def on_no_more_files(self) -> None:
        """The system gives no descriptor for the next connection: make room."""
        self._counted_log.note("accepts_failed", "too many open files; strangers are dropped")
        for scope in list(self._strangers)[:EVICTED_AT_ONCE]:
            self._evict(scope)

    async def _meet(
        self, stream: trio.abc.Stream, host: str | None, reader: FrameReader
    ) -> tuple[object, Wire] | None:
        """Return the first message of a stranger, if one comes in time; else drop it."""
        wire: Wire | None = None
        hello: object = None
        with self._as_stranger(host) as scope:
            try:
                with scope, trio.fail_after(self._limits.handshake_seconds):
                    wire = await self._transport.accept(stream)
                    hello = await read_greeting(wire.stream, reader)
                kind, why = "strangers_evicted", "others came, and this one had waited longest"
            except trio.TooSlowError:
                kind, why = "strangers_too_slow", "no greeting in time"
            except NoTlsError as error:
                kind, why = "strangers_no_tls", str(error)
            except UntrustedError as error:
                kind, why = "strangers_untrusted", str(error)
            except ProtocolError as error:
                kind, why = "strangers_not_chordal", str(error)
            except BROKEN as error:
                kind, why = "strangers_gone", str(error) or type(error).__name__
        if hello is not None and wire is not None:
            return hello, wire
        self._drop(kind, why, host)
        await close(wire.stream if wire is not None else stream)
        return None

    def _drop(self, kind: str, why: str, host: str | None) -> None:
        self._counted_log.count("strangers_dropped")
        if kind == "strangers_gone":
            self._counted_log.count(kind)  # it asked for nothing: a probe of the port, say
        else:
            self._counted_log.note(kind, "stranger dropped", why=why, host=host)

    @contextlib.contextmanager
    def _as_stranger(self, host: str | None) -> Iterator[trio.CancelScope]:
        """Count a stranger; where there are too many, the one that has waited longest goes."""
        site = site_of(host) if host is not None else None
        if self._by_site[site] >= self._limits.strangers_per_host:
            self._evict(next(scope for scope, other in self._strangers.items() if other == site))
        elif len(self._strangers) >= self._limits.strangers:
            self._evict(next(iter(self._strangers)))
        scope = trio.CancelScope()
        self._strangers[scope] = site
        self._by_site[site] += 1
        try:
            yield scope
        finally:
            self._forget(scope)

    def _evict(self, scope: trio.CancelScope) -> None:
        """End a stranger; it counts no more, or the next to come would end the same one again."""
        scope.cancel()
        self._forget(scope)

    def _forget(self, scope: trio.CancelScope) -> None:
        if scope not in self._strangers:
            return  # it was made to go
        site = self._strangers.pop(scope)
        self._by_site[site] -= 1
        if not self._by_site[site]:
            del self._by_site[site]

    async def _on_greeting(self, hello: object, wire: Wire, reader: FrameReader) -> None:
        own = self._machine.peer
        if not isinstance(hello, Hello):
            self._drop("strangers_not_chordal", "no greeting", wire.remote)
            return
        if hello.peer is not None and self._is_severed(hello.uid):
            return  # nobody answers over a cut
        agreed = judge_hello(hello, overlay=self._overlay, own_uid=own.uid, dialect=self._dialect)
        if isinstance(agreed, Refusal):
            await self._refuse(wire, agreed)
            return
        refusal = _judge_identity(hello, wire.identity)
        if refusal is None and hello.peer is not None:
            denied = self._upper.judge_broker(wire)
            if denied is not None:
                await self._refuse(wire, denied, is_noted=True)
                return
            refusal = self._judge_peer(hello, hello.peer, wire)
        if refusal is not None:
            await self._refuse(wire, refusal)
        elif hello.peer is None:
            reader.agree(agreed.version)
            await self._upper.on_client(hello, wire, reader)
        else:
            await self._welcome(hello, wire, reader, agreed)

    async def _welcome(
        self, hello: Hello, wire: Wire, reader: FrameReader, agreed: Agreement
    ) -> None:
        assert hello.peer is not None
        welcome = Welcome(
            self._machine.peer,
            self._table.next_serial(),
            agreed.version,
            self._dialect.names,
            self._name,
        )
        peer, link_class = hello.peer, hello.link_class
        greeted = Greeted(peer, peer.url, link_class, wire, reader, agreed, welcome, hello.name)
        await self._links.run(greeted)

    def _judge_peer(self, hello: Hello, peer: Peer, wire: Wire) -> Refusal | None:
        refused = self._machine.admit(peer)
        if refused is not None:
            return Refusal(refused, "")
        if self._is_blind_duplicate(hello):
            return Refusal(Refused.DUPLICATE, "there is a link already")
        source = source_of(wire.remote, wire.identity.uid if wire.identity is not None else None)
        if source is not NOWHERE and not self._link_rate.admit(source.name, self._now()):
            self._counted_log.note("links_too_fast", "too many new links", of=source.name)
            return Refusal(Refused.BUSY, f"too many new links of {source.name}; try again later")
        if (hello.uid, hello.link_class) not in self._links.up and not self._has_room(source):
            up = self._links.up
            return Refusal(Refused.BUSY, f"this broker has {counted(len(up), 'link')}")
        if not self._table.on_hello(hello.uid, hello.link_class, hello.serial, hello.incarnation):
            return Refusal(Refused.DUPLICATE, "")
        return None

    def _has_room(self, source: Source) -> bool:
        """Say whether there is a slot for one more link, or can be: one that is of less use goes.

        It is one of the same address, or of the address with most.
        """
        limits, up = self._limits, self._links.up
        slots = Shares(limits.links, of_one=limits.links_of_one, reserved=limits.links_reserved)
        for link in up.values():
            slots.take(link.source)
        crowd = slots.crowd(source)
        if crowd is None:
            return True
        needed = self._upper.needed
        spare = [
            (link.has_spoken, link.since_ns, number, key)
            for number, (key, link) in enumerate(up.items())
            if link.source == crowd and link.peer.uid not in needed
        ]
        if not spare:
            return False
        uid, link_class = min(spare)[3]
        self._counted_log.note(
            "links_made_room", "link ended to make room for another", of=crowd.name
        )
        self._links.cut(uid, link_class, Closed.UNWANTED)
        return True

    def _is_blind_duplicate(self, hello: Hello) -> bool:
        """Say whether the caller does not know that it is linked to whom it calls.

        It may have got our address under another name, from its seeds. One that has lost its link
        to us would say whom it expects, or come in another incarnation.
        """
        link = self._links.up.get((hello.uid, hello.link_class))
        return (
            hello.expected is None
            and link is not None
            and link.peer.incarnation == hello.incarnation
        )

    async def _refuse(self, wire: Wire, refusal: Refusal, *, is_noted: bool = False) -> None:
        """Tell the caller; and the log, unless that is noted already or belongs to daily work."""
        kind = f"greetings_refused_{refusal.reason.value}"
        if is_noted or refusal.reason in _ORDINARY:
            self._counted_log.count(kind)
        else:
            why = refusal.detail or refusal.reason.value
            self._counted_log.note(kind, "greeting refused", why=why, host=wire.remote)
        with trio.move_on_after(self._limits.handshake_seconds):
            with contextlib.suppress(*BROKEN):
                await wire.stream.send_all(GREETINGS.encode(refusal))


def _judge_identity(hello: Hello, identity: PeerIdentity | None) -> Refusal | None:
    """Compare what the caller says with what its certificate says."""
    if identity is None:
        if hello.peer is None:
            # Every delivery names the uid of its publisher; whoever could greet by it could use up
            # the numbers of that client's next events.
            is_proven = hello.secret is not None and uid_of(hello.secret) == hello.uid
            return None if is_proven else Refusal(Refused.NOT_AUTHENTICATED, UNPROVEN)
        if hello.link_class.is_secret:
            return Refusal(Refused.NOT_AUTHENTICATED, "a secure link needs TLS")
        return None
    if identity.uid != hello.uid:
        return Refusal(Refused.NOT_AUTHENTICATED, "the certificate names another uid")
    if hello.peer is not None and identity.role is not Role.BROKER:
        return Refusal(Refused.NOT_AUTHENTICATED, "the certificate is not a broker's")
    return None
