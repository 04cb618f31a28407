"""The rows of the trace: what a reader gets back, and what it is spared."""

from __future__ import annotations

import msgspec
import pytest

from overlay.trace_schema import SCHEMA_VERSION, Incident, Run, Source, Verdict
from tests.helpers.rows import incident, run


@pytest.mark.parametrize("row", [run(), incident(), incident(failed_ns=None, n=None)])
def test_a_row_survives_json(row: Run | Incident) -> None:
    assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row


def test_every_row_carries_the_version_of_the_schema() -> None:
    for row in (run(), incident()):
        assert msgspec.to_builtins(row)["schema_version"] == SCHEMA_VERSION


def test_choices_are_written_as_words() -> None:
    assert msgspec.to_builtins(incident(verdict=Verdict.LINK_FAILED))["verdict"] == "link_failed"
    assert msgspec.to_builtins(run())["source"] == Source.SIMULATOR.value


@pytest.mark.parametrize(
    ("field", "value"), [("verdict", "perhaps"), ("messages", 1.5), ("subject", None)]
)
def test_a_row_with_another_kind_of_value_is_not_read(field: str, value: object) -> None:
    row = {**msgspec.to_builtins(incident()), field: value}
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(row, type=Incident)
