"""Planted laws are told for what they are, at noise as simulated rings have it."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark.laws import planted, told_as, verdicts

pytestmark = pytest.mark.spark


def told(spark: SparkSession, laws: dict[int, str], seed: int) -> dict[str, Counter[str]]:
    found = verdicts(spark, planted(laws, seed))
    counts: dict[str, Counter[str]] = {law: Counter() for law in laws.values()}
    for key, law in laws.items():
        counts[law][told_as(found[key, "p50"])] += 1
    return counts


def test_a_few_planted_laws_are_told(spark: SparkSession) -> None:
    laws = dict(enumerate(["log n", "sqrt n", "constant", "n"]))
    assert told(spark, laws, 4) == {
        "log n": Counter({"log n": 1}),
        "sqrt n": Counter({"sqrt n": 1}),
        "constant": Counter({"flat": 1}),
        "n": Counter({"n": 1}),
    }


@pytest.mark.soak
def test_of_a_hundred_of_each_95_are_told_and_two_at_most_told_for_another(
    spark: SparkSession,
) -> None:
    laws = dict(enumerate(["log n", "sqrt n"] * 100))
    for law, counts in told(spark, laws, 1).items():
        assert counts[law] >= 95
        assert sum(counts.values()) - counts[law] - counts["undecided"] - counts["unclear"] <= 2
