"""How a client finds a broker, on trio: it calls those it knows in turn, and greets them.

Whom to call next, how long to pause and what to say is decided in :mod:`ges.client.tries`, what is
said to a broker in :mod:`ges.client.greeting`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack

import trio

from ges.access.token_proof import NONCE_BYTES
from ges.client.certified import reread
from ges.client.greeting import Greeting
from ges.client.tries import ATTACH_SECONDS, NOTHING, TELL_SECONDS, Tries
from ges.client.wish import Wish
from ges.errors import ConnectionLost
from ges.wire.client_messages import Attached
from overlay.address import Address
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.net.call_failures import is_cut
from overlay.net.connection import BROKEN
from overlay.net.transport import ProcessTransport, Wire, close
from overlay.wire.codec import FrameReader

Found = tuple[Address, Wire, FrameReader, Attached]


class BrokerSearch:
    """Looks for a broker that takes us."""

    def __init__(self, wish: Wish, transport: ProcessTransport, rng: random.Random) -> None:
        self.wish = wish
        self._transport = transport
        self._rng = rng

    async def find(
        self,
        choices: Callable[[], Iterable[Address]],
        unusable: Mapping[str, str] = NOTHING,
        *,
        is_first: bool = False,
    ) -> Found:
        """Try the brokers known, again and again, until one takes us.

        The arguments are explained in :class:`ges.client.tries.Tries`.

        Raises:
            ConnectionLost: none did in time, or none ever will.
        """
        tries = Tries(choices, self._rng, unusable, is_first=is_first)
        found: Found | None = None
        problem: ConnectionLost | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell, tries)
                try:
                    found = await self._try(tries)
                except ConnectionLost as error:  # carried out of the nursery, which would wrap it
                    problem = error
                nursery.cancel_scope.cancel()
        except BaseException:  # who called us was cancelled just as a broker had taken us
            if found is not None:
                await close(found[1].stream)
            raise
        if problem is not None:
            raise problem
        if found is None:
            raise tries.in_vain()
        return found

    async def _tell(self, tries: Tries) -> None:
        """Say for whom we wait, if we do not find anybody at once."""
        await trio.sleep(TELL_SECONDS)
        self.wish.on_waiting(tries.waiting(self.wish.timeout))

    async def _try(self, tries: Tries) -> Found | None:
        """Return who takes us; None: nobody in time, or ever."""
        with trio.move_on_after(self.wish.timeout):
            while True:
                for address in tries.begin_round():
                    try:
                        with trio.fail_after(ATTACH_SECONDS):
                            return await self._greet(address)
                    except trio.TooSlowError:
                        tries.timed_out(address)
                    except (ConnectionFailed, ProtocolError) as error:
                        tries.failed(address, error)
                    except BROKEN as error:
                        tries.failed(address, error, was_cut=is_cut(error))
                pause = tries.pause()
                if pause is None:
                    return None
                await trio.sleep(pause)
        return None

    async def _greet(self, address: Address) -> Found:
        if self._transport.credentials is not None:
            reread(self._transport.credentials)
        async with AsyncExitStack() as stack:
            wire = await self._transport.connect(address)
            stack.push_async_callback(close, wire.stream)
            certified = wire.identity.uid if wire.identity is not None else None
            greeting = Greeting(
                self.wish,
                address,
                certified=certified,
                is_exposed=wire.is_exposed,
                nonce=secrets.token_bytes(NONCE_BYTES),
            )
            answer = None
            while answer is None:
                if data := greeting.take_bytes():
                    await wire.stream.send_all(data)
                answer = greeting.take(await wire.stream.receive_some(4096))
            stack.pop_all()
            return address, wire, greeting.reader, answer
