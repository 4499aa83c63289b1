import math

import numpy as np

from speedup_patch.bench.violations import correlate

EPSILON = 0.5


def test_only_equally_many_decisions_of_every_episode_are_compared():
    """Failures run longer and so have more violations; over equal numbers of decisions nothing is left of that."""
    success = np.array([True, True, False, False])
    deviations = [np.array([0.0, 1.0] * (2 if solved else 20)) for solved in success]
    figures = correlate(deviations, success, np.arange(4), EPSILON)
    assert figures["decisions"] == 4
    assert figures["violation_share"] == 0.5
    assert math.isnan(figures["spearman_episodes"])
    assert figures["spearman_count"] < -0.9


def test_violations_that_go_with_failure_show_over_episodes_and_tasks():
    success = np.array([True, True, False, False])
    deviations = [np.full(3 + row, 0.1 + 0.8 * (not solved)) for row, solved in enumerate(success)]
    figures = correlate(deviations, success, np.array([0, 0, 1, 1]), EPSILON)
    for name in ("spearman_episodes", "spearman_tasks", "spearman_deviation"):
        assert figures[name] < -0.99
    assert (figures["violation_share_successes"], figures["violation_share_failures"]) == (0.0, 1.0)
