"""A trace that an event belongs to, from its publisher to a subscriber and into the logs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect
from ges.errors import TraceparentError

pytestmark = pytest.mark.live

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RULES = """
[[allow]]
subject = "anyone"
publish = ["#"]
subscribe = ["open"]
"""


def told(broker: Broker) -> list[dict[str, object]]:
    """What a broker's log says of traces."""
    lines = [json.loads(line) for line in broker.err.splitlines() if line.endswith("}")]
    return [line for line in lines if "traceparent" in line]


def test_a_trace_goes_with_its_event_and_leaves_lines_where_they_are_wanted(
    brokers: Fleet, tmp_path: Path
) -> None:
    file, rules = tmp_path / "chordal.toml", tmp_path / "access.toml"
    rules.write_text(RULES)
    file.write_text("[log]\nlevel = 'debug'")
    first = brokers.broker("--config", str(file), "--access", str(rules))
    second = brokers.broker("--join", first.url)
    whole(first.url, 2)
    subscriber = brokers.subscriber("open", second.url, "--json", "--count", "3")
    eventually(lambda: "is active" in subscriber.err)
    with connect(first.url) as client:
        with pytest.raises(TraceparentError):
            client.publish("open", b"no", traceparent="here and there")
        client.publish("open", b"1", traceparent=TRACE)
        client.publish("open", b"2")
        client.publish("hidden", b"3", traceparent=TRACE)
        client.flush()
        publisher = client.uid

    event = f"{publisher}:1"
    eventually(lambda: len(told(first)) == 2)
    assert told(first)[0] | {"timestamp": ""} == {
        "event": "event published",
        "level": "debug",
        "broker": first.uid[:8],
        "id": event,
        "link_class": "normal",
        "hops": 0,
        "traceparent": TRACE,
        "timestamp": "",
    }
    shown = chordal_here("why", event, "--json", "--broker", first.url)
    assert json.loads(shown.stdout)["published"][0]["traceparent"] == TRACE
    assert f"  traceparent {TRACE}\n" in chordal_here("why", event, "--broker", first.url).stdout
    hidden = chordal_here("why", f"{publisher}:3", "--json", "--broker", first.url)
    [source] = json.loads(hidden.stdout)["published"]
    assert (source["topic"], source["traceparent"]) == (None, None)

    file.write_text("[log]\nlevel = 'info'")
    first.signal(signal.SIGHUP)
    eventually(lambda: "settings read again" in first.err)
    given = ("--traceparent", TRACE, "--broker", first.url)
    assert chordal_here("pub", "open", "4", *given).returncode == 0
    assert subscriber.ended() == 0
    rows = [json.loads(line) for line in subscriber.out.splitlines()]
    assert [row.get("traceparent") for row in rows] == [TRACE, None, TRACE]
    assert len(told(first)) == 2
    assert told(second) == []


def test_a_trace_that_is_none_is_refused_before_a_broker_is_looked_for() -> None:
    for given in (("--traceparent", "00-1-2-3"), ("--attr", "traceparent=00-1-2-3")):
        done = chordal_here("pub", "a", "b", *given, "--broker", "chordal://127.0.0.1:1")
        assert done.returncode == 2
        assert done.stderr == (
            "chordal: error: '00-1-2-3' is not a traceparent: 00-TRACE-SPAN-FLAGS, with 32, 16 and "
            "2 lower-case hexadecimal digits, TRACE and SPAN not all zeros [traceparent]\n"
        )
