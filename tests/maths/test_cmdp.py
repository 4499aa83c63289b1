"""The penalised reward, the paper's bound on Omega by solving small decision problems, and the greedy choice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.maths import cmdp

RATES = np.array([1.0, 2.0, 4.0])


def optimal_choices(rewards: np.ndarray, moves: np.ndarray, gamma: float) -> np.ndarray:
    """The best rate in every state, by value iteration; ``moves`` (S, R, S) are transition probabilities."""
    values = np.zeros(len(rewards))
    for _ in range(int(np.ceil(np.log(1e-12) / np.log(max(gamma, 1e-3)))) + 2):
        values = (rewards + gamma * moves @ values).max(axis=1)
    return (rewards + gamma * moves @ values).argmax(axis=1)


def random_moves(rng: np.random.Generator, states: int) -> np.ndarray:
    moves = rng.exponential(size=(states, len(RATES), states)) ** 4
    return moves / moves.sum(axis=-1, keepdims=True)


@given(seed=st.integers(0, 2**32 - 1), gamma=st.sampled_from([0.0, 0.1, 0.5, 0.9]), states=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_above_the_bound_the_optimal_scheduler_never_violates(seed: int, gamma: float, states: int):
    rng = np.random.default_rng(seed)
    violations = rng.random((states, len(RATES))) < 0.6
    violations[np.arange(states), rng.integers(len(RATES), size=states)] = False
    penalty = cmdp.penalty_bound(gamma, RATES.max()) + 1e-3
    assert cmdp.satisfies_bound(penalty, gamma, RATES.max())
    rewards = cmdp.penalised_reward(RATES, violations, penalty)
    chosen = optimal_choices(rewards, random_moves(rng, states), gamma)
    assert not violations[np.arange(states), chosen].any()


def test_far_below_the_bound_a_violation_can_pay():
    # State 0 is slow for ever unless one violation moves the robot to state 1, where everything is safe.
    violations = np.array([[False, True, True], [False, False, False]])
    moves = np.zeros((2, 3, 2))
    moves[0, 0, 0] = moves[0, 1:, 1] = moves[1, :, 1] = 1.0
    assert not cmdp.satisfies_bound(5.0, 0.9, 4.0)
    assert optimal_choices(cmdp.penalised_reward(RATES, violations, 5.0), moves, 0.9)[0] != 0
    safe = cmdp.penalty_bound(0.9, 4.0) + 1
    assert optimal_choices(cmdp.penalised_reward(RATES, violations, safe), moves, 0.9)[0] == 0


def test_the_bound_needs_a_safe_rate_in_every_state():
    # State 0 leads to a dead end (1) safely, or by one violation to a state (2) where everything is safe.
    violations = np.array([[False, True, True], [True, True, True], [False, False, False]])
    moves = np.zeros((3, 3, 3))
    moves[0, 0, 1] = moves[0, 1:, 2] = moves[1, :, 1] = moves[2, :, 2] = 1.0
    penalty = cmdp.penalty_bound(0.9, 4.0) + 1
    chosen = optimal_choices(cmdp.penalised_reward(RATES, violations, penalty), moves, 0.9)
    assert violations[0, chosen[0]]


def test_rewards_are_the_rate_or_minus_the_penalty():
    violations = np.array([[False, True, False], [True, True, True]])
    expected = [[1.0, -7.0, 4.0], [-7.0, -7.0, -7.0]]
    np.testing.assert_array_equal(cmdp.penalised_reward(RATES, violations, 7.0), expected)
    with pytest.raises(ValueError, match="Omega must not be negative"):
        cmdp.penalised_reward(RATES, violations, -5.0)


def test_the_papers_own_penalties_against_its_bound():
    assert cmdp.penalty_bound(0.9, 4.0) == pytest.approx(36)
    assert cmdp.penalty_bound(0.0, 4.0) == 0
    assert not cmdp.satisfies_bound(5.0, 0.9, 4.0)
    assert not cmdp.satisfies_bound(1.0, 0.9, 4.0)
    assert cmdp.satisfies_bound(2.0, 0.1, 2.0)
    for gamma in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="gamma"):
            cmdp.penalty_bound(gamma, 4.0)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=6), st.permutations(range(3)))
@settings(max_examples=40, deadline=None)
def test_greedy_takes_the_fastest_safe_rate_or_the_slowest(rows: list[list[bool]], order: list[int]):
    violations = np.array(rows, dtype=bool).reshape(-1, 3)[:, order]
    rates = RATES[order]
    chosen = cmdp.greedy_rate(rates, violations)
    assert chosen.shape == (len(rows),)
    for choice, bad in zip(chosen, violations, strict=True):
        assert choice == (rates[~bad].max() if not bad.all() else rates.min())
    np.testing.assert_array_equal(rates[cmdp.greedy_index(rates, violations)], chosen)


def test_greedy_answers_one_state_and_refuses_no_rates():
    assert cmdp.greedy_rate(RATES, np.array([False, False, True])) == 2.0
    with pytest.raises(ValueError, match="at least one rate"):
        cmdp.greedy_rate(np.zeros(0), np.zeros((2, 0), dtype=bool))
