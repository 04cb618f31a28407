"""What --join may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ges.discovery.targets import (
    MAX_FOUND,
    DnsTarget,
    FileTarget,
    LocalTarget,
    parse_join,
    parse_list,
)
from overlay.address import Address
from overlay.errors import ConfigError

A, B = Address("a.example", 9470), Address("127.0.0.1", 1, tls=True)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("dns:b.example", DnsTarget("b.example", None)),
        ("dns:b.example.:9480", DnsTarget("b.example", 9480)),
        ("dns:_x._tcp.b.example@10.0.0.1", DnsTarget("_x._tcp.b.example", None, ("10.0.0.1", 53))),
        ("dns:b:1@[::1]:8600", DnsTarget("b", 1, ("::1", 8600))),
        ("mdns:", LocalTarget(None)),
        ("mdns:192.168.1.7", LocalTarget("192.168.1.7")),
        ("file:/etc/x y", FileTarget(Path("/etc/x y"))),
    ],
)
def test_a_target_is_read(text: str, target: object) -> None:
    assert parse_join([text]) == ((), (target,))


def test_urls_and_targets_stand_beside_each_other() -> None:
    texts = (f"{A.url}, dns:b", f"mdns:,{B.url},{A.url}", "dns:b")
    assert parse_join(texts) == ((A, B), (DnsTarget("b", None), LocalTarget(None)))


@pytest.mark.parametrize(
    "text", ["dns:", "dns:@x", "dns:a@", "file:", "a.example:9470", "http://a"]
)
def test_what_is_no_target_is_named_with_the_mend(text: str) -> None:
    with pytest.raises(ConfigError, match="write chordal://HOST:PORT"):
        parse_join([text])


def test_a_list_has_lines_commas_and_remarks() -> None:
    text = f"# ours\n{A.url},{B.url}\n\n  {A.url}  # again\n"
    assert parse_list(text, "f") == (A, B)
    with pytest.raises(ConfigError, match=r"f: line 2: 'x' is not a broker URL"):
        parse_list(f"{A.url}\nx", "f")
    many = "\n".join(f"chordal://h{number}" for number in range(MAX_FOUND + 1))
    with pytest.raises(ConfigError, match="257 brokers, 256 are allowed"):
        parse_list(many, "f")
