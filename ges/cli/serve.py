"""``chordal serve``: one broker, until it is told to stop."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

import ges.cli.lean_logging  # noqa: F401  # before whatever logs
from ges.cli.options import run_async, tell
from ges.cli.setting_options import SettingsCommand, setting_options
from ges.settings.gathering import DEFAULT_FILE, Sources, gather, odd_variables

if TYPE_CHECKING:
    import trio

    from ges.broker import Broker, BrokerConfig
    from ges.cli.reloading import Reloading
    from ges.http.settings import AdminSettings
    from ges.mqtt.settings import MqttSettings
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

    A flag is stronger than an environment variable, and that is stronger than the file. SIGTERM
    drains it: its clients go to other brokers, within --grace, then it leaves the ring and stops. A
    second one, or SIGINT, does not wait for clients. With --config, --access or --tokens, SIGHUP
    makes it read those files again: what can change while it runs does.
    """
    from ges.cli.logs import configure_logs
    from ges.cli.reloading import Reloading, open_files, warn_of_limits
    from ges.settings.brokers import broker_config

    if check:
        return _check(sources)
    found = gather(sources)
    settings = found.settings
    config = replace(broker_config(settings, open_files(settings)), has_process=True)
    logs = configure_logs(settings.log.level, settings.log.format, settings.name)
    _warn(sources)
    warn_of_limits(found, config)
    reloading = Reloading(sources, found, logs)
    run_async(_serve, config, reloading, _admin(settings), _mqtt(settings))
    return 0


def _admin(settings: Settings) -> AdminSettings | None:
    """Return what is said of the admin server; None: there is to be none."""
    from ges.http.settings import admin_settings

    said = settings.admin
    return admin_settings(said.listen, said.token_file, said.tls) if said.listen else None


def _mqtt(settings: Settings) -> MqttSettings | None:
    """Return what is said of the door for MQTT clients; None: there is to be none."""
    from ges.mqtt.settings import mqtt_settings

    said = settings.mqtt
    return mqtt_settings(said.listen, said.tls) if said.listen else None


def _check(sources: Sources) -> int:
    """Print all that is wrong, and return the exit code."""
    from ges.broker.config import faults_of
    from ges.errors import SettingsError
    from ges.settings.brokers import broker_config
    from overlay.errors import ConfigError

    mistakes: list[tuple[str, str]]  #: with their codes
    try:
        settings = gather(sources).settings
        mistakes = [(str(each), each.code) for each in faults_of(broker_config(settings))]
        _admin(settings)
        _mqtt(settings)
    except ConfigError as error:
        lines = error.mistakes if isinstance(error, SettingsError) else (str(error),)
        mistakes = [(line, error.code) for line in lines]
    for mistake, code in mistakes:
        tell(f"chordal: error: {mistake} [{code}]", err=True)
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


async def _serve(
    config: BrokerConfig,
    reloading: Reloading,
    admin: AdminSettings | None,
    mqtt: MqttSettings | None,
) -> None:
    import trio

    from ges.broker import Broker
    from overlay.links.heap_trim import trim

    broker = Broker(config)
    admin_url = mqtt_url = None
    asked = (signal.SIGTERM, signal.SIGINT, *reloading.signals)
    with trio.open_signal_receiver(*asked) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed_signals, signals, broker, reloading)
            nursery.start_soon(_end_when_drained, broker, nursery.cancel_scope)
            if admin is not None:  # first: it says why a broker is not ready
                from ges.http.app import AdminApp

                app = AdminApp(broker, admin)
                await nursery.start(app.run)
                admin_url = app.server.url
            if mqtt is not None:
                from ges.mqtt.door import MqttDoor, listen

                listeners = await listen(mqtt)  # an address in use is told before others know of us
            await nursery.start(broker.run)
            if mqtt is not None:
                door = MqttDoor(broker, mqtt, listeners)
                nursery.start_soon(door.run)
                mqtt_url = door.url
            _print_ready(broker, admin_url, mqtt_url)
            # What is there by now stays: collections that pass it over are short, and an event
            # that comes meanwhile waits less.
            gc.collect()
            gc.freeze()
            trim()  # what starting took


async def _heed_signals(signals: AsyncIterator[int], broker: Broker, reloading: Reloading) -> None:
    async for number in signals:
        if number == signal.SIGHUP:
            await reloading.reload(broker)
        elif number == signal.SIGTERM and not broker.is_draining:
            broker.drain()
        else:
            broker.hurry()
            broker.drain(0)


async def _end_when_drained(broker: Broker, scope: trio.CancelScope) -> None:
    await broker.drained()
    scope.cancel()


def _print_ready(broker: Broker, admin_url: str | None, mqtt_url: str | None) -> None:
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
    if admin_url is not None:
        line["admin_url"] = admin_url
    if mqtt_url is not None:
        line["mqtt_url"] = mqtt_url
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # nobody reads it; the broker serves all the same
