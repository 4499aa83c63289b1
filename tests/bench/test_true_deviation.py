"""A world model that is the simulator must foretell every deviation, in every measure."""

import numpy as np
import pytest

from speedup_patch.acceleration import accelerate
from speedup_patch.bench.true_deviation import (
    ALL_MEASURES,
    collect_decisions,
    predicted_deviations,
    run_episode,
    score_groups,
    true_deviations,
    try_rates,
)
from speedup_patch.limits import read_limits
from speedup_patch.robots import ALOHA
from speedup_patch.warp import uniform_warp
from stand_ins import LaggingEnv, LaggingWorldModel, ReplayPolicy, smooth_demonstrations

RATES = (1.0, 2.0, 3.0)
DEMONSTRATIONS = smooth_demonstrations()
LIMITS = read_limits(ALOHA, DEMONSTRATIONS)


@pytest.fixture(scope="module")
def decisions():
    episode = DEMONSTRATIONS.episodes[0]
    runs = [(1.0, 0), (2.0, 0)]
    return collect_decisions(LaggingEnv(episode), ReplayPolicy(episode, 12), RATES, runs, lambda done, total: None)


@pytest.mark.parametrize("measure", ALL_MEASURES)
def test_a_perfect_world_model_foretells_the_truth(decisions, measure):
    true = true_deviations(ALOHA, LIMITS, decisions, RATES, measure)
    predicted = predicted_deviations(LaggingWorldModel(), LIMITS, decisions.moments(ALOHA, 0), RATES, measure)
    np.testing.assert_allclose(predicted, true, atol=1e-5)
    np.testing.assert_allclose(true[:, 0], 0.0, atol=1e-6)
    assert true[:, 2].mean() > true[:, 1].mean() > 0
    scores = score_groups(decisions, true, predicted, RATES, epsilon=float(np.median(true)))
    assert scores["accelerated states"]["3"]["spearman"] > 0.99
    assert scores["1x states"]["pooled"]["decisions"] == 3 * (decisions.driven == 1.0).sum() - 3
    assert scores["1x states"]["pooled"]["missed_violation_share"] == 0.0


def test_the_first_chunk_of_an_episode_counts_apart(decisions):
    assert decisions.first.sum() == 2
    anything = np.zeros((len(decisions), len(RATES)))
    assert score_groups(decisions, anything, anything, RATES, 0.1)["first chunks"]["2"]["decisions"] == 2


@pytest.mark.parametrize("rate", [1.0, 2.0])
def test_a_moment_knows_the_commands_sent_before_it(decisions, rate):
    rows = np.flatnonzero(decisions.driven == rate)
    before = decisions.moments(ALOHA, 3).before[rows]
    assert np.isnan(before[0]).all()
    for row, remembered in zip(rows[:-1], before[1:], strict=True):
        sent = accelerate(ALOHA, decisions.chunks[row], uniform_warp(12, rate)).actions
        np.testing.assert_array_equal(remembered, sent[-3:])


def test_an_episode_can_be_cut_short(decisions):
    episode = DEMONSTRATIONS.episodes[0]
    some = run_episode(LaggingEnv(episode), ReplayPolicy(episode, 12), RATES, 1.0, 0, most=2)
    np.testing.assert_array_equal(some.reference, decisions.reference[:2])


def test_trying_rates_leaves_the_environment_as_it_was():
    env = LaggingEnv(DEMONSTRATIONS.episodes[0])
    env.reset(0)
    before = env.save()
    chunk = DEMONSTRATIONS.episodes[0].actions[:12]
    reference, accelerated = try_rates(env, chunk, RATES)
    for now, then in zip(env.save(), before, strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_array_equal(reference, accelerated[0])
    assert np.isfinite(accelerated[2]).all(axis=-1).sum() == 4
