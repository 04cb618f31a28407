"""A promise about recovery, as a user writes it: ``recovery.p99 < 3``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlay.trace_schema import PHASES
from spark.analysis.recovery import MESSAGES
from spark.errors import PromiseError

#: What is measured of an incident: seconds, or a number of messages.
RECOVERY = "recovery"
MEASURES = (RECOVERY, *(phase for phase in PHASES if phase != "total"), MESSAGES)

#: Statistics over the window; the percentiles are exact.
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
STATISTICS = (*PERCENTILES, "mean", "max", "count")

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*(\w+)\.(\w+)\s*(<=|>=|<|>)\s*(\d+(?:\.\d+)?)\s*(?:s\s*)?$")


@dataclass(frozen=True, slots=True)
class Promise:
    """A measure's statistic and what bounds it: seconds, or a number."""

    measure: str
    statistic: str
    comparison: str
    bound: float

    def __str__(self) -> str:
        return f"{self.measure}.{self.statistic} {self.comparison} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Tell whether a value keeps the promise."""
        return _COMPARE[self.comparison](value, self.bound)


def read_promise(text: str) -> Promise:
    """Return the promise that ``text`` states.

    Raises:
        PromiseError: It states none; the text says what it may look like.
    """
    found = _FORM.match(text)
    if found is None:
        raise PromiseError(f"promise {text!r}: give one such as 'recovery.p99 < 3'")
    measure, statistic, comparison, bound = found.groups()
    for kind, said, known in (
        ("measure", measure, MEASURES),
        ("statistic", statistic, STATISTICS),
    ):
        if said not in known:
            raise PromiseError(
                f"promise {text!r}: no {kind} {said!r}; there are {', '.join(known)}"
            )
    return Promise(measure, statistic, comparison, float(bound))
