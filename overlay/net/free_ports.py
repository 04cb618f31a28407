"""Ports on loopback for brokers that a command starts itself."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

from overlay.errors import ConfigError

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 30_000)  #: below those that a caller gets on Linux


def free_ports(count: int) -> list[int]:
    """Return loopback ports that nobody listens on, and that the system gives no caller.

    Raises:
        ConfigError: there are not as many.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            found.append(port)
        if len(found) == count:
            return found
    raise ConfigError(f"{count} free ports are not to be had on {LOOPBACK}")
