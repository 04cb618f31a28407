"""What a mutant is, and how it takes the place of the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

Method = Callable[..., Any]
Patch = tuple[Any, str, Any]  #: class or module, attribute, what replaces it


class OutOfDate(Exception):
    """The protocol has changed under a mutant, which no longer fits it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule: where, and what stands there instead."""

    name: str
    what: str
    zave: bool  #: the like of one of the flaws P. Zave found in Chord
    patches: tuple[Patch, ...]
    first: str = ""  #: how the modules of those stories begin that are played first

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the protocol for the time being; only for machines made meanwhile.

        Raises:
            OutOfDate: there is nothing to replace.
        """
        with ExitStack() as stack:
            for owner, attribute, new in self.patches:
                if attribute not in vars(owner):
                    raise OutOfDate(f"{self.name}: {owner.__name__}.{attribute} is gone")
                stack.enter_context(mock.patch.object(owner, attribute, new))
            yield


class Chapter(list[Mutant]):
    """The mutants of one part of the protocol; ``first``: which stories are played first."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first = first

    def add(self, name: str, what: str, *patches: Patch, zave: bool = False) -> None:
        """Append a :class:`Mutant` of this part; ``what`` is the rule that ``patches`` break."""
        self.append(Mutant(name, what, zave, patches, self._first))


def nothing(*args: object, **more: object) -> None:
    """Stand in for a method that is to do nothing."""
    return


def around(owner: Any, attribute: str, change: Callable[[Method], Method]) -> Patch:  # noqa: ANN401
    """Return the patch that puts ``change`` around a method."""
    original = vars(owner).get(attribute, nothing)  # if it is gone, applying will say so
    return owner, attribute, change(original)
