"""Where the MQTT door listens, and by which certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ges.http.tls import AdminTls
from overlay.address import parse_endpoint

DEFAULT_PORT, DEFAULT_TLS_PORT = 1883, 8883
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """What the user has said of the MQTT door."""

    host: str
    port: int  #: 0: any free one
    tls: AdminTls | None = None


def mqtt_settings(endpoint: str, certificates: Path | None = None) -> MqttSettings:
    """Read ``[HOST:]PORT`` and the folder of certificates.

    Raises:
        ConfigError: one of them is wrong.
    """
    default = DEFAULT_PORT if certificates is None else DEFAULT_TLS_PORT
    host, port = parse_endpoint(endpoint, default_host=LOOPBACK, default_port=default)
    tls = (
        None if certificates is None else AdminTls(certificates, flag="--mqtt-tls", protocol="mqtt")
    )
    return MqttSettings(host, port, tls)
