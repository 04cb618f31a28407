"""How long a session lasts: the laws that measurements of real systems were fitted with.

Each law is named by its mean in seconds and, but for the exponential one, by a shape. A ring that
is watched from some moment on is in the middle of its sessions, so two things can be drawn: a
whole session, and the *residual* of one that is under way at that moment. Long sessions are met
more often than short ones, and the residual is what is left of such a one from a uniform point
on (renewal theory: its density is ``P(session > x) / mean``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from overlay.errors import ConfigError


class Law(StrEnum):
    """The laws of session lengths."""

    EXPONENTIAL = "exponential"  #: memoryless
    WEIBULL = "weibull"  #: shape k below 1: who has stayed long stays longer
    PARETO = "pareto"  #: heavy tail with exponent alpha above 1, from 0 (Lomax)
    LOG_NORMAL = "log-normal"  #: shape sigma, of the logarithm


#: Shapes that are used where none is given: Weibull as fitted to file-sharing and video systems,
#: Pareto with a mean but no variance, log-normal with a factor of e**1.5 for one deviation.
SHAPES = {Law.EXPONENTIAL: 1.0, Law.WEIBULL: 0.59, Law.PARETO: 1.5, Law.LOG_NORMAL: 1.5}


#: A broker that stays for less has not joined yet; without a bound those who replace it replace
#: each other without end.
SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True)
class Sessions:
    """One law of session lengths.

    Raises:
        ConfigError: mean or shape make no sense.
    """

    law: Law
    mean_s: float
    shape: float | None = None

    def __post_init__(self) -> None:
        if not (self.mean_s > 0 and math.isfinite(self.mean_s)):
            raise ConfigError(f"mean_s is {self.mean_s}, must be above 0")
        shape = self.shape
        if shape is None:
            return
        if self.law is Law.EXPONENTIAL:
            raise ConfigError("an exponential law has no shape; leave shape out")
        lowest = 1.0 if self.law is Law.PARETO else 0.0
        if not (shape > lowest and math.isfinite(shape)):
            raise ConfigError(f"shape of {self.law.value} is {shape}, must be above {lowest:g}")
        if self.median_s < SHORTEST_S:
            mend = "smaller" if self.law is Law.LOG_NORMAL else "larger"
            raise ConfigError(
                f"shape of {self.law.value} is {shape}: with mean_s {self.mean_s:g} half of the "
                f"sessions would last less than {SHORTEST_S:g} s; give a {mend} shape, or leave it "
                "out"
            )

    @property
    def median_s(self) -> float:
        """How long the shorter half of all sessions last at most, in seconds."""
        shape, mean = self._shape, self.mean_s
        try:
            match self.law:
                case Law.EXPONENTIAL:
                    return mean * math.log(2)
                case Law.WEIBULL:
                    part: float = math.log(2) ** (1 / shape)
                    return mean / math.gamma(1 + 1 / shape) * part
                case Law.PARETO:
                    return mean * (shape - 1) * (math.exp2(1 / shape) - 1)
                case Law.LOG_NORMAL:
                    return mean * math.exp(-(shape**2) / 2)
        except OverflowError:
            return 0.0

    @property
    def _shape(self) -> float:
        return SHAPES[self.law] if self.shape is None else self.shape

    def draw(self, rng: random.Random) -> float:
        """Draw how long a whole session lasts, in seconds."""
        return self._whole()(rng)

    def draw_residual(self, rng: random.Random) -> float:
        """Draw how long a session that is under way goes on, in seconds."""
        return rng.random() * self._met()(rng)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _whole(self) -> Callable[[random.Random], float]:
        shape, mean = self._shape, self.mean_s
        match self.law:
            case Law.EXPONENTIAL:
                return lambda rng: rng.expovariate(1 / mean)
            case Law.WEIBULL:
                scale = mean / math.gamma(1 + 1 / shape)
                return lambda rng: rng.weibullvariate(scale, shape)
            case Law.PARETO:
                scale = mean * (shape - 1)
                return lambda rng: scale * (rng.paretovariate(shape) - 1)
            case Law.LOG_NORMAL:
                mu = math.log(mean) - shape**2 / 2
                return lambda rng: rng.lognormvariate(mu, shape)

    def _met(self) -> Callable[[random.Random], float]:
        """Return how to draw the whole length of a session that is met under way.

        Its density is that of a session times its length, over the mean.
        """
        shape, mean = self._shape, self.mean_s
        match self.law:
            case Law.EXPONENTIAL:
                return lambda rng: rng.gammavariate(2, mean)
            case Law.WEIBULL:
                # If X is Weibull, (X / scale)**k is exponential; weighted by X it is a gamma.
                scale = mean / math.gamma(1 + 1 / shape)
                return lambda rng: scale * rng.gammavariate(1 + 1 / shape, 1.0) ** (1 / shape)
            case Law.PARETO:
                # Weighted by its length, X / (X + scale) is a beta.
                scale = mean * (shape - 1)

                def draw(rng: random.Random) -> float:
                    part = rng.betavariate(2, shape - 1)
                    return scale * part / max(1 - part, 1e-12)

                return draw
            case Law.LOG_NORMAL:
                mu = math.log(mean) + shape**2 / 2
                return lambda rng: rng.lognormvariate(mu, shape)
