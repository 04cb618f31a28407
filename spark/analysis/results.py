"""What an analysis finds: rows of small tables. ``docs/recovery.md`` explains each number."""

from __future__ import annotations

import enum

import msgspec

from overlay.trace_schema import Source


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that differ in nothing but size and seed, and may be compared across sizes."""

    source: str
    scenario: str
    profile: str
    parameters: str | None  #: of a simulated run; None for live ones, which are one group

    def __str__(self) -> str:
        place = [] if self.source == Source.SIMULATOR else [self.source]
        return ", ".join([self.scenario, self.profile, *place, *_settings(self.parameters)])


def _settings(parameters: str | None) -> list[str]:
    if parameters is None:
        return []
    try:
        return [
            f"{key} {value}" for key, value in msgspec.json.decode(parameters, type=dict).items()
        ]
    except msgspec.MsgspecError:
        return [parameters]


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """A row that belongs to a group."""

    source: str
    scenario: str
    profile: str
    parameters: str | None

    @property
    def group(self) -> Group:
        """The group the row belongs to."""
        return Group(
            source=self.source,
            scenario=self.scenario,
            profile=self.profile,
            parameters=self.parameters,
        )


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
    """One measure at one size, over all its incidents: seconds, or messages."""

    n: int | None
    measure: str
    count: int  #: incidents that have a value
    open: int  #: incidents that have none: an end was never reached or cannot be known
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Curve(Grouped, frozen=True, kw_only=True):
    """The distribution behind a ``Quantiles`` row: its quantiles 0, 1, ... 100 per cent."""

    n: int | None
    measure: str
    curve: tuple[float, ...]


class Model(enum.StrEnum):
    """How a measure may grow with n."""

    LOG = "log2 n"
    SQRT = "sqrt n"
    LINEAR = "n"


class Fit(Grouped, frozen=True, kw_only=True):
    """Least squares of a measure's median per size, unweighted: ``intercept + slope * x``.

    ``x`` is the model's function of n; ``x_min`` and ``x_max`` are its range in the data. Slope
    and intercept are None where only one size was measured.
    """

    measure: str
    model: Model
    sizes: int
    n_min: int
    n_max: int
    x_min: float
    x_max: float
    mean: float  #: of the medians
    slope: float | None
    intercept: float | None
    r2: float | None


class Growth(enum.StrEnum):
    """What the data say about the growth of a measure."""

    TOO_FEW = "too_few_sizes"
    FLAT = "flat"
    UNCLEAR = "unclear"  #: varies, but no model explains how
    FALLING = "falling"
    LOG = "log"
    SQRT = "sqrt"
    LINEAR = "linear"
    UNDECIDED = "undecided"  #: grows, and several models explain it


class Judgement(Grouped, frozen=True, kw_only=True):
    """The verdict on one measure of one group."""

    measure: str
    growth: Growth
    models: tuple[str, ...]  #: those that the data support, best first
    words: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The data set as a whole."""

    runs: int
    simulated: int
    live: int
    seeds: int  #: distinct ones
    versions: tuple[str, ...]  #: of the chordal that wrote the rows
    incidents: int
    strays: int  #: incidents whose run is not in the data set; they enter nowhere


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    facts: Facts
    counts: tuple[Counts, ...]
    quantiles: tuple[Quantiles, ...]
    curves: tuple[Curve, ...]
    fits: tuple[Fit, ...]
    verdicts: tuple[Judgement, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order of the tables."""
        return tuple(dict.fromkeys(row.group for row in self.counts))
