"""Hypothesis strategies for wire messages, derived from the types of their fields."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

S = TypeVar("S", bound=msgspec.Struct)

#: Longest tuple that is drawn, so that examples stay small; the limits have tests of their own.
MAX_ITEMS = 4


def structs(kind: type[S]) -> st.SearchStrategy[S]:
    """Draw values of ``kind`` that its own field types allow."""
    drawn: st.SearchStrategy[S] = _drawn(inspect.type_info(kind))
    return drawn


def largest(kind: type[S]) -> S:
    """Return the value of ``kind`` that takes most room, with texts in ASCII."""
    made: S = _largest(inspect.type_info(kind))
    return made


def _drawn(held: inspect.Type) -> st.SearchStrategy[Any]:
    match held:
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _drawn(field.type) for field in fields})
        case inspect.VarTupleType(item_type=item, min_length=low, max_length=high):
            assert high is not None, "a tuple without a limit on the wire"
            few = min(high, MAX_ITEMS)
            return st.lists(_drawn(item), min_size=low or 0, max_size=few).map(tuple)
        case inspect.UnionType(types=options):
            return st.one_of([_drawn(option) for option in options])
        case inspect.EnumType(cls=values):
            return st.sampled_from(list(values))
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(pattern.strip("^$"), fullmatch=True)
        case inspect.StrType(min_length=low, max_length=high):
            assert high is not None, "a text without a limit on the wire"
            return st.text(min_size=low or 0, max_size=min(high, 40))
        case inspect.BytesType(min_length=low, max_length=high):
            assert high is not None, "bytes without a limit on the wire"
            return st.binary(min_size=low or 0, max_size=max(low or 0, min(high, 40)))
        case inspect.IntType(ge=int(low), le=int(high)):
            return st.integers(low, high)
        case inspect.IntType(ge=int(low), lt=int(high)):
            return st.integers(low, high - 1)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise AssertionError(f"no strategy for {held}: is it bounded?")


def _largest(held: inspect.Type) -> Any:  # noqa: ANN401 - a value of any field
    match held:
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _largest(field.type) for field in fields})
        case inspect.VarTupleType(item_type=item, max_length=int(high)):
            return (_largest(item),) * high
        case inspect.UnionType(types=options):
            return _largest(options[0])
        case inspect.EnumType(cls=values):
            return max(values, key=lambda value: len(str(value)))
        case inspect.StrType(max_length=int(high)):
            return "a" * high
        case inspect.BytesType(max_length=int(high)):
            return b"a" * high
        case inspect.IntType(le=int(high)):
            return high
        case inspect.IntType(lt=int(high)):
            return high - 1
        case inspect.BytesType(max_length=int(high)):
            return b"a" * high
        case inspect.BoolType():
            return True
    raise AssertionError(f"nothing largest for {held}: is it bounded?")
