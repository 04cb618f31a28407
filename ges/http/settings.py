"""Where the admin server listens, and the secret it asks for."""

from __future__ import annotations

import importlib.util
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from ges.http.tls import AdminTls
from overlay.address import is_loopback, parse_endpoint
from overlay.errors import ConfigError
from overlay.security.regular_file import read_regular

DEFAULT_PORT = 9471
LOOPBACK = "127.0.0.1"

_MAX_TOKEN_BYTES = 512
_TOKEN = re.compile(r"[!-~]{16,512}")
_LIBRARIES = ("h11",)
_MAKE = "make one with '(umask 077; openssl rand -hex 32 > FILE)'"


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """What the user has said of the admin server."""

    host: str
    port: int  #: 0: any free one
    token: str | None = field(default=None, repr=False)  #: None: whoever reaches it may look
    tls: AdminTls | None = None


def admin_settings(
    endpoint: str, token_file: Path | None = None, certificates: Path | None = None
) -> AdminSettings:
    """Read ``[HOST:]PORT``, the file of the token, and the folder of certificates.

    Raises:
        ConfigError: one of them is wrong, others could reach the server without a token or a
            certificate, or the libraries it needs are not installed.
    """
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"--admin needs {name}, which is not installed; pip install 'chordal[admin]'"
            )
    host, port = parse_endpoint(endpoint, default_host=LOOPBACK, default_port=DEFAULT_PORT)
    tls = None if certificates is None else AdminTls(certificates)
    is_guarded = token_file is not None or (tls is not None and tls.asks_certificates)
    if not is_guarded and not is_loopback(host):
        raise ConfigError(
            f"--admin {endpoint}: others can reach {host}, so they must show a token or a "
            "certificate; give --admin-token-file FILE or --admin-tls DIR with client-ca.crt in "
            f"it, or listen on {LOOPBACK}"
        )
    token = None if token_file is None else _read_token(token_file)
    return AdminSettings(host, port, token, tls)


def _read_token(path: Path) -> str:
    try:
        data, mode = read_regular(path, _MAX_TOKEN_BYTES + 2)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; {_MAKE}") from error
    mode = stat.S_IMODE(mode)
    if mode & 0o077:
        raise ConfigError(f"{path}: open to group or others; chmod {mode & 0o700:o} {path}")
    text = data.decode("ascii", errors="replace").strip()
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"{path} holds no token of 16 to 512 printable characters; {_MAKE}")
    return text
