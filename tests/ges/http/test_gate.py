"""Whom the admin server lets in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from ges.http.answers import Reply, Request
from ges.http.gate import COOKIE, Gate
from ges.http.guesses import AT_ONCE, EACH_SECONDS, MAX_SITES, Guesses
from overlay.ids import NANOS_PER_SECOND

TOKEN = "a-token-of-enough-characters"
OPEN = Gate(["broker-1.example"], None, b"secret")
CLOSED = Gate(["broker-1.example"], TOKEN, b"secret")


def request(path: str = "/api/status", method: str = "GET", **headers: str) -> Request:
    found = {"host": "127.0.0.1:9471"} | {k.replace("_", "-"): v for k, v in headers.items()}
    path, _, query = path.partition("?")
    pairs = dict(pair.split("=") for pair in query.split("&") if pair)
    return Request(method, path, pairs, found)


hours = count()


def judge(gate: Gate, asked: Request) -> Reply | None:
    """Judge it an hour after the one before: what was guessed then counts no more."""
    return gate.judge(asked, next(hours) * 3600 * NANOS_PER_SECOND)


def status(gate: Gate, asked: Request) -> int:
    """Return how a request is turned away; 200: it is not."""
    found = judge(gate, asked)
    return 200 if found is None else found.status


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:9471", "127.0.0.1", "localhost:9471", "LOCALHOST.", "[::1]:9471", "10.1.2.3"),
        *("broker-1.example", "Broker-1.example:80"),
    ],
)
def test_it_is_called_by_an_address_or_its_own_name(host: str) -> None:
    assert status(OPEN, request(host=host)) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:9471", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "1.2.3"],
)
def test_another_sites_name_for_its_address_is_refused(host: str) -> None:
    assert status(OPEN, request(host=host)) == 421
    assert status(OPEN, request("/healthz", host=host)) == 421
    assert status(CLOSED, request(f"/?token={TOKEN}", host=host)) == 421


def test_who_shows_the_token_in_a_header_may_use_any_name() -> None:
    shown = request(host="broker.internal:9471", authorization=f"Bearer {TOKEN}")
    assert status(CLOSED, shown) == 200
    assert status(OPEN, shown) == 421  # where there is no token, none can be shown


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_do_not_read(site: str) -> None:
    assert status(OPEN, request(sec_fetch_site=site, sec_fetch_mode="cors")) == 403
    assert status(OPEN, request(sec_fetch_site="same-origin", sec_fetch_mode="cors")) == 200
    # Somebody has followed a link to the page.
    assert status(OPEN, request("/", sec_fetch_site=site, sec_fetch_mode="navigate")) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_nothing_can_be_changed(method: str) -> None:
    found = judge(OPEN, request(method=method))
    assert found is not None
    assert (found.status, found.headers) == (405, (("allow", "GET, HEAD"),))


def test_without_the_token_only_health_is_told() -> None:
    for path in ("/", "/metrics", "/api/status", "/page/page.js", "/nowhere"):
        assert status(CLOSED, request(path)) == 401
    for path in ("/healthz", "/readyz"):
        assert status(CLOSED, request(path)) == 200


@pytest.mark.parametrize(
    "shown", [f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ", "Bearer", TOKEN, "Bearer é"]
)
def test_what_is_not_the_token_is_refused(shown: str) -> None:
    assert status(CLOSED, request(authorization=shown)) == 401


def test_the_scheme_is_written_in_any_case() -> None:
    assert status(CLOSED, request(authorization=f"bearer {TOKEN}")) == 200


def cookie_of(reply: Reply | None) -> str:
    assert reply is not None
    cookie = dict(reply.headers)["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    return cookie.split(";")[0]


def test_a_browser_shows_the_token_once_and_a_cookie_from_then_on() -> None:
    reply = judge(CLOSED, request(f"/?token={TOKEN}"))
    assert reply is not None
    assert (reply.status, dict(reply.headers)["location"]) == (303, "/")
    cookie = cookie_of(reply)
    assert TOKEN not in cookie
    assert status(CLOSED, request(cookie=f"other=1; {cookie}")) == 200
    assert status(CLOSED, request(cookie=f"{cookie}0")) == 401
    assert status(CLOSED, request(cookie=f"{COOKIE}=")) == 401


def test_a_cookie_is_of_one_process_and_of_one_token() -> None:
    cookie = cookie_of(judge(CLOSED, request(f"/?token={TOKEN}")))
    assert status(Gate([], TOKEN, b"another"), request(cookie=cookie)) == 401
    assert status(Gate([], TOKEN + "2", b"secret"), request(cookie=cookie)) == 401


@pytest.mark.parametrize("path", [f"/api/status?token={TOKEN}", "/?token=wrong", "/?token="])
def test_the_token_in_a_url_counts_for_the_page_alone(path: str) -> None:
    assert status(CLOSED, request(path)) == 401


def test_where_there_is_no_token_no_empty_one_counts() -> None:
    assert status(OPEN, request("/?token=")) == 200  # let in, and given no cookie
    assert judge(OPEN, request("/?token=")) is None


# ── guesses ───────────────────────────────────────────────────────────────────────────────────


def test_an_address_guesses_a_few_times_and_then_once_in_a_while() -> None:
    noted: list[tuple[str, bool]] = []

    def note(host: str, *, is_looked_at: bool) -> None:
        noted.append((host, is_looked_at))

    gate = Gate([], TOKEN, b"secret", note=note)

    def guess(shown: str, host: str, seconds: float, path: str = "/metrics") -> int:
        asked = (
            request(path, authorization=f"Bearer {shown}")
            if path != "/"
            else request(f"/?token={shown}")
        )
        found = gate.judge(replace(asked, client=(host, 1)), round(seconds * NANOS_PER_SECOND))
        return 200 if found is None else found.status

    assert [guess(f"wrong-{at}", "192.0.2.1", 0) for at in range(AT_ONCE)] == [401] * AT_ONCE
    for path in ("/metrics", "/healthz", "/"):  # none says whether this one is right
        assert guess(TOKEN, "192.0.2.1", 0.1, path) == 429, path
        assert guess("wrong", "192.0.2.1", 0.1, path) == 429, path
    assert guess(TOKEN, "192.0.2.2", 0.1) == 200
    assert guess("wrong", "192.0.2.1", EACH_SECONDS, "/") == 401
    assert guess(TOKEN, "192.0.2.1", EACH_SECONDS) == 429
    assert guess(TOKEN, "192.0.2.1", 2 * EACH_SECONDS) == 200
    assert guess(TOKEN, "192.0.2.1", 2 * EACH_SECONDS) == 200, "what is right is no guess"
    assert Counter(noted) == {("192.0.2.1", True): AT_ONCE + 1, ("192.0.2.1", False): 7}


def test_who_has_a_cookie_or_a_certificate_is_not_held_up_by_others() -> None:
    gate = Gate([], TOKEN, b"secret")
    cookie = cookie_of(gate.judge(request(f"/?token={TOKEN}"), 0))
    for _ in range(AT_ONCE):
        assert gate.judge(request(authorization="Bearer wrong"), 0) is not None
    braked = gate.judge(request(authorization=f"Bearer {TOKEN}"), 0)
    assert braked is not None
    assert (braked.status, dict(braked.headers)["retry-after"]) == (429, str(int(EACH_SECONDS)))
    assert gate.judge(request(cookie=cookie), 0) is None
    assert gate.judge(request(cookie=cookie, authorization=f"Bearer {TOKEN}"), 0) is None
    assert gate.judge(replace(request(), is_certified=True), 0) is None
    assert gate.judge(request("/healthz"), 0) is None


def test_a_network_of_ipv6_counts_as_one_and_few_addresses_are_remembered() -> None:
    guesses = Guesses()
    for at in range(AT_ONCE):
        guesses.missed(f"2001:db8::{at:x}", 0)
    assert guesses.wait_seconds("2001:db8::ffff", 0) == EACH_SECONDS
    assert guesses.wait_seconds("2001:db8:0:1::1", 0) == 0
    for at in range(2 * MAX_SITES):
        guesses.missed(f"10.0.{at // 256}.{at % 256}", 0)
    assert len(guesses) == MAX_SITES
