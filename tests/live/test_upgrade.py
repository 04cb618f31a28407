"""A ring of real processes that is upgraded broker by broker, under events."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.campaigns.upgrade import upgrade
from benchmarks.stage.processes import HERE, REPOSITORY, Fleet, Release
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live

#: Speaks this version and the next, with messages and fields that nobody here knows.
NEXT = Release((sys.executable, "-m", "tests.helpers.next_command"), REPOSITORY)


@pytest.mark.soak
def test_brokers_are_replaced_one_at_a_time_and_no_event_is_lost(tmp_path: Path) -> None:
    found = upgrade(tmp_path, HERE, NEXT, brokers=4)
    assert found.is_right, found
    assert len(found.replaced_s) == 4
    assert found.moved > 0  # the clients' broker was one of them


def test_a_broker_that_speaks_the_next_version_alone_is_refused_in_words(brokers: Fleet) -> None:
    here = brokers.broker()
    program = (
        "import ges.broker\n"
        "from ges.cli.main import main\n"
        "from tests.helpers.next_version import NewestBroker\n"
        "ges.broker.Broker = NewestBroker\n"
        "main()\n"
    )
    newest = Release((sys.executable, "-c", program), REPOSITORY)
    refused = brokers.run("serve", "--listen", "0", "--join", here.url, release=newest)
    eventually(lambda: refused.process.poll() is not None)
    assert refused.ended() == 1
    assert "this broker speaks protocol version 3, the caller version 4" in refused.err
    eventually(lambda: "the caller version 4" in here.err)
