"""Intervals against published values and known answers, and what each says when the data cannot tell."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy import stats

from speedup_patch.maths import statistics
from speedup_patch.maths.statistics import mean_ratio_over_groups, paired_speedup, ratio_over_groups

few = settings(max_examples=40, deadline=None)


def outcomes(gained: int, lost: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    base, new = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    new[:gained] = True
    base[gained : gained + lost] = True
    return base, new


@given(n=st.integers(1, 200), share=st.floats(0, 1), confidence=st.sampled_from([0.8, 0.95, 0.99]))
@few
def test_wilson_is_the_score_interval(n: int, share: float, confidence: float):
    successes = round(share * n)
    rate, z = successes / n, stats.norm.ppf((1 + confidence) / 2)
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * math.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    expected = (max(middle - reach, 0.0), min(middle + reach, 1.0))
    assert statistics.wilson_interval(successes, n, confidence) == pytest.approx(expected, abs=1e-9)


def test_wilson_known_value_and_no_data():
    assert statistics.wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert statistics.wilson_interval(0, 0) == (0.0, 1.0)


def test_tango_reproduces_a_published_interval():
    # Airway hyper-responsiveness before and after stem cell transplantation (Bentur et al. 2009): 1 and 7 discordant
    # pairs of 21, for which the R package ratesci gives -0.517 to -0.026.
    found = statistics.paired_success_difference(*outcomes(1, 7, 21))
    assert found == pytest.approx((-0.286, -0.517, -0.026), abs=1e-3)


@given(n=st.integers(1, 100), confidence=st.sampled_from([0.9, 0.95]))
@few
def test_full_agreement_still_leaves_doubt(n: int, confidence: float):
    success = np.ones(n, dtype=bool)
    difference, low, high = statistics.paired_success_difference(success, success, confidence)
    z = float(stats.norm.ppf((1 + confidence) / 2))
    assert (difference, low, high) == pytest.approx((0.0, -(z**2) / (n + z**2), z**2 / (n + z**2)), abs=1e-6)


@given(n=st.integers(1, 60), data=st.data())
@few
def test_paired_interval_is_ordered_bounded_and_mirrored(n: int, data: st.DataObject):
    gained = data.draw(st.integers(0, n))
    lost = data.draw(st.integers(0, n - gained))
    base, new = outcomes(gained, lost, n)
    difference, low, high = statistics.paired_success_difference(base, new)
    assert difference == pytest.approx(new.mean() - base.mean())
    assert -1.0 <= low <= difference <= high <= 1.0
    assert low < high
    assert statistics.paired_success_difference(new, base) == pytest.approx((-difference, -high, -low))


def test_paired_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    n, gain, loss = 24, 0.1, 0.2
    draws = rng.multinomial(n, [gain, loss, 1 - gain - loss], size=1000)
    kinds, counts = np.unique(draws[:, :2], axis=0, return_counts=True)
    intervals = [statistics.paired_success_difference(*outcomes(int(g), int(lo), n)) for g, lo in kinds]
    covered = [low <= gain - loss <= high for _, low, high in intervals]
    assert 0.92 <= np.average(covered, weights=counts) <= 0.99


def test_pairs_must_match_and_may_be_missing():
    nothing = np.zeros(0, dtype=bool)
    difference, low, high = statistics.paired_success_difference(nothing, nothing)
    assert math.isnan(difference)
    assert (low, high) == (-1.0, 1.0)
    mismatch = (ValueError, TypeCheckError)
    with pytest.raises(mismatch):
        statistics.paired_success_difference(nothing, np.ones(1, dtype=bool))
    with pytest.raises(mismatch):
        statistics.paired_speedup(np.ones(2), np.ones(1), np.random.default_rng(0))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40))
@few
def test_speedup_is_the_ratio_of_sums_inside_its_interval(seed: int, n: int):
    rng = np.random.default_rng(seed)
    base, steps = rng.uniform(100, 200, size=n), rng.uniform(50, 150, size=n)
    speedup, low, high = statistics.paired_speedup(base, steps, np.random.default_rng(seed), resamples=500)
    assert speedup == pytest.approx(base.sum() / steps.sum())
    assert (base / steps).min() - 1e-9 <= low <= speedup + 0.05
    assert speedup - 0.05 <= high <= (base / steps).max() + 1e-9
    again = statistics.paired_speedup(base, steps, np.random.default_rng(seed), resamples=500)
    assert again == (speedup, low, high)


def test_speedup_pairs_seeds_and_answers_few_of_them():
    base = np.random.default_rng(1).uniform(100, 300, size=20)
    doubled = statistics.paired_speedup(base, base / 2, np.random.default_rng(0))
    assert doubled == pytest.approx((2.0, 2.0, 2.0))
    one = statistics.paired_speedup(base[:1], base[:1] / 4, np.random.default_rng(0))
    assert one[0] == 4.0
    assert np.isnan(one[1:]).all()
    assert np.isnan(statistics.paired_speedup(base[:0], base[:0], np.random.default_rng(0))).all()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(3, 40))
@few
def test_spearman_agrees_with_scipy_and_sees_only_order(seed: int, n: int):
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.normal(size=n), 1), rng.normal(size=n)
    a[0] += 1
    found = statistics.spearman(a, b)
    assert found == pytest.approx(stats.spearmanr(a, b).statistic)
    assert statistics.spearman(a, np.exp(b)) == pytest.approx(found)
    assert statistics.spearman(b, b**3) == pytest.approx(1.0)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40))
@few
def test_auroc_counts_ordered_pairs(seed: int, n: int):
    rng = np.random.default_rng(seed)
    positive, scores = rng.random(n) < 0.5, np.round(rng.normal(size=n), 1)
    positive[:2] = [True, False]
    above = scores[positive][:, None] - scores[~positive][None]
    expected = ((above > 0) + 0.5 * (above == 0)).mean()
    assert statistics.auroc(positive, scores) == pytest.approx(expected)
    assert statistics.auroc(~positive, scores) == pytest.approx(1 - expected)


def test_missed_violations_are_counted_among_true_ones():
    true, predicted = np.array([0.03, 0.03, 0.01, 0.02]), np.array([0.03, 0.01, 0.03, 0.0])
    assert statistics.missed_violation_share(true, predicted, 0.02) == 0.5
    assert statistics.missed_violation_share(true, true, 0.02) == 0.0


def test_scores_without_an_answer_are_nan():
    empty, constant, rising = np.zeros(0), np.ones(4), np.arange(4.0)
    assert math.isnan(statistics.spearman(empty, empty))
    assert math.isnan(statistics.spearman(rising[:1], rising[:1]))
    assert math.isnan(statistics.spearman(constant, rising))
    for labels in (np.ones(4, dtype=bool), np.zeros(4, dtype=bool)):
        assert math.isnan(statistics.auroc(labels, rising))
    assert math.isnan(statistics.auroc(np.zeros(0, dtype=bool), empty))
    assert statistics.auroc(rising > 1, constant) == 0.5
    assert math.isnan(statistics.missed_violation_share(constant, constant, 2.0))
    assert math.isnan(statistics.missed_violation_share(empty, empty, 0.02))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


Groups = tuple[list[np.ndarray], list[np.ndarray]]


def grouped(rng: np.random.Generator, tasks: int = 8, seeds: int = 20, spread: float = 0.5) -> Groups:
    """Steps of base and of a scheduler, whose speedup differs from task to task."""
    base = [rng.uniform(90, 110, seeds) for _ in range(tasks)]
    return base, [steps / rng.uniform(2 - spread, 2 + spread) for steps in base]


def test_tasks_that_differ_widen_the_interval_that_draws_tasks_anew(rng: np.random.Generator):
    base, fast = grouped(rng)
    low, high = ratio_over_groups(base, fast, rng)
    ratio, pooled_low, pooled_high = paired_speedup(np.concatenate(base), np.concatenate(fast), rng)
    assert low < ratio < high
    assert high - low > 2 * (pooled_high - pooled_low)


def test_tasks_that_are_alike_leave_the_interval_about_as_it_was(rng: np.random.Generator):
    base = [rng.uniform(50, 150, 50) for _ in range(10)]
    fast = [rng.uniform(25, 75, 50) for _ in range(10)]
    low, high = ratio_over_groups(base, fast, rng)
    _, pooled_low, pooled_high = paired_speedup(np.concatenate(base), np.concatenate(fast), rng)
    assert 0.7 < (high - low) / (pooled_high - pooled_low) < 2.5


def test_the_interval_over_groups_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        values = [rng.normal(1.0 + rng.normal(0, 0.2), 0.3, 10) for _ in range(12)]
        low, high = ratio_over_groups(values, [np.ones(10)] * 12, rng, resamples=400)
        covered += low < 1.0 < high
    assert 0.88 < covered / 200 < 1.0


def test_fewer_than_two_groups_tell_nothing_of_groups(rng: np.random.Generator):
    one = [np.array([3.0, 4.0])]
    assert np.isnan(ratio_over_groups(one, one, rng)).all()
    assert np.isnan(ratio_over_groups([*one, np.zeros(0)], [*one, np.zeros(0)], rng)).all()
    assert np.isnan(mean_ratio_over_groups([], rng)).all()
    assert np.isnan(mean_ratio_over_groups([(one, one)], rng)).all()


def test_a_mean_over_strata_is_tighter_than_one_stratum_and_equals_it_when_constant(rng: np.random.Generator):
    strata = [grouped(rng) for _ in range(4)]
    low, high = mean_ratio_over_groups(strata, rng)
    alone = [np.subtract(*reversed(ratio_over_groups(*stratum, rng))) for stratum in strata]
    assert high - low < max(alone)
    constant = [np.full(5, 3.0)] * 2
    assert mean_ratio_over_groups([(constant, [np.ones(5)] * 2)] * 3, rng) == pytest.approx((3.0, 3.0))
