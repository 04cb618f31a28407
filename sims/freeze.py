"""The state of a machine as a value: to put it back later, and to tell whether two are the same.

Exploring all that may happen means to come back to one state again and again. Copying a machine
would copy what is bound to it wrongly (its tables of handlers refer to the machine they were made
for), so a snapshot keeps the *contents* of every object the machine consists of, and restoring puts
them back into the same objects.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable
from dataclasses import is_dataclass
from enum import Enum, auto
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import msgspec

from overlay.machine import TimerTable
from ring.config import RingConfig

#: Attributes that do not tell two states apart. Times, as the clock stands still while we explore;
#: what is drawn at random or measured, as it decides only pauses and the contact; caches and their
#: counters (``seen``: what a row was made of); who bore witness, which is only told; what traces
#: are labelled with (``_unrepaired``); how many pings were sent (``probes``, ``tries``), of which
#: one more or less only decides how often a timer has to run out until the ping is given up.
IGNORED = frozenset(
    {
        "_effects",
        "_failures",
        "_followed",
        "_rng",
        "_row",
        "_row_of",
        "_settled",
        "_shown",
        "_suspect_changes",
        "_token",
        "_unrepaired",
        "asked_at",
        "deviation",
        "generation",
        "heard_at",
        "idle_ns",
        "looked_at",
        "mean",
        "members",
        "now",
        "patience_ends",
        "probes",
        "refilled_at",
        "rng",
        "round_trip_ns",
        "samples",
        "score",
        "seen",
        "sent_at",
        "since",
        "token",
        "told",
        "tries",
        "witnesses",
    }
)

#: Counters that begin anew behind a snapshot: what was counted before would tell states apart that
#: are the same. The tokens of pings: an answer that comes late counts as one to the latest ping.
RESET = frozenset({"_token"})


class Snapshot:
    """The contents of all that ``root`` consists of, at one moment."""

    __slots__ = ("_saved",)

    def __init__(self, root: object) -> None:
        self._saved: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        waiting: list[object] = [root]
        while waiting:
            here: Any = waiting.pop()
            kind = _kind(type(here))
            if kind is Kind.ATOM or id(here) in seen:
                continue
            seen.add(id(here))
            if kind is Kind.TABLE:
                self._saved.append((here, dict(here)))
                waiting.extend(here.keys())
                waiting.extend(here.values())
            elif kind is Kind.ROW or kind is Kind.SET:
                self._saved.append((here, list(here)))
                waiting.extend(here)
            elif kind is Kind.TUPLE:
                waiting.extend(here)
            elif kind is Kind.RANDOM:
                drawn = here.getstate()  # large, and the same in most snapshots
                self._saved.append((here, _DRAWN.setdefault(drawn, drawn)))
            else:
                attributes = [
                    (n, 0 if n in RESET else getattr(here, n))
                    for n in _names(here)
                    if hasattr(here, n)
                ]
                if kind is not Kind.FROZEN:
                    self._saved.append((here, attributes))
                waiting.extend(value for _, value in attributes)

    def restore(self) -> None:
        """Put the contents back."""
        for here, contents in self._saved:
            kind = _kind(type(here))
            if kind is Kind.TABLE or kind is Kind.SET:
                here.clear()
                here.update(contents)
            elif kind is Kind.ROW:
                here.clear()
                here.extend(contents)
            elif kind is Kind.RANDOM:
                here.setstate(contents)
            else:
                for name, value in contents:
                    setattr(here, name, value)


def shape(root: object) -> Hashable:
    """Return a value that is the same for machines in the same state.

    Dictionaries count without their order, and so do the deadlines of timers: only which timers run
    is compared. Attributes in :data:`IGNORED` are left out.
    """
    return _shape(root, {})


def _shape(there: object, seen: dict[int, int]) -> Hashable:
    here: Any = there
    if (cls := type(here)) in _PLAIN:
        plain: Hashable = here
        return plain
    kind = _kind(cls)
    if kind is Kind.ATOM:
        atom: Hashable = None if callable(here) else here
        return atom
    if kind is Kind.RANDOM:
        return None
    if id(here) in seen:
        return ("again", seen[id(here)])
    seen[id(here)] = len(seen)
    if kind is Kind.TUPLE or kind is Kind.ROW:
        return tuple([_shape(part, seen) for part in here])
    if kind is Kind.TABLE:
        if len(here) > 1:
            ordered = sorted([(repr(key), value) for key, value in here.items()], key=_first)
            return tuple([(key, _shape(value, seen)) for key, value in ordered])
        return tuple([(repr(key), _shape(value, seen)) for key, value in here.items()])
    if kind is Kind.SET:
        return tuple(sorted(map(repr, here)))
    if isinstance(here, TimerTable):
        return tuple(sorted(map(repr, here.keys())))
    inside = getattr(here, "__dict__", _NOTHING)
    return (
        cls.__name__,
        *[
            _shape(getattr(here, name), seen)
            for name in _slots(cls)
            if name not in IGNORED and hasattr(here, name)
        ],
        *[_shape(value, seen) for name, value in inside.items() if name not in IGNORED],
    )


class Kind(Enum):
    """What an object is to us."""

    ATOM = auto()  #: nothing inside it can change: values, functions, wire messages
    TABLE = auto()
    ROW = auto()
    SET = auto()
    TUPLE = auto()
    RANDOM = auto()
    FROZEN = auto()  #: its attributes stay, but what they refer to may change
    OBJECT = auto()


_PLAIN = frozenset({str, int, float, bytes, bool, type(None)})
_DRAWN: dict[object, object] = {}
_NOTHING: dict[str, object] = {}

_ATOMS = (
    str, int, float, bytes, bool, type(None), Enum, type, RingConfig,
    FunctionType, MethodType, BuiltinMethodType,
)  # fmt: skip


_KINDS: dict[type[Any], Kind] = {}
_SLOTS: dict[type[Any], tuple[str, ...]] = {}


def _kind(cls: type[Any]) -> Kind:
    kind = _KINDS.get(cls)
    if kind is None:
        kind = _KINDS[cls] = _kind_of(cls)
    return kind


def _kind_of(cls: type[Any]) -> Kind:
    if issubclass(cls, msgspec.Struct):
        return Kind.ATOM if cls.__struct_config__.frozen else Kind.OBJECT
    for kind, classes in (
        (Kind.ATOM, _ATOMS),
        (Kind.TABLE, (dict,)),
        (Kind.ROW, (list, deque)),
        (Kind.SET, (set,)),
        (Kind.TUPLE, (tuple, frozenset)),
        (Kind.RANDOM, (random.Random,)),
    ):
        if issubclass(cls, classes):
            return kind
    if is_dataclass(cls) and cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return Kind.FROZEN
    return Kind.OBJECT


def _slots(cls: type[Any]) -> tuple[str, ...]:
    if cls in _SLOTS:
        return _SLOTS[cls]
    names: dict[str, None] = {}
    for base in cls.__mro__:
        names.update(dict.fromkeys(base.__dict__.get("__slots__", ())))
        names.update(dict.fromkeys(base.__dict__.get("__struct_fields__", ())))
    found = _SLOTS[cls] = tuple(n for n in names if n not in ("__dict__", "__weakref__"))
    return found


def _names(here: object) -> tuple[str, ...]:
    """Return the names of an object's attributes."""
    inside = getattr(here, "__dict__", None)
    return _slots(type(here)) if inside is None else (*_slots(type(here)), *inside)


def _first(item: tuple[str, object]) -> str:
    return item[0]
