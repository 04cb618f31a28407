"""``chordal serve``: one broker, until it is told to stop."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ges.cli.options import run_async, tell
from ges.cli.setting_options import SettingsCommand, setting_options
from ges.settings.gathering import DEFAULT_FILE, Gathered, Sources, gather, odd_variables

if TYPE_CHECKING:
    import trio

    from ges.broker import Broker, BrokerConfig
    from ges.cli.logs import Logs
    from ges.settings.schema import Settings


@click.command(cls=SettingsCommand)
@click.option(
    "--check",
    is_flag=True,
    help="Check all settings and the files they name, say what is wrong, and exit with 0 or 1.",
)
@setting_options
def serve(check: bool, sources: Sources) -> int:
    """Start a broker. It joins the ring by itself and prints one line of JSON when it has.

    A flag is stronger than an environment variable, and that is stronger than the file. SIGTERM and
    SIGINT make the broker leave the ring and stop. With --config, --access or --tokens, SIGHUP
    makes it read those files again: what can change while it runs does.
    """
    from ges.cli.logs import configure_logs
    from ges.settings.brokers import broker_config

    if check:
        return _check(sources)
    found = gather(sources)
    config: BrokerConfig = broker_config(found.settings, _open_files(found.settings))
    log = found.settings.log
    logs = configure_logs(log.level, log.format)
    _warn(sources)
    _warn_of_limits(found, config)
    run_async(_serve, config, _Reloading(sources, found, logs))
    return 0


def _check(sources: Sources) -> int:
    """Print all that is wrong, and return the exit code."""
    from ges.broker.config import faults_of
    from ges.settings.brokers import broker_config
    from overlay.errors import ConfigError

    try:
        found = gather(sources)
        mistakes = faults_of(broker_config(found.settings))
    except ConfigError as error:
        mistakes = str(error).splitlines()
    for mistake in mistakes:
        tell(f"chordal: error: {mistake}", err=True)
    if mistakes:
        return 1
    click.echo("the settings are in order")
    return 0


def _warn(sources: Sources) -> None:
    """Say what might have been meant for a setting, and is none."""
    import structlog

    log = structlog.get_logger("chordal.settings")
    for words in odd_variables(sources.environment):
        log.warning("environment variable not used", why=words)
    if sources.file is None and DEFAULT_FILE.exists():
        log.warning(
            "settings file not read",
            file=str(DEFAULT_FILE),
            why="none is read that is not named: give --config",
        )


def _warn_of_limits(found: Gathered, config: BrokerConfig) -> None:
    """Say which limits that somebody has set cannot be kept, as too few files may be open."""
    import structlog

    from ges.settings.gathering import Source

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


def _open_files(settings: Settings) -> int | None:
    """Raise the number of files this process may open as far as it may; None: there is no limit."""
    import resource

    from ges.settings.brokers import wanted_files

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_files(settings)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # not allowed here: keep to what there is
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


class _Reloading:
    """Reads the settings again while a broker runs, and has it take what can change."""

    def __init__(self, sources: Sources, found: Gathered, logs: Logs) -> None:
        self._sources = sources
        self._running = found.settings
        self._logs = logs

    @property
    def signals(self) -> tuple[signal.Signals, ...]:
        """What asks for it: a hang-up ends a broker that has no file to read again, as it ends any.

        What a file names later is read again as well, as that file is there to be read.
        """
        security = self._running.security
        is_asked = self._sources.file or security.access or security.tokens
        return (signal.SIGHUP,) if is_asked else ()

    async def reload(self, broker: Broker) -> None:
        """Do it; a file that is wrong changes nothing, and the log says why."""
        import structlog
        import trio

        from ges.settings.brokers import broker_config
        from ges.settings.reloading import changes, merged
        from overlay.errors import ConfigError

        log = structlog.get_logger("chordal.settings")
        if not broker.is_composed:
            log.warning("still starting: settings not read again, send SIGHUP again")
            return
        try:
            found = await trio.to_thread.run_sync(gather, self._sources)
            settings = merged(self._running, found)
            config = broker_config(settings, _open_files(settings))
            _warn_of_limits(found, config)
        except ConfigError as error:
            for words in str(error).splitlines():
                log.error("wrong settings, the earlier ones stay in force", why=words)
            await broker.reload()
            return
        changed = list(changes(self._running, found))
        old, new = self._running.log, settings.log
        self._running = settings
        # What changes is told if it would have been before, or is from now on.
        self._logs.change(min(old.level, new.level, key=list(type(new.level)).index), new.format)
        for change in changed:
            tell_of = log.info if change.takes_effect else log.warning
            tell_of(
                "setting changed" if change.takes_effect else "setting needs a restart",
                key=change.setting.key,
                running=change.old,
                new=change.new,
                by=change.place,
            )
        await broker.reload(config)
        if self._sources.file is not None:
            log.info("settings read again", changed=sum(each.takes_effect for each in changed))
        self._logs.change(new.level, new.format)


async def _serve(config: BrokerConfig, reloading: _Reloading) -> None:
    import trio

    from ges.broker import Broker

    broker = Broker(config)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, *reloading.signals) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed_signals, signals, broker, reloading, nursery.cancel_scope)
            await nursery.start(broker.run)
            _print_ready(broker)
            # What is there by now stays: collections that pass it over are short, and an event
            # that comes meanwhile waits less.
            gc.collect()
            gc.freeze()


async def _heed_signals(
    signals: AsyncIterator[int], broker: Broker, reloading: _Reloading, scope: trio.CancelScope
) -> None:
    async for number in signals:
        if number == signal.SIGHUP:
            await reloading.reload(broker)
            continue
        await broker.leave()
        scope.cancel()
        return


def _print_ready(broker: Broker) -> None:
    member = broker.node.ring.member
    assert member is not None
    line = {
        "ready": True,
        "url": broker.url,
        "secure_url": broker.secure_url,
        "ring_id": member.ring_id,
        "uid": member.uid,
        "name": broker.config.name,
    }
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # nobody reads it; the broker serves all the same
