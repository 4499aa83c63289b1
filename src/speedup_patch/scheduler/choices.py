"""How good a scheduler's choices are, judged by what the world model says of every rate."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.maths.cmdp import greedy_index


@dataclass(frozen=True)
class ChoiceFigures:
    """Choices over N states, beside what greedy MPC would have chosen."""

    rate_mean: float
    greedy_rate_mean: float
    speedup: float
    """Predicted: original actions per executed action when every chunk is run at its chosen rate."""
    agreement: float
    """Share of states where the choice is greedy's."""
    violating: float
    """Share of the states that have a safe rate where the chosen one violates."""


def judge_choices(
    rates: Float[np.ndarray, " R"], violations: Bool[np.ndarray, "N R"], choices: Int[np.ndarray, " N"]
) -> ChoiceFigures:
    """Compares chosen rate indices with the greedy ones."""
    greedy = greedy_index(rates, violations)
    has_safe = ~violations.all(axis=1)
    violating = violations[np.arange(len(choices)), choices] & has_safe
    return ChoiceFigures(
        rate_mean=float(rates[choices].mean()),
        greedy_rate_mean=float(rates[greedy].mean()),
        speedup=float(1.0 / (1.0 / rates[choices]).mean()),
        agreement=float((choices == greedy).mean()),
        violating=float(violating.sum() / max(has_safe.sum(), 1)),
    )


def penalised_regret(rewards: Float[np.ndarray, "N R"], choices: Int[np.ndarray, " N"]) -> float:
    """How much penalised reward r' the choices leave behind, on average over states."""
    return float((rewards.max(axis=1) - rewards[np.arange(len(choices)), choices]).mean())
