"""Tables that brokers share: which row counts, what is kept, and what brokers ask each other."""

from __future__ import annotations

import msgspec
import pytest

from ges.telling.shared import Table, is_later, pack_rows
from ges.wire.link_codec import LINK_CODEC
from ges.wire.telling_messages import MAX_CONTENT_BYTES, HeldRow, Letter, Row, RowVersion
from overlay.circular import HIGHEST, following
from overlay.wire.frames import MAX_CONTROL_BYTES

EARLY = 3


class Note(msgspec.Struct, frozen=True):
    """A row: somebody's note."""

    of: str
    version: RowVersion
    text: str = ""


def note(of: str, count: int, epoch: int = 1, writer: str = "w") -> Note:
    return Note(of, RowVersion(epoch, count, writer), f"{epoch}.{count}")


def table_of(*keys: str) -> Table[Note]:
    table: Table[Note] = Table(lambda row: row.of, lambda row: row.version, EARLY)
    table.follow(keys)
    return table


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 2, "a"), (1, 1, "b")), ((2, 1, "a"), (1, 9, "b")), ((1, 1, "b"), (1, 1, "a"))],
)
def test_which_of_two_versions_counts(
    one: tuple[int, int, str], other: tuple[int, int, str]
) -> None:
    assert is_later(RowVersion(*one), RowVersion(*other))
    assert not is_later(RowVersion(*other), RowVersion(*one))


def test_no_version_is_the_last() -> None:
    forged = RowVersion(HIGHEST, HIGHEST, "f")
    assert is_later(RowVersion(following(HIGHEST), 1, "a"), forged)
    assert is_later(RowVersion(HIGHEST, following(HIGHEST), "a"), forged)


def test_only_a_later_row_is_taken() -> None:
    table = table_of("a")
    assert table.take_row(note("a", 2))
    assert not table.take_row(note("a", 2))
    assert not table.take_row(note("a", 1))
    assert table.take_row(note("a", 1, epoch=2))
    assert not table.take_row(note("a", 7))
    assert list(table) == [note("a", 1, epoch=2)]


def test_the_digest_does_not_depend_on_how_the_table_came_about() -> None:
    one, other = table_of("a", "b", "c"), table_of("c", "b")
    rows = [note("a", 1), note("b", 4), note("c", 2)]
    for row in rows:
        one.take_row(row)
    other.take_row(note("a", 0))
    for row in reversed(rows):
        other.take_row(row)
    assert one.digest != other.digest, "nobody is a there yet"
    other.follow(("a", "b", "c"))
    assert one.digest == other.digest != 0
    one.follow(("a", "c"))
    assert one.digest != other.digest
    other.follow(("c", "a"))
    assert one.digest == other.digest < 2**63


def test_rows_end_with_their_key_and_those_that_come_early_are_few() -> None:
    table = table_of("a")
    for key in ("a", "b", "c", "d", "e"):
        table.take_row(note(key, 1))
    assert [key for key in "abcde" if table.get(key)] == ["a", "c", "d", "e"]
    assert list(table) == [note("a", 1)]
    table.follow(("c",))
    assert [key for key in "abcde" if table.get(key)] == ["c", "d", "e"], "a is dropped"
    assert len(table) == 1 + 2


def test_a_broker_gets_what_it_lacks_and_is_asked_for_what_it_has_more() -> None:
    table = table_of("a", "b", "c", "d")
    for key in ("a", "b", "c"):
        table.take_row(note(key, 2))
    theirs = table_of("a", "b", "c", "d")
    theirs.take_row(note("a", 2))
    theirs.take_row(note("b", 1))
    assert table.later_than(theirs.held) == ([note("b", 2), note("c", 2)], False)
    theirs.take_row(note("c", 3))
    assert table.later_than(theirs.held) == ([note("b", 2)], True)
    theirs.take_row(note("c", 2))
    stranger = [*table.held, HeldRow("x", RowVersion(1, 1, ""))]
    assert table.later_than(stranger) == ([], False), "x belongs to nobody here"
    assert table.later_than([*table.held, HeldRow("d", RowVersion(1, 1, ""))]) == ([], True)


def test_rows_go_in_as_few_messages_as_they_fit_into() -> None:
    rows = [(1, Note(str(at), RowVersion(1, 1, ""), "x" * 20_000)) for at in range(7)]
    messages = pack_rows(rows)
    assert len(messages) == 4
    letters = [Letter("a" * 32, 0, "b" * 32, 0, LINK_CODEC.encode(each)) for each in messages]
    assert all(len(LINK_CODEC.encode(each)) <= MAX_CONTROL_BYTES for each in letters)
    assert all(len(each.content) <= MAX_CONTENT_BYTES for each in letters)
    read = [row for each in messages for row in msgspec.msgpack.decode(each.packed, type=list[Row])]
    assert [msgspec.msgpack.decode(row.content, type=Note) for row in read] == [n for _, n in rows]
    assert pack_rows([]) == []
