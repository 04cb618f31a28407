"""What a broker remembers of one client's topics: bounded, and right."""

from __future__ import annotations

import trio.testing

from ges.access.admission import Admitted
from ges.access.rules import NOBODY, parse_access
from ges.sessions.session import MAX_VERDICT_BYTES, Session
from overlay.net.connection import Connection

RULES = """
[[allow]]
subject = "anyone"
publish = ["mine/#"]
"""


def session() -> Session:
    stream, _ = trio.testing.memory_stream_pair()
    permissions = parse_access(RULES, "rules").permissions(NOBODY)
    connection = Connection(stream, secure=False, limit_bytes=1000)
    return Session("a" * 32, 1, connection, Admitted(NOBODY, None, permissions))


async def test_verdicts_take_bounded_memory_and_stay_right() -> None:
    """Denied topics above all: any client may name as many as it likes."""
    found = session()
    longest = 0
    for number in range(2000):
        assert "no rule allows it" in (found.why_not(b"%d/" % number + b"x" * 900) or "")
        assert found.why_not(b"mine/%d" % number) is None
        size = sum(len(topic) + len(why or "") for topic, why in found.verdicts.items())
        longest = max(longest, size)
        assert size <= MAX_VERDICT_BYTES
    assert longest > MAX_VERDICT_BYTES // 2


async def test_verdicts_forgotten_are_judged_anew() -> None:
    found = session()
    assert found.why_not(b"theirs") is not None
    found.admission = Admitted(NOBODY, None, None)
    assert found.why_not(b"theirs") is None
    found.admission = session().admission
    found.forget_verdicts()
    assert (found.verdicts, found.verdict_bytes) == ({}, 0)
    assert found.why_not(b"theirs") is not None
