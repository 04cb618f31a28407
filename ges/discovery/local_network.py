"""Brokers on the local network by multicast DNS, with zeroconf (an extra, and imported late).

A broker that announces itself is the service ``UID._chordal._tcp.local.`` with its address, its
port, and the name of its overlay; services of other overlays are passed over. Anybody on the
network can announce anything, so this says whom to call, and nothing more.

zeroconf has a thread of its own; what it finds is handed to trio.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

import trio

from ges.discovery.targets import MAX_FOUND, Found, LocalTarget
from overlay.address import Address
from overlay.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

SERVICE = "_chordal._tcp.local."
BROWSE_SECONDS = 1.5  #: before the first list: others answer within a second
ASK_MS = 2000
BACKLOG = 1024  #: names that were heard of and not looked up yet


def require_zeroconf() -> None:
    """Check that zeroconf is there.

    Raises:
        ConfigError: it is not.
    """
    try:
        import zeroconf  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "mdns: and --announce need the discovery extra; in a checkout: "
            "pip install '.[discovery]'"
        ) from None


async def watch(target: LocalTarget, overlay: str, tell: Callable[[Found], None]) -> None:
    """Listen for brokers of an overlay that announce themselves, come and go."""
    from zeroconf import ServiceBrowser, ServiceStateChange

    token = trio.lowlevel.current_trio_token()
    send, receive = trio.open_memory_channel[tuple[str, bool]](BACKLOG)

    def note(name: str, is_there: bool) -> None:
        with suppress(trio.WouldBlock):  # it is announced again
            send.send_nowait((name, is_there))

    def on_change(
        zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        is_there = state_change is not ServiceStateChange.Removed
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(note, name, is_there)

    found: dict[str, tuple[Address, ...]] = {}

    def told() -> Found:
        every = {address for addresses in found.values() for address in addresses}
        return Found(tuple(sorted(every, key=lambda a: (a.host, a.port))[:MAX_FOUND]))

    async with _on_network(target.interface) as network:
        browser = ServiceBrowser(network, SERVICE, handlers=[on_change])
        try:
            end = trio.current_time() + BROWSE_SECONDS
            is_first = True
            while True:
                with trio.move_on_at(end if is_first else float("inf")):
                    name, is_there = await receive.receive()
                    info = await _look_up(network, name) if is_there else None
                    if info is not None and _overlay_of(info) == overlay:
                        found[name] = _addresses(info)
                    else:
                        found.pop(name, None)
                    if len(found) > MAX_FOUND:
                        found.pop(next(iter(found)))
                    if is_first:
                        continue
                is_first = False
                tell(told())
        finally:
            browser.cancel()


async def announce(
    target: LocalTarget, overlay: str, uid: str, address: Address, *, advertised_at: str
) -> None:
    """Announce a broker, until it is cancelled.

    ``advertised_at``: the IP address in the announcement, where the address is a name.
    """
    from zeroconf import ServiceInfo

    info = ServiceInfo(
        SERVICE,
        f"{uid}.{SERVICE}",
        addresses=[ip_address(advertised_at).packed],
        port=address.port,
        properties={"overlay": overlay, "uid": uid},
        server=f"{uid}.local.",
    )
    async with _on_network(target.interface) as network:
        await trio.to_thread.run_sync(network.register_service, info)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(network.unregister_service, info)


async def ip_of(host: str) -> str:
    """Return an IP address of a host.

    Raises:
        ConfigError: it has none.
    """
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        rows = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"--announce: {host} has no address ({error.strerror or error}); give an IP address "
            "with --advertise"
        ) from error
    return str(rows[0][4][0])


@asynccontextmanager
async def _on_network(interface: str | None) -> AsyncIterator[Zeroconf]:
    from zeroconf import InterfaceChoice, Zeroconf

    def begin() -> Zeroconf:
        return Zeroconf(interfaces=[interface] if interface else InterfaceChoice.All)

    try:
        network = await trio.to_thread.run_sync(begin)
    except OSError as error:
        raise ConfigError(
            f"mdns:{interface or ''}: no multicast there ({error.strerror or error})"
        ) from error
    try:
        yield network
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(network.close)


async def _look_up(network: Zeroconf, name: str) -> ServiceInfo | None:
    def ask() -> ServiceInfo | None:
        return network.get_service_info(SERVICE, name, ASK_MS)

    return await trio.to_thread.run_sync(ask)


def _overlay_of(info: ServiceInfo) -> str | None:
    value = info.properties.get(b"overlay")
    return None if value is None else value.decode(errors="replace")


def _addresses(info: ServiceInfo) -> tuple[Address, ...]:
    if not info.port:
        return ()
    return tuple(Address(host, info.port) for host in info.parsed_addresses())
