"""The constrained decision problem: faster is better, as long as nothing is violated."""

import numpy as np
from jaxtyping import Bool, Float, Int


def penalised_reward(
    rates: Float[np.ndarray, "*#B R"], violations: Bool[np.ndarray, "*B R"], penalty: float
) -> Float[np.ndarray, "*B R"]:
    """r': the rate where it is safe, minus Omega (``penalty``, not negative) where it violates. The rate is the paper's
    k, or original actions done per command sent (see ``candidates.Options.rates``)."""
    if not penalty >= 0:
        raise ValueError(f"penalty Omega must not be negative, got {penalty}; the reward of a violation is -Omega")
    return np.where(violations, -float(penalty), rates)


def penalty_bound(gamma: float, max_rate: float) -> float:
    """gamma * K / (1 - gamma): with a larger Omega the optimal scheduler violates in no state, provided that every
    state offers a safe rate (proposition 2; otherwise one violation now can pay off by avoiding later ones)."""
    if not 0 <= gamma < 1:
        raise ValueError(f"discount gamma must lie in [0, 1), got {gamma}")
    return float(gamma * max_rate / (1 - gamma))


def value_bounds(rewards: Float[np.ndarray, "*B R"], gamma: float) -> tuple[float, float]:
    """(lowest, highest) discounted return that rewards in this range allow: r' / (1 - gamma) of the least and of the
    largest, which is [-Omega / (1 - gamma), K / (1 - gamma)] where some options violate and some are safe at K."""
    if not 0 <= gamma < 1:
        raise ValueError(f"discount gamma must lie in [0, 1), got {gamma}")
    return float(rewards.min()) / (1 - gamma), float(rewards.max()) / (1 - gamma)


def satisfies_bound(penalty: float, gamma: float, max_rate: float) -> bool:
    """Whether Omega is larger than the bound."""
    return bool(penalty > penalty_bound(gamma, max_rate))


def greedy_index(rates: Float[np.ndarray, "*#B R"], violations: Bool[np.ndarray, "*B R"]) -> Int[np.ndarray, "*B"]:
    """Which rate is the largest safe one, or the slowest where every rate violates; rates may come in any order."""
    if rates.shape[-1] == 0:
        raise ValueError("at least one rate is needed to choose from")
    best = np.where(violations, -np.inf, rates).argmax(axis=-1)
    return np.where(violations.all(axis=-1), rates.argmin(axis=-1), best)


def greedy_rate(rates: Float[np.ndarray, " R"], violations: Bool[np.ndarray, "*B R"]) -> Float[np.ndarray, "*B"]:
    """The largest safe rate, or the slowest allowed one where every rate violates."""
    return np.asarray(rates[greedy_index(rates, violations)])
