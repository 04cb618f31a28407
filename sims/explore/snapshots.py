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
#: counters (``seen``: what a row was made of); who bore witness, which is only told; how many pings
#: were sent (``probes``, ``tries``), of which one more or less only decides how often a timer has
#: to run out until the ping is given up.
IGNORED = frozenset(
    {
        "_effects",
        "_failures",
        "_followed",
        "_past",
        "_row",
        "_row_of",
        "_settled",
        "_shown",
        "_suspect_changes",
        "_token",
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


Contents = tuple[Any, tuple[Any, ...]]  #: an object and what is in it
Kept = dict[int, Contents]  #: by hash


class Snapshot:
    """The contents of all that ``root`` consists of, at one moment.

    Most objects have the same contents in most snapshots of a machine: these are kept once, in
    ``kept``, which is to be the same for all of them.
    """

    __slots__ = ("_saved",)

    def __init__(self, root: object, kept: Kept) -> None:
        saved: list[Contents] = []
        seen: set[int] = set()
        waiting: list[object] = [root]
        while waiting:
            here: Any = waiting.pop()
            kind = _kind(type(here))
            if kind is Kind.ATOM or id(here) in seen:
                continue
            seen.add(id(here))
            if kind is Kind.TABLE:
                inside = (*here.keys(), *here.values())
            elif kind is Kind.ROW or kind is Kind.SET or kind is Kind.TUPLE:
                inside = tuple(here)
            elif kind is Kind.RANDOM:
                drawn = here.getstate()  # large
                inside = (_ONCE.setdefault(drawn, drawn),)
            else:
                names = tuple(name for name in _names(here) if hasattr(here, name))
                inside = tuple(0 if name in RESET else getattr(here, name) for name in names)
            if kind is not Kind.RANDOM:
                waiting.extend(inside)
            if kind is Kind.OBJECT:
                inside = (_ONCE.setdefault(names, names), *inside)
            if kind is not Kind.FROZEN and kind is not Kind.TUPLE:
                saved.append(_once((here, inside), kept))
        self._saved = tuple(saved)

    def restore(self) -> None:
        """Put the contents back."""
        for here, inside in self._saved:
            kind = _kind(type(here))
            if kind is Kind.TABLE:
                half = len(inside) // 2
                here.clear()
                here.update(zip(inside[:half], inside[half:], strict=True))
            elif kind is Kind.SET:
                here.clear()
                here.update(inside)
            elif kind is Kind.ROW:
                here.clear()
                here.extend(inside)
            elif kind is Kind.RANDOM:
                here.setstate(inside[0])
            else:
                for name, value in zip(inside[0], inside[1:], strict=True):
                    setattr(here, name, value)


def _once(contents: Contents, kept: Kept) -> Contents:
    """Return what is kept of these contents already, if they are the same."""
    here, inside = contents
    known = kept.setdefault(hash((id(here), *map(_told_apart, inside))), contents)
    is_same = known[0] is here and len(known[1]) == len(inside)
    return known if is_same and all(map(_is_same, known[1], inside)) else contents


def _told_apart(part: object) -> Hashable:
    """Return what makes contents the same if it is: plain values themselves, or which object."""
    return part if type(part) in _PLAIN else id(part)


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other)


def shape(root: object, ignored: frozenset[str] | None = None) -> Hashable:
    """Return a value that is the same for machines in the same state.

    Dictionaries count without their order, and so do the deadlines of timers: only which timers run
    is compared. Attributes in :data:`IGNORED` are left out. Where others are ``ignored``, deadlines
    are compared, too.
    """
    return _shape(root, {}, IGNORED if ignored is None else ignored, timed=ignored is not None)


def _shape(
    there: object, seen: dict[int, int], ignored: frozenset[str], *, timed: bool
) -> Hashable:
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
        return tuple([_shape(part, seen, ignored, timed=timed) for part in here])
    if kind is Kind.TABLE:
        if len(here) > 1:
            ordered = sorted([(repr(key), value) for key, value in here.items()], key=_first)
            return tuple(
                [(key, _shape(value, seen, ignored, timed=timed)) for key, value in ordered]
            )
        return tuple(
            [(repr(key), _shape(value, seen, ignored, timed=timed)) for key, value in here.items()]
        )
    if kind is Kind.SET:
        return tuple(sorted(map(repr, here)))
    if isinstance(here, TimerTable):
        keys = here.keys()
        return tuple(sorted(repr((key, here.deadline(key)) if timed else key) for key in keys))
    inside = getattr(here, "__dict__", _NOTHING)
    return (
        cls.__name__,
        *[
            _shape(getattr(here, name), seen, ignored, timed=timed)
            for name in _slots(cls)
            if name not in ignored and hasattr(here, name)
        ],
        *[
            _shape(value, seen, ignored, timed=timed)
            for name, value in inside.items()
            if name not in ignored
        ],
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
_ONCE: dict[Hashable, Hashable] = {}  #: tuples that many snapshots have in common
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
