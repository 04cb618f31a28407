"""Overlays that have formed: each test goes on with its own, in a fork of the process that has it.

To form an overlay costs more than most tests do with it. A test says what it begins with::

    @pytest.mark.formed(Service.of_clusters, 9, 3)
    def test_something(service: Service) -> None: ...

A worker forms that overlay once, and never lets it go on. The test runs in a fork, so whatever it
does is gone with the fork. Where no process can fork, each test forms its own.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from typing import NoReturn

import pytest

CAN_FORK = hasattr(os, "fork")

_formed: dict[object, object] = {}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> object:
    """The simulated brokers that a test begins with."""
    return begin(request.node)


@pytest.fixture
def ring(request: pytest.FixtureRequest) -> object:
    """The simulated ring that a test begins with."""
    return begin(request.node)


def begin(item: pytest.Item) -> object:
    """Return what the mark of a test forms."""
    mark = item.get_closest_marker("formed")
    assert mark is not None, f"{item.nodeid} does not say what it begins with"
    form, *arguments = mark.args
    key = (form, *arguments, *sorted(mark.kwargs.items()))
    if key not in _formed:
        made = form(*arguments, **mark.kwargs)
        if not CAN_FORK:
            return made
        _formed[key] = made
        gc.collect()
        gc.freeze()  # it stays, here and in all forks
    return _formed[key]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test with that mark in a fork, and fail with what has failed there."""
    if pyfuncitem.get_closest_marker("formed") is None or not CAN_FORK:
        return None
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # A worker's other thread only waits for what to run next.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _run(pyfuncitem, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as told:
        text = told.read()
    _, status = os.waitpid(pid, 0)
    if text or status:
        pytest.fail(text or f"the fork has ended with {status}", pytrace=False)
    return True


def _run(item: pytest.Function, telling: int) -> NoReturn:
    """Run a test, tell how it has failed, and end."""
    code = 1
    try:
        text = ""
        try:
            item.obj(**{name: item.funcargs[name] for name in item._fixtureinfo.argnames})
        except BaseException:  # noqa: BLE001 - nothing of the test may go on in the fork
            text = traceback.format_exc()
        with open(telling, "w", encoding="utf-8") as told:
            told.write(text)
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)
