"""Settings for all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Started in the background of a script, we would hand an ignored SIGINT down to those we interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy makes examples slow, not wrong.
settings.register_profile("chordal", deadline=None)
settings.load_profile("chordal")


@pytest.fixture(scope="session", autouse=True)
def _no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the connections that whoever runs the tests has named out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CHORDAL_CONTEXT", raising=False)
        yield


class OneJvm(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests of ``spark`` to one worker, where one JVM serves them; others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith("tests/spark/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneJvm:  # noqa: ANN401
    """Stand in for ``--dist``, whose ``loadgroup`` does not know groups under pytest 9.2."""
    return OneJvm(config, log)
