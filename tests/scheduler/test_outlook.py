import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.scheduler.outlook import best_return, discounted_regret, discounted_return, following_states

# In state 0 the larger reward leads to state 1 for ever, where there is nothing to gain.
REWARDS = np.array([[2.0, 1.0], [0.0, 0.0]])
FOLLOWING = np.array([[1, 0], [1, 1]])
GREEDY, PATIENT = np.array([0, 0]), np.array([1, 0])


def test_choices_that_look_ahead_win_where_that_pays():
    assert discounted_regret(REWARDS, FOLLOWING, PATIENT, 0.9) == pytest.approx(0.0, abs=1e-4)
    assert discounted_regret(REWARDS, FOLLOWING, GREEDY, 0.9) == pytest.approx((10 - 2) / 2, abs=1e-4)
    # One step ahead, as gamma 0 has it, they would have lost.
    assert discounted_regret(REWARDS, FOLLOWING, GREEDY, 0.0) == 0.0
    assert discounted_regret(REWARDS, FOLLOWING, PATIENT, 0.0) == 0.5


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 0.9]))
@settings(max_examples=30, deadline=None)
def test_no_choices_are_worth_more_than_the_best_nor_more_than_is_possible(seed, gamma):
    rng = np.random.default_rng(seed)
    rewards, following = rng.normal(size=(8, 3)), rng.integers(8, size=(8, 3))
    choices = rng.integers(3, size=8)
    best, found = best_return(rewards, following, gamma), discounted_return(rewards, following, choices, gamma)
    assert (found <= best + 1e-9).all()
    assert (np.abs(best) <= np.abs(rewards).max() / (1 - gamma) + 1e-9).all()
    if gamma == 0:
        np.testing.assert_array_equal(found, rewards[np.arange(8), choices])


def test_what_follows_is_the_nearest_state():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(50, 4))
    expected = rng.integers(50, size=(50, 3))
    found = following_states(states, states[expected] + 1e-6 * rng.normal(size=(50, 3, 4)))
    np.testing.assert_array_equal(found, expected)
