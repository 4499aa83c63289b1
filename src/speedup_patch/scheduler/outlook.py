"""What choices are worth over the chunks that follow, told from held-out states alone: no Q and no V is asked.

The transition of option r in state i ends in a predicted observation; the state of the set that is nearest to it stands
for what follows. On this small decision problem the discounted return of any choices, and the best there is, are exact:

    J(i) = r'(i, c_i) + gamma J(following(i, c_i)),    J*(i) = max_r r'(i, r) + gamma J*(following(i, r)).
"""

import math

import numpy as np
from jaxtyping import Float, Int

ROWS_AT_ONCE = 1024
SMALLEST_WEIGHT = 1e-6
"""What lies so many chunks ahead that its weight gamma^m is smaller is left out."""


def following_states(
    observations: Float[np.ndarray, "N O"], next_observations: Float[np.ndarray, "N R O"]
) -> Int[np.ndarray, "N R"]:
    """Which of the N states is nearest to each predicted observation; all are normalised."""
    rows = next_observations.reshape(-1, observations.shape[1])
    lengths = np.square(observations).sum(axis=1)
    parts = [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE)]
    nearest = [(lengths - 2.0 * part @ observations.T).argmin(axis=1) for part in parts]
    return np.concatenate(nearest).reshape(next_observations.shape[:2])


def discounted_return(
    rewards: Float[np.ndarray, "N R"], following: Int[np.ndarray, "N R"], choices: Int[np.ndarray, " N"], gamma: float
) -> Float[np.ndarray, " N"]:
    """J of these choices."""
    rows = np.arange(len(choices))
    now, then = rewards[rows, choices], following[rows, choices]
    values = np.zeros(len(choices))
    for _ in range(_chunks_ahead(gamma)):
        values = now + gamma * values[then]
    return values


def best_return(
    rewards: Float[np.ndarray, "N R"], following: Int[np.ndarray, "N R"], gamma: float
) -> Float[np.ndarray, " N"]:
    """J* of the best choices, by value iteration."""
    values = np.zeros(len(rewards))
    for _ in range(_chunks_ahead(gamma)):
        values = (rewards + gamma * values[following]).max(axis=1)
    return values


def discounted_regret(
    rewards: Float[np.ndarray, "N R"], following: Int[np.ndarray, "N R"], choices: Int[np.ndarray, " N"], gamma: float
) -> float:
    """How much penalised reward r', discounted, the choices leave behind, on average over states."""
    best = best_return(rewards, following, gamma)
    return float((best - discounted_return(rewards, following, choices, gamma)).mean())


def _chunks_ahead(gamma: float) -> int:
    return 1 if gamma == 0 else 1 + math.ceil(math.log(SMALLEST_WEIGHT) / math.log(gamma))
