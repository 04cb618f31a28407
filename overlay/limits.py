"""What a stranger can hold or grow, and how much of it: connections, clients, links and queues.

A stranger is any end that connects; a client is one too, as it need not have proven anything. Sizes
of frames are in :mod:`overlay.wire.frames` (``MAX_FRAME_BYTES``, ``MAX_CONTROL_BYTES``); the types
of messages bound their own names, lists and texts; other limits stand beside what they bound.
docs/limits.md has a table of all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from overlay.errors import ConfigError

SPARE_FILES = 64  #: descriptors for links that this end makes, for files and for logs


@dataclass(slots=True, kw_only=True)
class Limits:
    """Limits of one broker. All defaults are guesses that leave room for a ring of thousands.

    The parts of a running broker share one object, which :meth:`become` changes for all of them.
    """

    handshake_seconds: float = 2.0  #: for a stranger to become a peer or a client, TLS included
    strangers: int = 512  #: connections that have not greeted; beyond it the oldest goes
    strangers_per_host: int = 256  #: the same for one remote address
    connections: int = 8192  #: of peers and clients
    links: int = 1024  #: to brokers; a ring of a million has some forty for each
    links_of_one: int = 512  #: of these, of one address; 0: no limit
    links_per_second: float = 10.0  #: new ones, beyond so many at once, of one source; 0: no limit
    links_reserved: int = 128  #: of these, only for brokers that show a certificate
    connections_per_second: float = 200.0  #: new ones, for one remote address; 0: no limit
    connections_at_once: int = 2000  #: that one address may make in a burst
    hosts: int = 4096  #: remote addresses of which something is remembered
    clients: int = 4096
    clients_of_one: int = 1024  #: of these, of one address, certificate or token; 0: no limit
    clients_reserved: int = 256  #: of these, only for those that show a certificate or token
    visitors: int = 64  #: clients beside these, who only ask for the status
    visitors_of_one: int = 32  #: of these, of one address or certificate
    visit_seconds: float = 10.0  #: for such a client to ask, and to take the answer
    subscriptions: int = 4096  #: of one client
    subscription_bytes: int = 4 * 1024 * 1024  #: memory for the filters of one client
    subscription_bytes_total: int = 128 * 1024 * 1024  #: and of all clients
    subscription_changes_per_second: float = 500.0  #: of one client, beyond those ...
    subscription_changes_at_once: int = 8192  #: ... that it may make in a burst
    client_bytes_total: int = 512 * 1024 * 1024  #: queued for all clients, and unfinished from them
    link_bytes_total: int = 1024 * 1024 * 1024  #: queued for all brokers, and unfinished from them
    frame_seconds: float = 30.0  #: for a client to finish a frame it has begun
    client_silence_seconds: float = 15.0  #: a client that sends nothing for so long is gone
    payload_bytes: int = 1024 * 1024  #: of one event that a client publishes
    retained: int = 16384  #: values of the cluster, beyond which no client here adds one

    def become(self, other: Limits) -> None:
        """Take the values of other limits; each holder of this object goes by them from now on."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def within(self, open_files: int) -> Limits:
        """Return limits that keep to so many open files, with room for links of our own.

        Raises:
            ConfigError: there are too few for a broker.
        """
        room = open_files - SPARE_FILES
        if room < SPARE_FILES:
            raise ConfigError(
                f"this process may open {open_files} files, and a broker needs "
                f"{2 * SPARE_FILES}; raise the limit (ulimit -n)"
            )
        strangers = min(self.strangers, room // 4)
        connections = min(self.connections, room - strangers)
        return replace(
            self,
            strangers=strangers,
            strangers_per_host=min(self.strangers_per_host, max(1, strangers // 2)),
            connections=connections,
            # Some are kept for brokers: clients must not keep the ring from closing.
            clients=min(self.clients, connections * 3 // 4),
        )


LIMITS = Limits()  #: the defaults, never changed
