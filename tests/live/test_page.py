"""The live page in a real browser: what it shows of a ring that runs, and of one that is drawn."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import networkx
import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from benchmarks.stage.forked import Stem
from benchmarks.stage.processes import Fleet, fleet
from benchmarks.stage.waiting import eventually
from tests.helpers.drawn_ring import drawn_ring

pytestmark = pytest.mark.live

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1280,860",
)
SHOW = """
const [picture, done] = arguments;
import("/page/page.js").then(
  (page) => { page.show(picture); done(null); }, (why) => done(`${why}`));
"""
SURVIVES = """
const [graphs, done] = arguments;
import("/page/strength.js").then(
  (page) => done(graphs.map(({ uids, links }) => page.survives(uids, links))),
  (why) => done(`${why}`));
"""
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None,
    reason="chromium and chromedriver are not installed: apt-get install chromium-driver",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser without a window; what it says of faults in the page is looked at in each test."""
    assert CHROMIUM is not None
    assert CHROMEDRIVER is not None
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(CHROMEDRIVER, log_output=os.devnull)
    driver = Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, stem: Stem | None) -> Iterator[str]:
    """Where the page of a broker is that is alone."""
    with fleet(tmp_path_factory.mktemp("alone"), stem) as found:
        yield found.broker("--admin", "0").ready["admin_url"]


@pytest.fixture
def page(url: str, browser: Chrome) -> Iterator[Chrome]:
    """The page with nothing on it but what a test shows."""
    browser.get("about:blank")
    faults(browser)  # of the page before, whose broker may have gone
    browser.get(f"{url}/#still")
    yield browser
    assert faults(browser) == []


def faults(browser: Chrome) -> list[str]:
    """Return what the browser has to say of the page."""
    rows: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [row["message"] for row in rows]


def ask(browser: Chrome, script: str) -> Any:  # noqa: ANN401 - whatever the script returns
    return browser.execute_script(f"return {script}")


def state_of(browser: Chrome, uid: str) -> str | None:
    """Return how a broker is shown."""
    found = ask(browser, f"document.querySelector('.broker[data-uid=\"{uid}\"]')?.dataset.state")
    return None if found is None else str(found)


def text(browser: Chrome, selector: str) -> str | None:
    """Return what stands there."""
    found = ask(browser, f'document.querySelector("{selector}")?.textContent')
    return None if found is None else str(found)


def count(browser: Chrome, selector: str) -> int:
    """Return how many there are of something."""
    return int(ask(browser, f'document.querySelectorAll("{selector}").length'))


def health(browser: Chrome) -> str:
    """Return how the ring is said to be."""
    return str(ask(browser, "document.querySelector('#health').dataset.health"))


def radius(browser: Chrome, uid: str) -> float:
    """Return how far from the centre a broker is shown."""
    place = f".broker[data-uid='{uid}']"
    found = ask(browser, f'document.querySelector("{place}").getAttribute("transform")')
    x, y = map(float, re.findall(r"-?[\d.]+", found))
    return float((x * x + y * y) ** 0.5)


def show(page: Chrome, size: int) -> None:
    picture = json.loads(msgspec.json.encode(drawn_ring(size)))
    assert page.execute_async_script(SHOW, picture) is None


@needs_chromium
def test_a_killed_broker_falls_out_of_the_ring_that_is_shown(
    brokers: Fleet, browser: Chrome
) -> None:
    first = brokers.broker("--admin", "0")
    others = [brokers.broker("--join", first.url) for _ in range(3)]
    uids = [broker.uid for broker in (first, *others)]
    browser.get(first.ready["admin_url"])
    eventually(lambda: [state_of(browser, uid) for uid in uids] == ["alive"] * 4)
    eventually(lambda: ask(browser, "document.body.dataset.survives") == "2")
    eventually(lambda: health(browser) == "whole")
    assert text(browser, "#size") == "4 brokers"
    assert text(browser, "#incidents") == "Nothing has failed."
    victim = others[1]
    victim.signal(signal.SIGKILL)
    eventually(lambda: state_of(browser, victim.uid) == "dead")
    eventually(lambda: text(browser, "#size") == "3 brokers")
    words = eventually(lambda: text(browser, f"#incidents [data-uid='{victim.uid}']"))
    assert words is not None
    assert re.search(rf"{victim.uid[:8]} died.*found in \d+ ms, ring whole after \d+ ms", words)
    # It stands outside, and the others go on without it.
    eventually(lambda: radius(browser, victim.uid) > 1.1 * radius(browser, first.uid))
    eventually(lambda: ask(browser, "document.body.dataset.survives") == "1")
    eventually(lambda: health(browser) == "whole")
    assert faults(browser) == []
    first.signal(signal.SIGKILL)
    eventually(lambda: health(browser) == "lost")


@needs_chromium
@pytest.mark.parametrize("size", [1, 2, 8, 200])
def test_rings_of_any_size_are_drawn(page: Chrome, size: int) -> None:
    show(page, size)
    picture = drawn_ring(size)
    eventually(lambda: count(page, "#stage .link[d]") == len(picture.links))
    assert count(page, ".broker") == size
    assert text(page, "#size") == f"{size} broker" + "s" * (size > 1)
    places = ask(page, "[...document.querySelectorAll('.broker')].map((b) => b.outerHTML)")
    spots = {re.findall(r'transform="(.+?)"', place)[0] for place in places}
    assert len(spots) == size  # nobody stands on anybody else
    units = ask(page, "[...document.querySelectorAll('.unit')].map((u) => u.dataset.unit)")
    clusters = {broker.address.rpartition(".")[0] for broker in picture.brokers if broker.address}
    assert clusters <= set(units)
    assert len(clusters) == (4 if size == 200 else 1)


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_the_ground_in_light_and_dark(page: Chrome, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    show(page, 8)
    ground = ask(page, "getComputedStyle(document.documentElement).backgroundColor")
    assert (luminance(ground) < 0.2) is (scheme == "dark")
    for what in (".broker text", ".rate-label", "#survives", ".unit-name", "dt"):
        kind = "color" if what == "dt" else "fill"
        ink = ask(page, f"getComputedStyle(document.querySelector({what!r})).{kind}")
        assert contrast(ink, ground) >= 4.3, what
    for name in ("normal", "express", "secure"):
        line = ask(page, f"getComputedStyle(document.querySelector('.link.{name}')).stroke")
        assert contrast(line, ground) >= 3, name  # as for what is no text
    dashes = {
        ask(
            page, f"getComputedStyle(document.querySelector('#stage .link.{name}')).strokeDasharray"
        )
        for name in ("normal", "express", "secure")
    }
    assert len(dashes) == 3  # whoever sees no colours sees the lines


def luminance(colour: str) -> float:
    """Return how bright ``rgb(r, g, b)`` is, as the rules for readable pages reckon it."""
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@needs_chromium
def test_pointing_at_a_link_shows_its_weights(page: Chrome) -> None:
    show(page, 8)
    link = drawn_ring(8).links[0]
    point = "document.querySelector('.hit').dispatchEvent(new PointerEvent('%s', {clientX: 300}))"
    page.execute_script(point % "pointerenter")
    words = text(page, "#tip")
    assert words is not None
    addresses = {broker.uid: broker.address for broker in drawn_ring(8).brokers}
    assert f"{addresses[link.a]} – {addresses[link.b]}, normal" in words
    assert f"round trip{link.rtt_ms:.2f} ms" in words
    assert ask(page, "document.querySelector('#tip').hidden") is False
    page.execute_script(point % "pointerleave")
    assert ask(page, "document.querySelector('#tip').hidden") is True


@needs_chromium
def test_a_class_can_be_switched_off(page: Chrome) -> None:
    show(page, 8)
    shown = """
    return [...document.querySelectorAll('#stage .link')]
      .filter((link) => link.style.display !== 'none').map((link) => link.classList[1])
    """
    assert set(page.execute_script(shown)) == {"normal", "express", "secure"}
    page.execute_script("document.querySelector('#legend [data-class=express]').click()")
    assert set(page.execute_script(shown)) == {"normal", "secure"}


@needs_chromium
def test_what_others_say_is_text_and_nothing_else(page: Chrome) -> None:
    picture = json.loads(msgspec.json.encode(drawn_ring(8)))
    other = picture["brokers"][2]
    picture["overlay"] = other["address"] = "<img src=x onerror=alert(1)>"
    other["url"] = other["version"] = other["state"] = "<script>alert(1)</script>"
    picture["incidents"][0]["uid"] = other["uid"]
    page.execute_script("document.querySelector('details').open = true")
    assert page.execute_async_script(SHOW, picture) is None
    page.execute_script(
        "document.querySelectorAll('.broker')[2].dispatchEvent(new PointerEvent('pointerenter'))"
    )
    assert "<script>" in (text(page, "#tip") or "")
    assert "<img" in (text(page, "#incidents") or "")
    assert "<img" in (text(page, "#table") or "")
    assert count(page, "img, main script") == 0


@needs_chromium
def test_the_losses_that_a_ring_survives_are_counted_right(page: Chrome) -> None:
    """As networkx counts them."""
    circles = ((5, [1, 2]), (9, [1, 2]), (12, [1]), (16, [1, 2, 4]))
    drawn = ((7, 0.5), (10, 0.4), (14, 0.6), (20, 0.2))
    graphs = [networkx.circulant_graph(n, steps) for n, steps in circles]
    graphs += [networkx.gnp_random_graph(n, p, seed=n) for n, p in drawn]
    graphs += [networkx.complete_graph(4), networkx.empty_graph(3), networkx.path_graph(6)]
    given = [
        {
            "uids": [str(n) for n in graph],
            "links": [{"a": str(a), "b": str(b)} for a, b in graph.edges],
        }
        for graph in graphs
    ]
    found = page.execute_async_script(SURVIVES, given)
    assert found == [max(0, networkx.node_connectivity(graph) - 1) for graph in graphs]


def test_the_page_is_part_of_the_package() -> None:
    """The files that the server names are the files that there are."""
    from ges.http.app import PAGE

    folder = Path(__file__).parents[2] / "ges/http/page"
    assert {path.name for path in folder.iterdir()} == {*PAGE, "page.html"}
