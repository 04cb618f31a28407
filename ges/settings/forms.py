"""How settings are written that are times, sizes, addresses or lists of brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ges.discovery.targets import parse_announce, parse_join
from ges.settings.quantities import bytes_of, bytes_text, seconds_of, time_text
from ges.settings.setting import Form
from ges.topology.declared_links import parse_links
from ges.units.entry_rules import parse_rules
from ges.units.unit_names import parse_unit
from overlay.address import parse_endpoint
from overlay.wire.greetings import check_overlay

LOOPBACK = "127.0.0.1"


def _read_time(written: Any) -> float:  # noqa: ANN401 - whatever a file holds
    if isinstance(written, str):
        seconds = seconds_of(written.strip().lower())
        if seconds is not None:
            return seconds
    elif written == 0 and not isinstance(written, bool):
        return 0.0
    raise ValueError


def _read_bytes(written: Any) -> int:  # noqa: ANN401
    size = bytes_of(written.strip()) if isinstance(written, str) else written
    if not isinstance(size, int) or isinstance(size, bool):
        raise ValueError
    return size


def _text(written: Any) -> str:  # noqa: ANN401
    if not isinstance(written, str) or not written.strip():
        raise ValueError
    return written.strip()


def _read_listen(written: Any) -> str:  # noqa: ANN401
    text = _text(written)
    parse_endpoint(text, default_host=LOOPBACK)
    return text


def _read_endpoint(written: Any) -> str:  # noqa: ANN401
    text = _text(written)
    parse_endpoint(text, default_port=0)
    return text


def _read_brokers(written: Any) -> list[str]:  # noqa: ANN401
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise ValueError
    found: dict[str, None] = {}
    for item in (part.strip() for text in written for part in text.split(",")):
        if item:
            addresses, _ = parse_join([item])
            found[addresses[0].url if addresses else item] = None
    return list(found)


def _read_announce(written: Any) -> str:  # noqa: ANN401
    text = _text(written)
    parse_announce(text)
    return text


def _read_links(written: Any) -> list[str]:  # noqa: ANN401
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise ValueError
    return [*parse_links(written)]


def _read_unit(written: Any) -> str:  # noqa: ANN401
    if not isinstance(written, str):
        raise ValueError
    parse_unit(written)
    return written


def _read_admit(written: Any) -> list[str]:  # noqa: ANN401
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise ValueError
    return [*parse_rules(written).admit]


def _read_gateways(written: Any) -> list[int]:  # noqa: ANN401
    if not isinstance(written, list) or any(isinstance(each, bool | float) for each in written):
        raise ValueError
    return [*parse_rules((), map(int, written)).gateways]


def _read_overlay(written: Any) -> str:  # noqa: ANN401
    if not isinstance(written, str):
        raise ValueError
    return check_overlay(written)


def _read_path(written: Any) -> str:  # noqa: ANN401
    return str(Path(_text(written)).expanduser())


TIME = Form("a time such as 5ms, 1.5s or 2m", _read_time, time_text)
BYTES = Form("a number of bytes, or a size such as 64MiB", _read_bytes, bytes_text)
LISTEN = Form("an address HOST:PORT, or a port of this machine alone", _read_listen, str)
ENDPOINT = Form("HOST or HOST:PORT", _read_endpoint, str)
BROKERS = Form(
    'a list of URLs of brokers, such as ["chordal://10.1.0.7:9470"], or of dns:NAME, mdns: and '
    "file:PATH",
    _read_brokers,
    list,
    is_list=True,
)
ANNOUNCE = Form("mdns: or mdns:ADDRESS", _read_announce, str, alone="mdns:")
ADMIT = Form(
    'a list of ranges of addresses and of uids, such as ["10.1.0.0/16"]',
    _read_admit,
    list,
    is_list=True,
)
GATEWAYS = Form(
    "four numbers from 1 to 64, such as [64, 16, 8, 8]", _read_gateways, list, is_list=True
)
UNIT = Form("one to three names, such as eu/fra/a", _read_unit, str)
EVENT_LINKS = Form(
    'a list of URLs of brokers, such as ["chordal://10.1.0.7:9470"]',
    _read_links,
    list,
    is_list=True,
)
OVERLAY = Form("the name of an overlay", _read_overlay, str)
PATH = Form("a path", _read_path, str)
