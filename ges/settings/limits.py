"""What clients and strangers can take: the table ``[limits]`` of the schema."""

from __future__ import annotations

from typing import Annotated

from ges.broker.memory_budget import DEFAULT_BYTES, MIN_BYTES
from ges.retained.values import MAX_VALUES
from ges.settings.forms import BYTES, TIME
from ges.settings.setting import Part, setting
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.limits import LIMITS
from overlay.queues.lanes import Policy

MANY = 1_000_000  #: more of anything than one broker can serve
MUCH = 2**40  #: bytes: more than one broker can keep


class Limits(Part, frozen=True):
    """What clients and strangers can take."""

    memory: Annotated[
        int,
        setting(
            "What clients and other brokers may make it hold, above what it takes idle.",
            *("--memory", "SIZE"),
            form=BYTES,
            ge=MIN_BYTES,
            le=MUCH,
        ),
    ] = DEFAULT_BYTES

    connections: Annotated[
        int,
        setting(
            "Connections of brokers and clients at a time.",
            *("--max-connections", "N"),
            ge=1,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.connections
    clients: Annotated[
        int,
        setting("Clients served at a time.", "--max-clients", "N", ge=0, le=MANY, reloads=True),
    ] = LIMITS.clients
    clients_of_one: Annotated[
        int,
        setting(
            "Of these, of one address, certificate or token, at most 3/4; 0: no limit.",
            *("--clients-of-one", "N"),
            ge=0,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.clients_of_one
    links: Annotated[
        int,
        setting("Links to other brokers.", "--max-links", "N", ge=4, le=MANY, reloads=True),
    ] = LIMITS.links
    links_of_one: Annotated[
        int,
        setting(
            "Of these, to brokers at one address; 0: no limit.",
            *("--links-of-one", "N"),
            ge=0,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.links_of_one
    strangers: Annotated[
        int,
        setting(
            "Connections that have not greeted yet; half of them may come from one address.",
            *("--max-strangers", "N"),
            ge=2,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.strangers
    connection_rate: Annotated[
        float,
        setting(
            "New connections a second from one address, ten times as many at once; of links a "
            "twentieth. 0: no limit.",
            *("--connection-rate", "N"),
            ge=0,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.connections_per_second
    handshake_time: Annotated[
        float,
        setting(
            "Time for a stranger to greet, the TLS handshake included.",
            *("--handshake-time", "TIME"),
            form=TIME,
            ge=0.1,
            le=60,
            reloads=True,
        ),
    ] = LIMITS.handshake_seconds
    client_silence: Annotated[
        float,
        setting(
            "A client that sends nothing for so long is cut off.",
            *("--client-silence", "TIME"),
            form=TIME,
            ge=2,
            le=3600,
            reloads=True,
        ),
    ] = LIMITS.client_silence_seconds
    payload: Annotated[
        int,
        setting(
            "Largest payload of an event that a client may publish here.",
            *("--max-payload", "BYTES"),
            form=BYTES,
            ge=0,
            le=MAX_PAYLOAD_BYTES,
            reloads=True,
        ),
    ] = LIMITS.payload_bytes
    retained: Annotated[
        int,
        setting(
            "Retained values in the cluster beyond which no client adds one here; one address has "
            "a quarter of what is not reserved.",
            *("--max-retained", "N"),
            ge=0,
            le=MAX_VALUES,
            reloads=True,
        ),
    ] = LIMITS.retained
    subscriptions: Annotated[
        int,
        setting(
            "Subscriptions of one client.",
            *("--max-subscriptions", "N"),
            ge=0,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.subscriptions
    subscription_rate: Annotated[
        float,
        setting(
            "Changes of its subscriptions that one client may make in a second, beyond a burst.",
            *("--subscription-rate", "N"),
            ge=1,
            le=MANY,
            reloads=True,
        ),
    ] = LIMITS.subscription_changes_per_second
    subscription_memory: Annotated[
        int,
        setting(
            "Memory for the filters of all clients, of which one address has a quarter.",
            *("--subscription-memory", "BYTES"),
            form=BYTES,
            ge=1024**2,
            le=MUCH,
            reloads=True,
        ),
    ] = LIMITS.subscription_bytes_total
    client_memory: Annotated[
        int,
        setting(
            "Memory for what is queued for all clients, and unfinished from them.",
            *("--client-memory", "BYTES"),
            form=BYTES,
            ge=1024**2,
            le=MUCH,
            reloads=True,
        ),
    ] = LIMITS.client_bytes_total
    link_memory: Annotated[
        int,
        setting(
            "Memory for what is queued for all brokers, and unfinished from them.",
            *("--link-memory", "BYTES"),
            form=BYTES,
            ge=1024**2,
            le=MUCH,
            reloads=True,
        ),
    ] = LIMITS.link_bytes_total
    slow_clients: Annotated[
        Policy,
        setting(
            "What becomes of a client whose queue is full: cut it off, or drop its oldest normal "
            "events. Secure ones are never dropped, express ones always.",
            "--slow-clients",
            reloads=True,
        ),
    ] = Policy.DISCONNECT
