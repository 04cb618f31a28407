"""URLs of brokers and places to listen on: the forms that are read, the errors of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.address import (
    Address,
    is_own_url,
    parse_endpoint,
    parse_url,
    parse_urls,
    shown,
)
from overlay.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("chordal://host:1", Address("host", 1)),
        ("chordal://host", Address("host", 9470)),
        ("chordal://host/", Address("host", 9470)),
        ("chordals://host:65535", Address("host", 65535, tls=True)),
        ("  chordal://HOST:7 ", Address("host", 7)),
        ("chordal://127.0.0.1:7", Address("127.0.0.1", 7)),
        ("chordal://[::1]:7", Address("::1", 7)),
    ],
)
def test_a_url_names_host_port_and_tls(text: str, address: Address) -> None:
    assert parse_url(text) == address


@pytest.mark.parametrize(
    "address", [Address("host", 1), Address("::1", 2, tls=True), Address("127.0.0.1", 65535)]
)
def test_a_written_address_reads_back(address: Address) -> None:
    assert parse_url(address.url) == address
    assert str(address) == address.url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host:1", "chordal://HOST:PORT"),
        ("http://host:1", "chordal://HOST:PORT"),
        ("chordal://", "chordal://HOST:PORT"),
        ("chordal://:9470", "chordal://HOST:PORT"),
        ("chordal://host:port", "chordal://HOST:PORT"),
        ("chordal://host:0", "port 0 is not between 1 and 65535"),
        ("chordal://host:65536", "chordal://HOST:PORT"),
        ("chordal://[::1", "chordal://HOST:PORT"),
        ("chordal://host:1/path", "says more"),
        ("chordal://host:1?q", "says more"),
        ("chordal://user@host:1", "says more"),
        ("", "chordal://HOST:PORT"),
        ("chordal://x y:1", "'x y' cannot be the name of a host"),
        ("chordal://x,y:1", "'x,y' cannot be the name of a host"),
    ],
)
def test_no_url_of_a_broker_is_an_error_that_shows_one(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(text)
    assert words in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text("chordals:/[]@.,%?#x1-\t\n \u00e9", max_size=12))
def test_what_is_read_is_read_again_alone_and_among_others(rest: str) -> None:
    try:
        address = parse_url(f"chordal://{rest}")
    except ConfigError:
        return
    assert parse_url(address.url) == address
    assert parse_urls([f"{address},chordal://other"]) == [address, Address("other", 9470)]


@pytest.mark.parametrize(
    "address", [Address("host", 1), Address("::1", 2), Address("fe80::1%eth0", 3)]
)
def test_a_broker_names_itself_by_a_plain_url(address: Address) -> None:
    assert is_own_url(address.url)


@pytest.mark.parametrize(
    "text",
    [
        "http://x",
        "chordals://x:1",
        "x:1",
        "chordal://x:1/path",
        " chordal://x:1",
        "chordal://x:1\n",
        "chordal://x\n:1",
        "chordal://x:1,chordal://y:1",
        "chordal://x:99999",
        "[/]",
    ],
)
def test_a_broker_is_not_called_so(text: str) -> None:
    assert not is_own_url(text)


def test_what_others_tell_is_shown_without_what_moves_the_cursor() -> None:
    assert shown("chordal://x:1") == "chordal://x:1"
    assert shown("\x1b[2J") == r"'\x1b[2J'"


def test_several_urls_come_apart_at_commas_and_repeats_vanish() -> None:
    found = parse_urls(["chordal://a:1,chordal://b", " chordal://a:1 ,", ""])
    assert found == [Address("a", 1), Address("b", 9470)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost", ("localhost", 9470)),
        ("[::]:80", ("::", 80)),
        ("[::1]", ("::1", 9470)),
    ],
)
def test_an_endpoint_may_leave_the_port_to_the_system(text: str, place: tuple[str, int]) -> None:
    assert parse_endpoint(text) == place


def test_an_endpoint_takes_the_default_it_is_given() -> None:
    assert parse_endpoint("localhost", default_port=9471) == ("localhost", 9471)


def test_a_port_alone_is_one_on_the_host_that_is_meant() -> None:
    assert parse_endpoint("9470", default_host="127.0.0.1") == ("127.0.0.1", 9470)
    assert parse_endpoint(" 0 ", default_host="127.0.0.1") == ("127.0.0.1", 0)
    with pytest.raises(ConfigError, match="port 65536 is not between 0 and 65535"):
        parse_endpoint("65536", default_host="127.0.0.1")
    with pytest.raises(ConfigError, match="'9470' is a port alone; write HOST:PORT"):
        parse_endpoint("9470")


@pytest.mark.parametrize("text", ["", ":9470", "host:port", "host:70000", "host/path", "[::1"])
def test_no_endpoint_is_an_error_that_shows_its_form(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_endpoint(text)
