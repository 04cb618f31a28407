"""What ``chordal serve`` does at SIGHUP: it reads its settings again, and takes what can change."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
import trio

from ges.broker.config import check_changes
from ges.cli.logs import Logs
from ges.settings.brokers import broker_config, wanted_files
from ges.settings.gathering import Gathered, Source, Sources, gather
from ges.settings.reloading import Change, changes, merged
from ges.settings.schema import LogLevel, Settings
from overlay.errors import ConfigError

if TYPE_CHECKING:
    from ges.broker import Broker, BrokerConfig


class Reloading:
    """The settings of a running broker."""

    def __init__(self, sources: Sources, found: Gathered, logs: Logs) -> None:
        self.settings = found.settings  #: in force
        self._sources = sources
        self._logs = logs
        self._log = structlog.get_logger("chordal.settings")

    @property
    def signals(self) -> tuple[signal.Signals, ...]:
        """What asks for it: a hang-up ends a broker that has no file to read again, as it ends any.

        What is asked of a broker that has one may be to look at further ones.
        """
        security = self.settings.security
        has_files = self._sources.file or security.access or security.tokens
        return (signal.SIGHUP,) if has_files else ()

    async def reload(self, broker: Broker) -> None:
        """Do it; a file that is wrong changes nothing, and the log says why."""
        if not broker.is_composed:
            self._log.warning("still starting: settings not read again; send SIGHUP later")
            return
        try:
            found = await trio.to_thread.run_sync(gather, self._sources)
            settings = merged(self.settings, found)
            config = broker_config(settings, open_files(settings))
            check_changes(config)
        except ConfigError as error:
            for words in str(error).splitlines():
                self._log.error("wrong settings, the earlier ones stay in force", why=words)
            await broker.reload()  # rules and tokens: a revocation is not to wait for that
            return
        changed = list(changes(self.settings, found))
        old, new = self.settings.log, settings.log
        self.settings = settings
        # What changes is told if it would have been before, or is from now on.
        self._logs.change(min(old.level, new.level, key=list(LogLevel).index), new.format)
        for change in changed:
            self._tell(change)
        warn_of_limits(found, config)
        await broker.reload(config)
        if self._sources.file is not None:
            count = sum(change.takes_effect for change in changed)
            self._log.info("settings read again", changed=count)
        self._logs.change(new.level, new.format)

    def _tell(self, change: Change) -> None:
        says, what = self._log.warning, "setting needs a restart"
        if change.takes_effect:
            says, what = self._log.info, "setting changed"
        key = change.setting.key
        says(what, key=key, running=change.old, new=change.new, by=change.place)


def open_files(settings: Settings) -> int | None:
    """Raise the number of files this process may open as far as it may; None: there is no limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_files(settings)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # not allowed here: keep to what there is
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def warn_of_limits(found: Gathered, config: BrokerConfig) -> None:
    """Say which limits that somebody has set cannot be kept, as too few files may be open."""
    log = structlog.get_logger("chordal.settings")
    for name in ("connections", "clients", "strangers"):
        key, allowed = f"limits.{name}", getattr(config.limits, name)
        if found.found[key].source is not Source.DEFAULT and allowed < found.value(key):
            log.warning(
                "limits lowered",
                key=key,
                wanted=found.value(key),
                allowed=allowed,
                why="this process may open too few files: raise the limit (ulimit -n)",
            )
