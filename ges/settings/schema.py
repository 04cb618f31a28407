"""What a broker can be set to: the tables of ``chordal.toml``, one struct each.

A new setting is one field: its type and bounds, a sentence on what it is, its flag. All else comes
from it: the key in the file, the environment variable, the option of ``chordal serve``, the row in
``chordal config show``, and the line in ``docs/settings.md``. No setting is a secret: what is
secret stands in a file, and the setting is its path.

Times are seconds, sizes are bytes. A setting with ``reloads`` changes at SIGHUP; what does that is
:meth:`ges.broker.broker.Broker.reload`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from ges.settings.forms import (
    ADMIT,
    ANNOUNCE,
    BROKERS,
    ENDPOINT,
    EVENT_LINKS,
    GATEWAYS,
    LISTEN,
    OVERLAY,
    PATH,
    TIME,
    UNIT,
)
from ges.settings.limits import Limits
from ges.settings.setting import Part, setting
from ges.units.address import UNIT_LIMIT
from ges.wire.events import DEFAULT_BUDGET_US
from ges.wire.status import NAME_PATTERN
from ges.wire.unit_messages import SMALLEST_LIMIT
from overlay.address import DEFAULT_PORT
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule


class LogLevel(StrEnum):
    """The least severe messages that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log is written."""

    AUTO = "auto"  #: for people at a terminal, JSON elsewhere
    JSON = "json"
    KEY_VALUE = "key=value"


class Security(Part, frozen=True):
    """Who this broker is, and who may do what."""

    identity: Annotated[
        Path | None,
        setting("A broker's identity, for secure links.", "--identity", "DIR", form=PATH),
    ] = None
    require_identity: Annotated[
        bool,
        setting(
            "Link only to brokers with an identity of the same authority, over TLS alone; give it "
            "to all brokers.",
            "--require-identity",
        ),
    ] = False
    access: Annotated[
        Path | None,
        setting(
            "Rules of who may publish and subscribe; none: everybody may.",
            *("--access", "FILE"),
            form=PATH,
            reloads=True,
        ),
    ] = None
    tokens: Annotated[
        Path | None,
        setting(
            "Tokens of clients, see 'chordal token'.",
            *("--tokens", "FILE"),
            form=PATH,
            reloads=True,
        ),
    ] = None


class Ring(Part, frozen=True):
    """The ring: its timing, its links and its backups."""

    profile: Annotated[
        Literal["local", "lan", "wan"], setting("Timing of heartbeats and tests.", "--profile")
    ] = "lan"
    chords: Annotated[
        ChordStrategy, setting("How links beyond right-right are chosen.", "--chords")
    ] = ChordStrategy.RANK
    gaps: Annotated[
        GapRule, setting("Which gap between two brokers a newcomer is offered.", "--gaps")
    ] = GapRule.WIDEST
    backups: Annotated[
        int,
        setting(
            "Ring neighbours that keep copies of records; the event service owns none yet.",
            *("--backups", "N"),
            ge=1,
            le=4,
        ),
    ] = DEFAULT_BACKUPS
    unit_limit: Annotated[
        int,
        setting(
            "Brokers in a cluster, clusters in a super-cluster and so on, at most; alike for all.",
            *("--unit-limit", "N"),
            ge=SMALLEST_LIMIT,
            le=UNIT_LIMIT,
        ),
    ] = UNIT_LIMIT


class Units(Part, frozen=True):
    """Who comes into the cluster of this broker."""

    admit: Annotated[
        tuple[str, ...],
        setting(
            "Newcomers that this broker lets into its cluster: ranges of addresses at which others "
            "call them, and uids of identities. None: everybody. Give it to all brokers of the "
            "cluster.",
            *("--admit", "RANGE|uid:HEX32,..."),
            form=ADMIT,
            reloads=True,
        ),
    ] = ()
    gateways: Annotated[
        tuple[int, ...],
        setting(
            "Links of each level, 0 to 3, from which on this broker takes no newcomer beside it "
            "that would be one more. None: no limit.",
            *("--gateways", "N,N,N,N"),
            form=GATEWAYS,
            reloads=True,
        ),
    ] = ()


class Links(Part, frozen=True):
    """Which links events take."""

    events: Annotated[
        Literal["all", "declared"],
        setting(
            "Which links from here carry events: all, or those alone that an end has named.",
            "--events-over",
        ),
    ] = "all"
    event_links: Annotated[
        tuple[str, ...],
        setting(
            "Brokers, links to which are named: these are opened, kept open, and carry events.",
            *("--event-links", "URL,..."),
            form=EVENT_LINKS,
        ),
    ] = ()
    costs: Annotated[
        Literal["measured", "levels"],
        setting(
            "What a link costs where events choose among paths: by the levels of the units that it "
            "joins and as measured, or by the levels alone, and by hops among equals.",
            "--link-costs",
        ),
    ] = "measured"


class Express(Part, frozen=True):
    """Express links and express events."""

    range: Annotated[
        float,
        setting(
            "Express links are those with at most this latency, one way; 0: none.",
            *("--express-range", "TIME"),
            form=TIME,
            ge=0,
            le=10,
        ),
    ] = 0.005
    budget: Annotated[
        float,
        setting(
            "Time an express event may take, if its publisher does not say.",
            *("--express-budget", "TIME"),
            form=TIME,
            gt=0,
            le=3600,
        ),
    ] = DEFAULT_BUDGET_US / 1e6


class Log(Part, frozen=True):
    """What is logged, on standard error."""

    level: Annotated[
        LogLevel,
        setting("Least severe messages to log.", "--log-level", env="CHORDAL_LOG", reloads=True),
    ] = LogLevel.INFO
    format: Annotated[
        LogFormat,
        setting(
            "How a line is written; auto: for people at a terminal, JSON elsewhere.",
            "--log-format",
            reloads=True,
        ),
    ] = LogFormat.AUTO


class Admin(Part, frozen=True):
    """Health, metrics and the live page over HTTP."""

    listen: Annotated[
        str | None,
        setting(
            "Serve health, metrics and the live page over HTTP there; a port alone is one on "
            "loopback. None: do not.",
            *("--admin", "[HOST:]PORT"),
            form=LISTEN,
            env="CHORDAL_ADMIN",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        setting(
            "Holds the token that readers from there must show; needed beyond loopback.",
            *("--admin-token-file", "FILE"),
            form=PATH,
            env="CHORDAL_ADMIN_TOKEN_FILE",
        ),
    ] = None
    tls: Annotated[
        Path | None,
        setting(
            "Serve it over HTTPS: the folder holds server.crt and server.key, and client-ca.crt if "
            "certificates are to let clients in.",
            *("--admin-tls", "DIR"),
            form=PATH,
            env="CHORDAL_ADMIN_TLS",
        ),
    ] = None


class Mqtt(Part, frozen=True):
    """The door for MQTT clients."""

    listen: Annotated[
        str | None,
        setting(
            "Serve clients of MQTT 3.1.1 and 5 there; a port alone is one on loopback. None: do "
            "not.",
            *("--mqtt", "[HOST:]PORT"),
            form=LISTEN,
            env="CHORDAL_MQTT",
        ),
    ] = None
    tls: Annotated[
        Path | None,
        setting(
            "Serve them over TLS: the folder holds server.crt and server.key, and client-ca.crt if "
            "only those are served who show a certificate of an authority in it.",
            *("--mqtt-tls", "DIR"),
            form=PATH,
            env="CHORDAL_MQTT_TLS",
        ),
    ] = None


class Settings(Part, frozen=True):
    """One broker."""

    name: Annotated[
        str,
        setting(
            "The broker's name for people; it need not be unique.",
            *("--name", "NAME"),
            pattern=NAME_PATTERN,
        ),
    ] = ""
    listen: Annotated[
        str,
        setting(
            "Address to listen on; a port alone is one on loopback, and 0 picks a free one.",
            *("--listen", "[HOST:]PORT"),
            form=LISTEN,
        ),
    ] = f"127.0.0.1:{DEFAULT_PORT}"
    advertise: Annotated[
        str | None,
        setting(
            "Address others are to use, if not the one listened on.",
            *("--advertise", "HOST[:PORT]"),
            form=ENDPOINT,
        ),
    ] = None
    join: Annotated[
        tuple[str, ...],
        setting(
            "Brokers that form the ring, this one among them; give all of them the same list. "
            "One that is on a ring is joined; where none is, one of the list founds it. None: "
            "found a new ring. Instead of URLs, or beside them: records of a DNS name, brokers "
            "that announce themselves on the local network, a file of URLs; these are watched.",
            *("--join", "URL|dns:NAME|mdns:|file:PATH,..."),
            form=BROKERS,
            reloads=True,
        ),
    ] = ()
    announce: Annotated[
        str | None,
        setting(
            "Announce this broker on the local network, for --join mdns: of others; with an "
            "address, by that interface alone. None: do not.",
            *("--announce", "[mdns:ADDRESS]"),
            form=ANNOUNCE,
        ),
    ] = None
    bootstrap: Annotated[
        int,
        setting(
            "Brokers of the join list, this one included, that must be there before one of them "
            "founds a ring.",
            *("--bootstrap", "N"),
            ge=1,
            le=1000,
        ),
    ] = 1
    overlay: Annotated[str, setting("Name of the overlay.", "--overlay", "NAME", form=OVERLAY)] = (
        "chordal"
    )
    unit: Annotated[
        str,
        setting(
            "Names of the unit that this broker is to be in, from the top: super-super-cluster, "
            "super-cluster, cluster; one to three. Levels that are not named form by themselves. "
            "None: any unit without a name.",
            *("--unit", "NAME[/NAME[/NAME]]"),
            form=UNIT,
        ),
    ] = ""
    data: Annotated[
        Path | None,
        setting(
            "Keeps the broker's uid and its trace; none: a new broker each time.",
            *("--data", "DIR"),
            form=PATH,
        ),
    ] = None
    trace: Annotated[
        Path | None,
        setting(
            "Where to write the trace of incidents; none: trace/ in the data directory.",
            *("--trace", "DIR"),
            form=PATH,
        ),
    ] = None
    grace: Annotated[
        float,
        setting(
            "Time that clients have to go to other brokers when this one is to leave.",
            *("--grace", "TIME"),
            form=TIME,
            reloads=True,
            ge=0,
            le=3600,
        ),
    ] = 5.0
    drills: Annotated[
        bool,
        setting(
            "Let 'chordal drill' break this broker: end it, hold it up, cut its links.",
            "--drills",
        ),
    ] = False
    security: Security = Security()
    limits: Limits = Limits()
    ring: Ring = Ring()
    units: Units = Units()
    links: Links = Links()
    express: Express = Express()
    admin: Admin = Admin()
    mqtt: Mqtt = Mqtt()
    log: Log = Log()
