"""Settings for all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from benchmarks.stage.forked import CAN_FORK, Stem
from tests.helpers import formed
from tests.helpers.budget import Budget
from tests.helpers.examples import PROFILES

if sys.dont_write_bytecode:
    # Each worker, and each of the hundreds of processes that tests start, would compile all that
    # it imports. Nothing is written beside the sources all the same.
    bytecode = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.pycache_prefix, sys.dont_write_bytecode = bytecode, False
    os.environ["PYTHONPYCACHEPREFIX"] = bytecode
    del os.environ["PYTHONDONTWRITEBYTECODE"]

# Started in the background of a script, we would hand an ignored SIGINT down to those we interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy makes examples slow, not wrong.
for profile, count in PROFILES.items():
    settings.register_profile(profile, deadline=None, max_examples=count)
settings.load_profile("chordal")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budget(config), "budget")
    config.pluginmanager.register(formed, "formed")


@pytest.fixture(scope="session", autouse=True)
def _no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the connections that whoever runs the tests has named out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("CHORDAL_CONTEXT", raising=False)
        yield


@pytest.fixture(scope="session")
def stem() -> Iterator[Stem | None]:
    """What forks brokers and commands; None where the system has no such thing."""
    if not CAN_FORK:
        yield None
        return
    found = Stem()
    yield found
    found.end()


#: Tests that share what takes long to make, a JVM or an overlay; and what they share.
TOGETHER = {
    "tests/spark/": "a JVM",
    "tests/ges/units/test_moving_units.py": "thirteen brokers with names",
    "tests/sims/whole/test_activity_levels.py": "clusters",
    "tests/sims/whole/test_groups_of_all.py": "clusters",
    "tests/sims/whole/test_levels.py": "clusters",
    "tests/sims/whole/test_lost_gateways.py": "clusters",
    "tests/sims/whole/test_named_clients.py": "clusters",
    "tests/sims/whole/test_realms.py": "clusters",
    "tests/sims/whole/test_secure_units.py": "clusters",
}
FIRST = 60  #: so many of the longest are given out before the others


class Longest(OrderedDict[str, dict[str, bool]]):
    """A queue of tests, by what they share; those that lasted longest go first."""

    def __init__(self, first: list[str]) -> None:
        super().__init__()
        self._first = first

    def popitem(self, last: bool = True) -> tuple[str, dict[str, bool]]:
        while self._first:
            if (scope := self._first.pop(0)) in self:
                return scope, self.pop(scope)
        return super().popitem(last)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives tests that share something to one worker, others one by one, and the longest first.

    A long test that is begun last would keep one worker busy, and the others would wait for it.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:  # noqa: ANN401 - xdist's own
        super().__init__(config, log)
        lasted: defaultdict[str, float] = defaultdict(float)
        budget = config.pluginmanager.get_plugin("budget")
        assert isinstance(budget, Budget)
        for nodeid, seconds in budget.lasted.items():
            lasted[self._split_scope(nodeid)] += seconds
        self.workqueue = Longest(sorted(lasted, key=lambda scope: -lasted[scope])[:FIRST])

    def _split_scope(self, nodeid: str) -> str:
        return next((TOGETHER[begins] for begins in TOGETHER if nodeid.startswith(begins)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:  # noqa: ANN401
    """Stand in for ``--dist``, whose ``loadgroup`` does not know groups under pytest 9.2."""
    return Together(config, log)
