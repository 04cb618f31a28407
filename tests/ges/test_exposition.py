"""Metrics: in the form Prometheus reads, and none missing from the start."""

from __future__ import annotations

import re
from pathlib import Path

from ges.client import connect
from ges.exposition import COUNTED, exposition
from tests.helpers.brokers import Brokers

SAMPLE = re.compile(r'chordal_[a-z_]+\{broker="[0-9a-f]{32}"(,class="[a-z]+")?\} -?[0-9.e+]+')
DOCS = Path(__file__).parents[2] / "docs"


async def test_every_line_is_a_sample_or_says_what_one_is(brokers: Brokers) -> None:
    here, _ = await brokers.ring_of(2)
    async with connect(here.url) as client, client.subscribe("a"):
        text = exposition(await client.status())
    assert text.endswith("\n")
    described: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.append(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            assert line.startswith(f"{described[-1]}{{")
    assert len(described) == len(set(described))
    uid = here.node.peer.uid
    assert f'chordal_clients{{broker="{uid}"}} 1\n' in text
    assert f'chordal_subscriptions{{broker="{uid}"}} 1\n' in text
    for name in COUNTED:
        assert re.search(rf"^chordal_{name}_total{{.*}} \d+$", text, re.MULTILINE), name


def test_every_kind_of_refusal_is_documented() -> None:
    text = (DOCS / "links.md").read_text() + (DOCS / "access.md").read_text()
    assert [name for name in COUNTED if name not in text] == []
