"""How good a scheduler's choices are, judged by what the world model says of every option."""

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
    """Predicted: original actions done per command sent when every chunk is run as chosen."""
    agreement: float
    """Share of states where the choice is greedy's."""
    violating: float
    """Share of the states that have a safe option where the chosen one violates."""


def judge_choices(
    rates: Float[np.ndarray, "N R"], violations: Bool[np.ndarray, "N R"], choices: Int[np.ndarray, " N"]
) -> ChoiceFigures:
    """Compares chosen options with the greedy ones."""
    rows = np.arange(len(choices))
    greedy = greedy_index(rates, violations)
    has_safe = ~violations.all(axis=1)
    violating = violations[rows, choices] & has_safe
    return ChoiceFigures(
        rate_mean=float(rates[rows, choices].mean()),
        greedy_rate_mean=float(rates[rows, greedy].mean()),
        speedup=float(1.0 / (1.0 / rates[rows, choices]).mean()),
        agreement=float((choices == greedy).mean()),
        violating=float(violating.sum() / max(has_safe.sum(), 1)),
    )
