"""How a client finds a broker, under asyncio: it calls those it knows in turn, and greets them.

Whom to call next, how long to pause and what to say is decided in :mod:`ges.client.tries`, what is
said to a broker in :mod:`ges.client.greeting`.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Callable, Iterable, Mapping

from ges.access.token_proof import NONCE_BYTES
from ges.client.aio.calling import call
from ges.client.aio.connection import Connection
from ges.client.aio.races import first_of
from ges.client.certified import reread
from ges.client.greeting import Greeting
from ges.client.tries import ATTACH_SECONDS, NOTHING, TELL_SECONDS, Tries
from ges.client.wish import Wish
from ges.wire.client_messages import Attached
from overlay.address import Address
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.net.call_failures import is_cut
from overlay.security.credentials import Credentials
from overlay.wire.codec import FrameReader

Found = tuple[Address, Connection, FrameReader, Attached]


class BrokerSearch:
    """Looks for a broker that takes us."""

    def __init__(self, wish: Wish, credentials: Credentials | None, rng: random.Random) -> None:
        self.wish = wish
        self._credentials = credentials
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
        found: list[Found] = []
        timeout = self.wish.timeout
        try:
            async with asyncio.timeout(None if timeout == math.inf else timeout):
                await first_of(self._try(tries, found), self._tell(tries))
        except TimeoutError:
            pass  # it may have been found in that moment
        except BaseException:  # who called us was cancelled just as a broker had taken us
            for _, connection, _, _ in found:
                connection.abort()
            raise
        if not found:
            raise tries.in_vain()
        return found[0]

    async def _tell(self, tries: Tries) -> None:
        """Say for whom we wait, if we do not find anybody at once."""
        await asyncio.sleep(TELL_SECONDS)
        self.wish.on_waiting(tries.waiting(self.wish.timeout))
        await asyncio.Event().wait()

    async def _try(self, tries: Tries, found: list[Found]) -> None:
        """Add who takes us; nobody if nobody ever will."""
        while True:
            for address in tries.begin_round():
                try:
                    async with asyncio.timeout(ATTACH_SECONDS):
                        found.append(await self._greet(address))
                        return
                except TimeoutError:
                    tries.timed_out(address)
                except (ConnectionFailed, ProtocolError) as error:
                    tries.failed(address, error)
                except OSError as error:
                    tries.failed(address, error, was_cut=is_cut(error))
            pause = tries.pause()
            if pause is None:
                return
            await asyncio.sleep(pause)

    async def _greet(self, address: Address) -> Found:
        if self._credentials is not None:
            reread(self._credentials)
        connection = await call(address, self._credentials)
        try:
            certified = connection.identity.uid if connection.identity is not None else None
            is_exposed = connection.is_exposed
            greeting = Greeting(
                self.wish,
                address,
                certified=certified,
                is_exposed=is_exposed,
                nonce=secrets.token_bytes(NONCE_BYTES),
            )
            answer = None
            while answer is None:
                if data := greeting.take_bytes():
                    connection.send(data)
                answer = greeting.take(await connection.receive())
        except BaseException:  # a time-out, too: it comes as a cancellation
            connection.abort()
            raise
        return address, connection, greeting.reader, answer
