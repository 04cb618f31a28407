"""All that an analysis found."""

from __future__ import annotations

import msgspec

from spark.analysis.delivery import Delivery, Interruption
from spark.analysis.groups import Group
from spark.analysis.results import (
    Churn,
    Comparison,
    Counts,
    Facts,
    Fit,
    Judgement,
    Level,
    Outlier,
    Quantiles,
    Records,
    Survival,
    Survived,
)


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    facts: Facts
    counts: tuple[Counts, ...]
    quantiles: tuple[Quantiles, ...]
    survival: tuple[Survival, ...]
    survived: tuple[Survived, ...]
    fits: tuple[Fit, ...]
    verdicts: tuple[Judgement, ...]
    churn: tuple[Churn, ...]
    delivery: tuple[Delivery, ...]  #: empty where there are no probes
    interruptions: tuple[Interruption, ...]
    comparisons: tuple[Comparison, ...]
    outliers: tuple[Outlier, ...]
    levels: tuple[Level, ...] = ()  #: empty where there are no units
    records: tuple[Records, ...] = ()  #: empty where nobody owns records
    skipped: tuple[str, ...] = ()  #: files that were left out, on request

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order of the tables."""
        return tuple(dict.fromkeys(row.group for row in self.counts))
