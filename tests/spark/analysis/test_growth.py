"""Verdicts from fits made by hand: what each combination of them says."""

from __future__ import annotations

import msgspec
import pytest

from spark.analysis.judging import FUNCTIONS
from spark.analysis.judging import judge as judge_rise
from spark.analysis.results import Fit, Growth, Judgement, Law, Rise


def fits(
    criteria: dict[Law, float],
    *,
    change: tuple[float, float] = (0.5, 0.9),
    shares: dict[Law, float] | None = None,
    sizes: int = 9,
    slope: float = 0.1,
) -> list[Fit]:
    """Return five fits; laws without a criterion are hopeless."""
    shares = shares or {min(criteria, key=lambda law: criteria[law]): 1.0}
    middle = sum(change) / 2
    return [
        Fit(
            source="simulator",
            scenario="crash",
            profile="lan",
            parameters="{}",
            measure="total",
            quantile="p50",
            law=law,
            sizes=sizes,
            n_min=64,
            n_max=16384,
            mean=2.0,
            intercept=1.0,
            slope=0.0 if law is Law.CONSTANT else slope,
            intercept_variance=0.01,
            slope_variance=0.001,
            covariance=-0.001,
            deviance=7.0,
            criterion=criteria.get(law, 500.0),
            share=shares.get(law, 0.0),
            change=None if law is Law.CONSTANT else middle,
            change_low=None if law is Law.CONSTANT else change[0],
            change_high=None if law is Law.CONSTANT else change[1],
        )
        for law in Law
    ]


def measured(fit: Fit, **changes: object) -> Rise:
    """Return what was measured where fits are such: from 1 s to 1.5 s."""
    row = Rise(
        source=fit.source,
        scenario=fit.scenario,
        profile=fit.profile,
        parameters=fit.parameters,
        measure=fit.measure,
        quantile=fit.quantile,
        sizes=fit.sizes,
        n_min=fit.n_min,
        n_max=fit.n_max,
        first=1.0,
        last=1.5,
        range=0.5,
        change=0.5,
        change_low=0.4,
        change_high=0.6,
        missing=(),
    )
    return msgspec.structs.replace(row, **changes)


def judge(fits: list[Fit], **changes: object) -> Judgement:
    return judge_rise(measured(fits[0], **changes), fits)


@pytest.mark.parametrize(
    ("law", "growth"),
    [
        (Law.LOG, Growth.LOG),
        (Law.LOG_SQUARED, Growth.LOG_SQUARED),
        (Law.SQRT, Growth.SQRT),
        (Law.LINEAR, Growth.LINEAR),
    ],
)
def test_a_law_that_is_much_better_than_all_others_is_named(law: Law, growth: Growth) -> None:
    verdict = judge(fits({law: 10.0}))
    assert (verdict.growth, verdict.models, verdict.question) == (growth, (law.value,), None)
    assert verdict.words.startswith(f"grows like {law.value}: +0.1 s ")
    assert "best in 100% of the replicates, from n = 64 to n = 16,384" in verdict.words


def test_two_laws_that_explain_the_data_alike_are_both_named_with_the_run_that_would_tell() -> None:
    verdict = judge(fits({Law.LOG: 10.0, Law.LOG_SQUARED: 13.2}))
    assert verdict.growth is Growth.UNDECIDED
    assert verdict.models == ("log n", "log² n")
    assert "these sizes cannot tell them apart" in verdict.words
    assert verdict.question == "larger rings: --nodes 64,16384,65536,262144 --seeds 40"
    assert judge(fits({Law.LOG: 10.0, Law.LOG_SQUARED: 13.3})).growth is Growth.LOG


def test_a_law_that_most_replicates_do_not_have_is_not_named_alone() -> None:
    verdict = judge(fits({Law.LOG: 10.0}, shares={Law.LOG: 0.49, Law.SQRT: 0.51}))
    assert (verdict.growth, verdict.models) == (Growth.UNDECIDED, ("log n", "sqrt n"))


def test_what_changes_by_less_than_a_tenth_is_flat_however_sure_the_law_is() -> None:
    little = {"change": 0.05, "change_low": 0.01, "change_high": 0.09}
    verdict = judge(fits({Law.LOG: 10.0}, change=(0.02, 0.09)), **little)
    assert verdict.growth is Growth.FLAT
    assert judge(fits({Law.LOG: 10.0}, change=(0.02, 0.11)), **little).growth is Growth.LOG


def test_where_a_constant_may_do_and_the_change_may_be_large_nobody_can_tell() -> None:
    ends = {"change_low": -0.1, "change_high": 1.1}
    verdict = judge(fits({Law.CONSTANT: 10.0, Law.LOG: 10.5}, change=(-0.05, 0.4)), **ends)
    assert verdict.growth is Growth.UNCLEAR
    assert "between -5% and +40%" in verdict.words
    assert "measured from n = 64 to n = 16,384: +50%, 95 % interval -10% to +110%" in verdict.words
    assert verdict.question == "more seeds: --nodes 64,1024,16384 --seeds 40"
    sure = judge(fits({Law.CONSTANT: 10.0, Law.LOG: 10.5}, change=(-0.05, 0.05)), **ends)
    assert sure.growth is Growth.FLAT


def test_what_changes_as_no_law_has_it_is_not_called_flat() -> None:
    flat = fits({Law.CONSTANT: 10.0, Law.LOG: 10.5}, change=(-0.05, 0.05))
    for changes in ({"range": 4.0, "change_low": -0.1}, {"change_low": 0.4}):
        verdict = judge(flat, **changes)
        assert verdict.growth is Growth.UNEXPLAINED
        assert "by which law cannot be told" in verdict.words


def test_what_falls_is_said_to_fall() -> None:
    fell = {"last": 0.6, "change": -0.4, "change_low": -0.5, "change_high": -0.3}
    verdict = judge(fits({Law.LOG: 10.0}, change=(-0.5, -0.3), slope=-0.1), **fell)
    assert verdict.growth is Growth.FALLING
    assert verdict.words.startswith("falls as n grows: measured from n = 64 to n = 16,384: -40%, ")


def test_two_sizes_are_too_few() -> None:
    verdict = judge(fits({Law.LOG: 10.0}, sizes=2))
    assert verdict.growth is Growth.TOO_FEW
    assert verdict.words == "too few sizes (2; need 3)"
    assert verdict.question == "one size more: --nodes 64,16384,65536 --seeds 40"


def test_with_one_seed_there_are_no_shares_and_the_criterion_alone_decides() -> None:
    alone = [
        msgspec.structs.replace(fit, share=None, change_low=None, change_high=None)
        for fit in fits({Law.LOG: 10.0})
    ]
    verdict = judge(alone)
    assert verdict.growth is Growth.LOG
    assert "replicates" not in verdict.words


def test_no_law_is_told_where_the_quantile_is_not_reached() -> None:
    verdict = judge(fits({Law.LOG: 10.0}), missing=(1024, 4096), change=None)
    assert (verdict.growth, verdict.models, verdict.question) == (Growth.NOT_REACHED, (), None)
    assert "not reached at n = 1,024, 4,096" in verdict.words
    assert judge_rise(measured(fits({Law.LOG: 1.0})[0]), []).growth is Growth.NOT_REACHED


def test_every_law_has_a_function() -> None:
    assert {law: FUNCTIONS[law](16) for law in Law} == {
        Law.CONSTANT: 0.0,
        Law.LOG: 4.0,
        Law.LOG_SQUARED: 16.0,
        Law.SQRT: 4.0,
        Law.LINEAR: 16.0,
    }
