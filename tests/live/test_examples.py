"""The examples, as their readers run them, on real brokers."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.forked import Stem
from benchmarks.stage.processes import REPOSITORY, Fleet, fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live

EXAMPLES = REPOSITORY / "examples"
LIMIT_SECONDS = 60


def started(name: str, *arguments: str, out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as file:
        command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=REPOSITORY)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, stem: Stem | None) -> Iterator[str]:
    """A broker for examples that let it live."""
    with fleet(tmp_path_factory.mktemp("fleet"), stem) as found:
        yield found.broker().url


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_plain_asyncio_goes_on_when_its_broker_is_killed(
    brokers: Fleet, tmp_path: Path, loop: str
) -> None:
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed (extra: dev)")
    ring = brokers.ring_of(2)
    arguments = (ring[0].url, "--count", "60", "--every", "0.02")
    out = tmp_path / "out"
    more = ("--uvloop",) if loop == "uvloop" else ()
    example = started("plain_asyncio.py", *arguments, *more, out=out)
    try:
        eventually(lambda: "20: " in out.read_text() or example.poll() is not None)
        ring[0].signal(signal.SIGKILL)
        assert example.wait(LIMIT_SECONDS) == 0, out.read_text()
    finally:
        example.kill()
        example.wait()
    said = out.read_text().splitlines()
    assert said[0] == f"attached to {ring[0].url}"
    assert re.fullmatch(
        rf"moved from {ring[0].url} to {ring[1].url}, after [\d.]+ s",
        next(line for line in said if line.startswith("moved")),
    )
    readings = [line for line in said if ": home/" in line]
    assert readings == [
        f"{number + 1}: home/kitchen/temperature {20 + number % 5}.5" for number in range(60)
    ]


def test_script_sync_asks_all(url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    example = started("script_sync.py", url, out=out)
    try:
        assert example.wait(LIMIT_SECONDS) == 0, out.read_text()
    finally:
        example.kill()
        example.wait()
    assert out.read_text() == "3 readings, 23.7 degrees in the mean\n"


def test_fastapi_app_serves_and_goes_on_when_its_broker_is_killed(
    brokers: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed (extra: dev)")
    pytest.importorskip("fastapi", reason="fastapi is not installed (extra: dev)")
    ring = brokers.ring_of(2)
    monkeypatch.setenv("CHORDAL_URL", ring[0].url)
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fastapi_app", module)
    spec.loader.exec_module(module)
    app: Any = module.app

    async def visit() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://app") as web,
        ):
            assert (await web.get("/healthz")).json() == {"broker": ring[0].url, "moves": 0}
            assert (await web.get("/last/home/kitchen")).status_code == 404
            assert (await web.post("/events/home/+", content="x")).status_code == 422
            assert (await web.get("/stream/home/>")).status_code == 422
            streaming = asyncio.create_task(web.get("/stream/home/+?count=2"))
            client = app.state.events.client
            while (await client.status()).subscriptions < 2:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            for payload in ("21.5", "two\nlines"):
                taken = await web.post("/events/home/kitchen", content=payload)
                assert taken.status_code == 202
            assert (await streaming).text == (
                "event: home/kitchen\ndata: 21.5\n\nevent: home/kitchen\ndata: two\ndata: lines\n\n"
            )
            assert (await web.get("/last/home/kitchen")).json() == "two\nlines"
            ring[0].signal(signal.SIGKILL)
            assert (await web.post("/events/home/hall", content="19")).status_code == 202
            while (last := await web.get("/last/home/hall")).status_code == 404:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert last.json() == "19"
            health = (await web.get("/healthz")).json()
            assert health == {"broker": ring[1].url, "moves": 1}

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await visit()

    asyncio.run(limited())
