"""The command with brokers of the next version: ``python -m tests.helpers.next_command serve``."""

from __future__ import annotations

import ges.broker
from ges.cli.main import main
from tests.helpers.next_version import NextBroker

ges.broker.Broker = NextBroker  # type: ignore[misc]

if __name__ == "__main__":
    main()
