"""The table of all limits in docs/limits.md: no limit and no refusal is missing in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from ges.directory import register
from ges.operations.metrics import COUNTED
from ges.profiles import profile
from ges.retained import values
from ges.sessions import named_events, parking, subscription_shares
from ges.settings import limits as settings
from ges.settings.setting import settings_of
from overlay.limits import LIMITS, Limits
from tests.ges.operations.test_metrics import counted, named

MIB = 1024 * 1024
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "limits.md"
COUNTERS = ROOT / "docs" / "counters.md"

CONSTANT = re.compile(r"^((?:MAX|MOST)_[A-Z_]+)(?:: \S+)? = ", re.MULTILINE)
#: Where something can grow by others; the types of messages are a row of their own.
ROOMS = (
    *("overlay/links", "overlay/net", "overlay/queues", "overlay/security"),
    *("ring/circle", "ring/coordination", "ring/detection", "ring/joining", "ring/records"),
    *("ring/repair", "ring/verdicts.py"),
    *("ges/access", "ges/broker", "ges/directory", "ges/gateways", "ges/http", "ges/matching"),
    *(
        "ges/mqtt",
        "ges/profiles",
        "ges/retained",
        "ges/order",
        "ges/delivery",
        "ges/routing",
        "ges/sessions",
        "ges/stack.py",
    ),
    *("ges/statements", "ges/telling", "ges/topology", "ges/units"),
)
#: What only this broker, or its owner, makes grow.
OF_ITS_OWN = {
    "how often and how long it does something of its own": {
        *("pace.MOST_SECONDS", "outbox.MOST_QUICK", "damping.MAX_DOUBLINGS", "merge.MAX_PATIENCE"),
        *("dead_runs.MAX_PATIENCE", "reclaim.MAX_TRIES", "local_health.MAX_SCORE"),
        *("drawn_chords.MAX_DRAWN", "drawn_chords.MAX_DRAWING", "drawn_chords.MAX_IN_VAIN"),
        *("chords.MAX_LEVELS", "searches.MAX_WITHOUT"),
    },
    "how large a number in a message can be": {
        *("lanes.MAX_STAMP", "sharing.MAX_SLOT", "gates.MAX_COUNT"),
        *("outgoing.MAX_PACKET_ID", "codec.MAX_REMAINING", "codec.MAX_TEXT_BYTES"),
    },
    "how long a text is that this broker writes": {
        *("reach.MAX_NAMED", "named_events.MAX_NAMED", "writing.MAX_REASON_CHARACTERS"),
        *("clients.MAX_ALTERNATES", "status.MOST_WITHOUT_WAY"),
    },
    "files and settings of its owner": {
        *("keyfiles.MAX_FILE_BYTES", "rules.MAX_FILE_BYTES", "rules.MAX_RULES"),
        *("rules.MAX_FILTERS", "token_file.MAX_BOOK_BYTES", "tokens.MAX_TOKENS"),
        *("entry_rules.MAX_ENTRIES", "declared_links.MAX_LINKS"),
        *("data_directory.MAX_BYTES",),
    },
}
#: How the name of a counter ends that counts what was refused, ended or lost for want of room.
REFUSALS = re.compile(
    r"_(refused|denied|turned_away|too_fast|too_slow|too_many|too_large|evicted|made_room|given_up|"
    r"dropped|driven_out|overrun|unanswered|silent|late|relieved|malformed|false)$|^strangers_|"
    r"_for_clients$|_errors$|_shortages$"
)
#: Counters that end so and count nothing of that kind.
DAILY = {
    "events_sent_late": "an event that came to be sent later",
    "strangers_": "the beginning of others",
}


def table() -> str:
    page = PAGE.read_text() + "\n"  # the table may be the last thing on it
    start = page.index("| what | how much | of one source | reserve |")
    return page[start : page.index("\n\n", start)]


def constants() -> Iterator[str]:
    """Name each constant that bounds something, with its file."""
    for room in ROOMS:
        path = ROOT / room
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            for match in CONSTANT.finditer(file.read_text()):
                yield f"{file.stem}.{match[1]}"


def missing_constants(text: str) -> list[str]:
    others = set().union(*OF_ITS_OWN.values())
    return sorted({n for n in constants() if n not in others and f"`{n}`" not in text})


def missing_limits(text: str) -> list[str]:
    """Name the settings and limits of a broker that a text does not have."""
    flags = [each.about.flag for each in settings_of(settings.Limits)]
    names = [f"limits.{field.name}" for field in fields(Limits)]
    return [each for each in (*flags, *names) if each not in text]


def missing_counters(text: str) -> list[str]:
    names = {name for name in {*counted(), *COUNTED} if REFUSALS.search(name)} - DAILY.keys()
    known = named(text)
    return sorted(names - known)


def test_every_limit_has_its_row() -> None:
    text = table()
    assert len(list(constants())) > 80, "the pattern finds them"
    assert missing_constants(text) == []
    assert missing_limits(text) == []


def test_every_refusal_that_is_counted_has_its_row() -> None:
    assert missing_counters(table()) == []
    unknown = named(table()) - named(COUNTERS.read_text())
    assert {name for name in unknown if not name.startswith("greetings_refused_")} == set()


def test_no_row_names_what_is_gone() -> None:
    gone = []
    for module, name in re.findall(r"`([a-z_]+)\.([A-Za-z_]+)`", table()):
        if module == "limits":
            has = name in {field.name for field in fields(Limits)} or name.startswith("MAX_")
        else:
            files = [
                *(ROOT / "overlay").rglob(f"{module}.py"),
                *(ROOT / "ring").rglob(f"{module}.py"),
            ]
            files += (ROOT / "ges").rglob(f"{module}.py")
            has = any(re.search(rf"^{name}\b", file.read_text(), re.MULTILINE) for file in files)
        if not has:
            gone.append(f"{module}.{name}")
    assert gone == []
    others = set().union(*OF_ITS_OWN.values())
    assert others <= set(constants()), "nor do the exceptions"


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("values.MAX_VALUES", (values.MAX_VALUES, values.MAX_BYTES // MIB)),
        ("profile.MAX_GROUPED", (profile.MAX_GROUPED,)),
        ("subscription_shares.MAX_NAMES", (subscription_shares.MAX_NAMES,)),
        ("register.MAX_ENTRIES", (register.MAX_ENTRIES,)),
        ("parking.MAX_PARKED", (parking.MAX_PARKED, parking.MAX_ALL_PARKED_BYTES // MIB)),
        ("named_events.MAX_ALL_BYTES", (named_events.MAX_ALL_BYTES // MIB,)),
        ("limits.links_per_second", (LIMITS.links_per_second,)),
        ("limits.subscription_bytes", (LIMITS.subscription_bytes_total // MIB,)),
    ],
)
def test_the_numbers_of_a_row_are_those_that_hold(name: str, numbers: tuple[float, ...]) -> None:
    (row,) = [row for row in table().splitlines() if f"`{name}`" in row]
    for number in numbers:
        assert re.search(rf"\b{number:,.0f}\b", row), (number, row)


def test_each_row_says_what_one_source_has_and_what_is_reserved() -> None:
    for row in table().splitlines()[2:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 6, row
        assert all(cells) or cells[0].startswith("**"), row


@pytest.mark.parametrize(
    ("row", "misses"),
    [
        ("`profile.MAX_GROUPED`", "profile.MAX_GROUPED"),
        ("--max-retained", "--max-retained"),
        ("`limits.links_per_second`", "limits.links_per_second"),
        ("`retained_refused`", "retained_refused"),
    ],
)
def test_a_row_that_is_taken_out_is_missed(row: str, misses: str) -> None:
    text = table().replace(row, "")
    found = [*missing_constants(text), *missing_limits(text), *missing_counters(text)]
    assert misses in found
