import numpy as np
import pytest

from speedup_patch.data import Decision, EpisodeResult
from speedup_patch.evaluation.compare import summarise


def result(seed, success, steps, rate=2):
    decisions = (Decision(0, 24, 24 // rate, 24.0), Decision(12, 24, 24 // rate, 24.0, "odd"))
    return EpisodeResult(seed, success, steps, decisions)


def test_speedup_is_paired_over_seeds_where_both_succeed():
    base = [result(0, True, 400, 1), result(1, True, 200, 1), result(2, False, 750, 1)]
    fast = [result(0, True, 100), result(1, False, 750), result(2, True, 50)]
    summary = summarise({"base": base, "fast": fast}, np.random.default_rng(0))
    assert summary["fast"].speedup == pytest.approx(4.0)
    assert summary["fast"].steps_mean == pytest.approx(75.0)
    assert summary["fast"].success_rate == pytest.approx(2 / 3)
    assert summary["fast"].rate_mean == pytest.approx(2.0)
    assert summary["fast"].fallbacks == {"odd": 3}
    assert summary["base"].speedup == pytest.approx(1.0)
    low, high = summary["fast"].success_difference_interval
    assert low < 0 < high


def test_without_base_nothing_is_paired():
    summary = summarise({"fast": [result(0, True, 10)]}, np.random.default_rng(0))["fast"]
    assert summary.speedup is None
    assert summary.success_difference is None


def test_no_success_has_no_steps():
    summary = summarise({"base": [result(0, False, 10)]}, np.random.default_rng(0))["base"]
    assert summary.steps_mean is None
    assert summary.success_interval[0] == pytest.approx(0.0)
