"""Calling other brokers: from the wish for a link to the link, or to why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from overlay.address import Address, is_own_url, parse_url
from overlay.errors import ConfigError, ConnectionFailed, ProtocolError
from overlay.links.counted_log import CountedLog
from overlay.links.first_message import read_greeting
from overlay.links.lifecycle import Links
from overlay.links.link import Greeted
from overlay.machine import Input, LinkRefused, Machine, OpenLink, Refused
from overlay.net.call_failures import is_cut
from overlay.net.connection import BROKEN
from overlay.net.transport import Transport, Wire, close
from overlay.wire.codec import FrameReader
from overlay.wire.frames import MAX_CONTROL_BYTES
from overlay.wire.greetings import GREETINGS, NO_URL, Hello, LinkTable, Refusal, Welcome
from overlay.wire.versions import Dialect

CONNECT_SECONDS = 2.0
SEVERED = "cut off on purpose"
PAUSES_SECONDS = (0.02, 0.04)  #: until a call is tried again that was cut before the answer


@dataclass(frozen=True, slots=True)
class _Call:
    request: OpenLink
    number: int | None  #: by the table; None where the request does not say whom to expect


class Caller:
    """Makes the links that a machine asks for."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        table: LinkTable,
        links: Links,
        *,
        overlay: str,
        name: str,
        dialect: Dialect,
        certified_only: bool,
        counted_log: CountedLog,
        give: Callable[[Input], None],
        is_severed: Callable[[str | None], bool] = lambda uid: False,
    ) -> None:
        self._machine = machine
        self._transport = transport
        self._table = table
        self._links = links
        self._overlay = overlay
        self._name = name
        self._dialect = dialect
        self._certified_only = certified_only
        self._counted_log = counted_log
        self._give = give
        self._is_severed = is_severed

    async def call(self, request: OpenLink) -> None:
        """Try to make a link; the machine is told how it went."""
        link_class = request.link_class
        uid, number = request.uid, None
        if uid is not None:
            number = self._table.call(uid, link_class, replace=request.replace)
            if number is None:
                self._refuse(request, Refused.DUPLICATE, "")
                return
        call = _Call(request, number)
        if self._is_severed(uid):
            self._fail(call, Refused.UNREACHABLE, SEVERED)
            return
        try:
            with trio.fail_after(CONNECT_SECONDS):
                wire, answer, reader = await self._reach(call)
        except trio.TooSlowError:
            self._fail(call, self._unless_called(call, Refused.TIMEOUT), "no answer in time")
            return
        except (ConnectionFailed, ConfigError) as error:
            detail = error.reason if isinstance(error, ConnectionFailed) else str(error)
            if isinstance(error, ConnectionFailed) and error.is_final:
                self._counted_log.note("links_no_tls", "no link", to=request.url, why=detail)
            self._fail(call, self._unless_called(call, Refused.UNREACHABLE), detail)
            return
        except ProtocolError as error:
            self._fail(call, Refused.NOT_CHORDAL, str(error))
            return
        await self._on_answer(call, wire, answer, reader)

    async def _reach(self, call: _Call) -> tuple[Wire, Welcome | Refusal, FrameReader]:
        """Connect and greet; again, twice at most, where the connection breaks before the answer.

        Where a process is gone the connection is refused. One that is cut later says little: when
        all links break at one moment, so do the calls that have just begun, and their ends live.

        Raises:
            ConnectionFailed: nobody is there, or it was cut each time.
            ConfigError: the address is none.
            ProtocolError: what answers is not ours.
        """
        request = call.request
        address = parse_url(request.url)
        if self._certified_only or request.link_class.is_secret:
            address = Address(address.host, address.port, tls=True)
        for pause in PAUSES_SECONDS:
            try:
                return await self._try(address, request)
            except ConnectionFailed as error:
                if not error.was_cut:
                    raise
                await trio.sleep(pause)
                if not self._is_calling(call):
                    raise
        return await self._try(address, request)

    def _is_calling(self, call: _Call) -> bool:
        """Say whether the other end has not called us meanwhile."""
        uid = call.request.uid
        return uid is None or self._table.is_calling(uid, call.request.link_class, call.number)

    def _unless_called(self, call: _Call, reason: Refused) -> Refused:
        """Return why there is no link by this call; a broker that has called us can be reached."""
        return reason if self._is_calling(call) else Refused.DUPLICATE

    async def _try(
        self, address: Address, request: OpenLink
    ) -> tuple[Wire, Welcome | Refusal, FrameReader]:
        # Numbered now, not when it is sent: by then we may have welcomed the other end's call, and
        # a greeting that is numbered after that would say that we have lost the link again.
        serial = self._table.next_serial()
        wire = await self._transport.connect(address)
        try:
            return wire, *await self._greet(wire, request, serial)
        except BROKEN as error:
            await close(wire.stream)
            reason = str(error) or "connection lost"
            raise ConnectionFailed(request.url, reason, was_cut=is_cut(error)) from error
        except BaseException:  # a time-out, too: trio's cancellation is no Exception
            await close(wire.stream)
            raise

    async def _greet(
        self, wire: Wire, request: OpenLink, serial: int
    ) -> tuple[Welcome | Refusal, FrameReader]:
        peer = self._machine.peer
        hello = Hello(
            self._overlay,
            self._dialect.highest,
            peer.uid,
            peer.incarnation,
            peer,
            request.link_class,
            request.uid,
            serial,
            self._dialect.lowest,
            self._dialect.names,
            name=self._name,
        )
        await wire.stream.send_all(GREETINGS.encode(hello))
        reader = FrameReader(MAX_CONTROL_BYTES)
        answer = await read_greeting(wire.stream, reader)
        if not isinstance(answer, Welcome | Refusal):
            raise ProtocolError(f"{type(answer).__name__} is no answer to a greeting")
        return answer, reader

    async def _on_answer(
        self,
        call: _Call,
        wire: Wire,
        answer: Welcome | Refusal,
        reader: FrameReader,
    ) -> None:
        request = call.request
        link_class = request.link_class
        problem: tuple[Refused, str] | None = None
        agreed = None
        if isinstance(answer, Refusal):
            problem = (answer.reason, answer.detail)
        elif (agreed := self._dialect.accept(answer.version, answer.capabilities)) is None:
            problem = (Refused.OTHER_VERSION, f"it wants to speak version {answer.version}")
        elif not is_own_url(answer.peer.url):
            problem = (Refused.NOT_CHORDAL, NO_URL)
        elif self._is_severed(answer.peer.uid):
            problem = (Refused.UNREACHABLE, SEVERED)
        elif wire.identity is not None and wire.identity.uid != answer.peer.uid:
            problem = (Refused.NOT_AUTHENTICATED, "the certificate names another uid")
        elif request.uid not in (None, answer.peer.uid):
            problem = (Refused.OTHER_PEER, "another broker listens there now")
        else:
            refused = self._machine.admit(answer.peer)
            if refused is not None:
                problem = (refused, "")
            elif not self._table.on_welcome(
                answer.peer.uid,
                link_class,
                answer.serial,
                answer.peer.incarnation,
                call=call.number,
            ):
                problem = (Refused.DUPLICATE, "")
        if problem is not None:
            self._fail(call, *problem)
            if agreed is not None and problem[0] is Refused.DUPLICATE:
                await self._links.decline(wire, agreed.version)
            await close(wire.stream)
            return
        assert isinstance(answer, Welcome)
        assert agreed is not None
        greeted = Greeted(
            answer.peer, request.url, link_class, wire, reader, agreed, name=answer.name
        )
        await self._links.run(greeted)

    def _fail(self, call: _Call, reason: Refused, detail: str) -> None:
        request, number = call.request, call.number
        if request.uid is not None and number is not None:
            self._table.call_ended(request.uid, request.link_class, number)
            if not self._table.is_calling(request.uid, request.link_class):
                self._links.stay(request.uid, request.link_class)
        self._refuse(request, reason, detail)

    def _refuse(self, request: OpenLink, reason: Refused, detail: str) -> None:
        self._give(LinkRefused(request.url, request.uid, reason, detail, request.link_class))
