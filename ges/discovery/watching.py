"""All targets of one broker as one list, which changes as they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import trio
from structlog.typing import FilteringBoundLogger as Log

from ges.discovery import dns_names, local_network, seed_files
from ges.discovery.targets import DnsTarget, FileTarget, Found, LocalTarget, Target
from overlay.address import Address

FIRST_SECONDS = 4.0  #: for all targets to say something before the first list


def require(targets: Sequence[Target]) -> None:
    """Check that what the targets need is installed.

    Raises:
        ConfigError: it is not.
    """
    if any(isinstance(target, DnsTarget) for target in targets):
        dns_names.require_dnspython()
    if any(isinstance(target, LocalTarget) for target in targets):
        local_network.require_zeroconf()


class Watching:
    """Watches targets; ``on_list`` is told the first list, and each that differs."""

    def __init__(
        self,
        targets: Sequence[Target],
        overlay: str,
        log: Log,
        on_list: Callable[[tuple[Address, ...]], None],
    ) -> None:
        self._targets = targets
        self._overlay = overlay
        self._log = log
        self._on_list = on_list
        self._found: dict[Target, Found] = {}
        self._complete = trio.Event()  #: each target has said something
        self._told: tuple[Address, ...] | None = None

    async def run(self) -> None:
        """Watch until cancelled.

        Raises:
            ConfigError: a file is wrong from the beginning, or there is no such interface.
        """
        async with trio.open_nursery() as nursery:
            for target in self._targets:
                nursery.start_soon(self._watch, target)
            with trio.move_on_after(FIRST_SECONDS):
                await self._complete.wait()
            self._tell()

    async def _watch(self, target: Target) -> None:
        take = partial(self._take, target)
        match target:
            case DnsTarget():
                await dns_names.watch(target, take)
            case LocalTarget():
                await local_network.watch(target, self._overlay, take)
            case FileTarget():
                await seed_files.watch(target, take)

    def _take(self, target: Target, found: Found) -> None:
        before = self._found.get(target)
        self._found[target] = found
        if found.problem and (before is None or before.problem != found.problem):
            self._log.warning("cannot look for brokers", at=str(target), why=found.problem)
        elif before is not None and before.problem and not found.problem:
            self._log.info("brokers can be looked for again", at=str(target))
        if len(self._found) == len(self._targets):
            self._complete.set()
        if self._told is not None:
            self._tell()

    def _tell(self) -> None:
        every = [address for target in self._targets for address in self._of(target)]
        addresses = tuple(dict.fromkeys(every))
        if addresses != self._told:
            self._log.info("brokers named", urls=[each.url for each in addresses])
            self._told = addresses
            self._on_list(addresses)

    def _of(self, target: Target) -> tuple[Address, ...]:
        found = self._found.get(target)
        return found.addresses if found is not None else ()
