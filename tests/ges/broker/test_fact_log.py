"""What stands in the log of lost connections between units: how bad it is decides how loud."""

from __future__ import annotations

import pytest
import structlog
from structlog.testing import capture_logs

from ges.broker.fact_log import tell
from ges.gateways.losses import Severity
from ges.gateways.losses_part import GatewayLost


@pytest.mark.parametrize(
    ("severity", "loud"), [("harmless", "debug"), ("degraded", "info"), ("partition", "warning")]
)
def test_a_lost_connection_is_told_with_its_units_and_its_kind(severity: str, loud: str) -> None:
    with capture_logs() as logged:
        tell(structlog.get_logger(), GatewayLost(1, ("0.0.0", "0.0.2"), Severity(severity), 1))
    assert logged == [
        {
            "event": "links between units lost",
            "log_level": loud,
            "a": "0.0.0",
            "b": "0.0.2",
            "unit_level": 1,
            "kind": severity,
            "left": 1,
        }
    ]
