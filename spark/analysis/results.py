"""Rows of small tables that an analysis finds; ``docs/recovery-numbers.md`` explains them."""

from __future__ import annotations

import enum

import msgspec

from spark.analysis.groups import Grouped


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The data set as a whole."""

    runs: int
    simulated: int
    live: int
    seeds: int  #: distinct ones
    versions: tuple[str, ...]  #: of the chordal that wrote the rows
    incidents: int
    strays: int  #: incidents whose run is not in the data set; they enter nowhere
    bare: int = 0  #: simulated runs without a single incident
    in_units: int = 0  #: incidents that say which level of units they concern
    with_records: int = 0  #: incidents that say how many records were lost


class Counts(Grouped, frozen=True, kw_only=True):
    """What was seen at one size: runs, distinct seeds, and incidents by verdict."""

    n: int | None
    runs: int
    seeds: int
    broker_failed: int
    link_failed: int
    refuted: int
    open: int


class Quantiles(Grouped, frozen=True, kw_only=True):
    """One measure at one size, over all its incidents: seconds, or numbers.

    ``low`` and ``high`` are the ends of 95 % intervals over seeds; None with one seed.
    """

    n: int | None
    measure: str
    units: int  #: seeds, or runs where there are none
    count: int  #: incidents in which it was seen to end
    open: int  #: incidents in which it has begun, and was not seen to end
    mean: float | None  #: None if something is open, as is ``max``; quantiles: if not reached
    p50: float | None
    p50_low: float | None
    p50_high: float | None
    p95: float | None
    p95_low: float | None
    p95_high: float | None
    p99: float | None
    p99_low: float | None
    p99_high: float | None
    p999: float | None
    max: float | None


class Survival(Grouped, frozen=True, kw_only=True):
    """A step of a Kaplan-Meier curve: the share of failures not yet recovered after ``after_s``.

    ``low`` and ``high`` are the ends of the 95 % interval, on the scale of log(-log), with seeds as
    clusters (Williams, 1995); None with one seed.
    """

    n: int | None
    after_s: float
    survival: float
    low: float | None
    high: float | None
    at_risk: int


class Survived(Grouped, frozen=True, kw_only=True):
    """A Kaplan-Meier curve in short; a quantile is None where the curve does not get so far."""

    n: int | None
    failures: int
    censored: int  #: failures not recovered when the run ended
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


class Law(enum.StrEnum):
    """How a measure may grow with n: a constant, and a factor times this."""

    CONSTANT = "constant"
    LOG = "log n"
    LOG_SQUARED = "log² n"
    SQRT = "sqrt n"
    LINEAR = "n"


class Fit(Grouped, frozen=True, kw_only=True):
    """A law fitted to one quantile of a measure: ``intercept + slope * law(n)``.

    Sizes are weighted by how well their quantile is known. The law of a constant has slope 0.
    """

    measure: str
    quantile: str  #: ``p50`` or ``p99``
    law: Law
    sizes: int
    n_min: int
    n_max: int
    mean: float  #: of the quantile over the sizes, weighted
    intercept: float
    slope: float
    intercept_variance: float | None  #: over the replicates; None with one seed
    slope_variance: float | None
    covariance: float | None
    deviance: float  #: weighted sum of squares left unexplained
    criterion: float  #: information criterion: the lower, the better
    share: float | None  #: of the replicates in which this law is the best
    #: From ``n_min`` to ``n_max``, as a share of what the law says of ``n_min``. None: that is not
    #: above 0, or the law is the constant, of which nothing was measured.
    change: float | None
    change_low: float | None
    change_high: float | None


class Growth(enum.StrEnum):
    """What the data say about the growth of a measure."""

    NOT_REACHED = "not_reached"  #: so many were not seen to end that no law can be told
    TOO_FEW = "too_few_sizes"
    FLAT = "flat"
    UNCLEAR = "unclear"  #: perhaps it does not grow at all
    UNEXPLAINED = "unexplained"  #: it changes, but by which law cannot be told
    FALLING = "falling"
    LOG = "log"
    LOG_SQUARED = "log_squared"
    SQRT = "sqrt"
    LINEAR = "linear"
    UNDECIDED = "undecided"  #: grows, and several laws explain it


class Judgement(Grouped, frozen=True, kw_only=True):
    """The verdict on one quantile of one measure of one group."""

    measure: str
    quantile: str
    growth: Growth
    n_min: int
    n_max: int
    first: float | None  #: measured at ``n_min``; None: it is not reached
    last: float | None
    change: float | None  #: as a share of ``first``
    change_low: float | None  #: the 95 % interval, over seeds
    change_high: float | None
    missing: tuple[int, ...]  #: sizes at which the quantile or its interval is not reached
    models: tuple[str, ...]  #: the laws that the data support, best first
    words: str
    question: str | None  #: what could not be answered, and which run would answer it


class Rise(Grouped, frozen=True, kw_only=True):
    """What was measured of a quantile from the smallest size to the largest (``growth``)."""

    measure: str
    quantile: str
    sizes: int
    n_min: int
    n_max: int
    first: float | None
    last: float | None
    range: float | None  #: largest value less the smallest, of all sizes, as a share of ``first``
    change: float | None
    change_low: float | None
    change_high: float | None
    missing: tuple[int, ...]


class Churn(Grouped, frozen=True, kw_only=True):
    """How a ring lives with failures, at one size."""

    n: int
    runs: int
    broker_hours: float
    failures_per_broker_hour: float
    false_suspicions: int  #: of brokers that lived: refuted, or found to be the link
    false_suspicions_per_broker_hour: float
    false_deaths: int  #: brokers that lived, and were held for dead
    whole_share: float  #: share of the time in which no failure was unrepaired
    pairs_share: float  #: share of the time, averaged over the places between two neighbours
    alone: int  #: failures while no other was unrepaired
    alone_p50_s: float | None
    overlapping: int
    overlapping_p50_s: float | None
    slowdown: float | None  #: median of the overlapping ones over that of the others


class Level(Grouped, frozen=True, kw_only=True):
    """How long ring and units took after deaths of one level, at one size.

    A quantile is None where it is not reached, the largest where something is open.
    """

    n: int | None
    level: int  #: 1 a cluster, 2 a super-cluster, 3 a super-super-cluster, 4 all
    failures: int
    ring_open: int  #: after which the ring was not seen whole again
    ring_p50_s: float | None
    ring_p99_s: float | None
    ring_max_s: float | None
    units_open: int
    units_p50_s: float | None
    units_p99_s: float | None
    units_max_s: float | None


class Records(Grouped, frozen=True, kw_only=True):
    """What deaths have cost where brokers own records, at one size."""

    n: int | None
    failures: int
    costly: int  #: of them, those with which a record was lost
    lost: int  #: records


class Comparison(Grouped, frozen=True, kw_only=True):
    """Two groups that differ in one setting, at one size and quantile of a measure.

    The row's group is the one with ``value``; the other one has ``base``.
    """

    setting: str
    value: str
    base: str
    n: int
    measure: str
    quantile: str
    value_at: float | None  #: None where it is not reached
    base_at: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None  #: None as well where it is not reached
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    effect: float  #: Cliff's delta: how much likelier a larger value is with ``value``, -1 to 1
    words: str


class Outlier(Grouped, frozen=True, kw_only=True):
    """An incident that took longer than 99.9 % of those of its cell."""

    n: int | None
    run_id: str
    incident_id: str
    seed: int | None
    total_s: float  #: or how long it was seen, if it was not repaired
    repaired: bool
    beyond_s: float  #: the quantile that it is beyond
    command: str | None  #: that shows the run again
