"""Scripted experts for LIBERO at the pace of a careful teleoperator, in closed loop on the simulator's poses."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.hand_motion import SmoothNoise
from speedup_patch.envs.libero_hand import OPEN, Goal, Hand, Motion, Pose
from speedup_patch.envs.libero_scripts import find_script
from speedup_patch.interfaces import Observation

if TYPE_CHECKING:
    from speedup_patch.envs.libero import LiberoEnv

TREMOR = 0.02
"""Standard deviation of the hand's tremor, in commands."""

DISTURBANCE = np.array([0.12, 0.12, 0.12, 0.06, 0.06, 0.06, 0.0])
"""Standard deviation of the disturbance that each command bears in free space."""

SHOVE = np.array([1.6, 1.6, 0.8, 0.4, 0.4, 0.4, 0.0])
"""The hardest push that each command bears in free space. A push shares its strength among all of them."""


class LiberoExpert:
    """Follows the script of the task that runs when it is first asked to act."""

    def __init__(self, env: "LiberoEnv", rng: np.random.Generator) -> None:
        self._env = env
        self._rng = rng
        self._tremor = SmoothNoise(6, 1.5, rng)
        self._hand: Hand | None = None
        self._motion: Motion | None = None
        self._last: Goal | None = None
        self._tolerance, self._shove = np.zeros(7), np.zeros(7)

    def act(self, observation: Observation) -> Float[np.ndarray, " A"]:
        """The undisturbed action for this moment."""
        self._hand = self._hand or Hand(self._env.simulator, self._rng)
        goal = self._last = self._next_goal(self._hand)
        self._tolerance, self._shove = DISTURBANCE * goal.freedom, SHOVE * goal.shove
        action = self._hand.command(goal)
        action[:6] += TREMOR * self._tremor.sample()
        return np.clip(action, -1.0, 1.0)

    def tolerance(self) -> Float[np.ndarray, " A"]:
        """Standard deviation of the disturbance that each command bears just now."""
        return self._tolerance

    def shove(self) -> Float[np.ndarray, " A"]:
        """The hardest push that each command bears just now."""
        return self._shove

    def _next_goal(self, hand: Hand) -> Goal:
        """What the script says; when it is done: again from its start, or rest where it ended if the task is solved."""
        goal = next(self._motion, None) if self._motion else None
        if goal is None and not all(hand.achieved()):
            self._motion = find_script(self._env.task)(hand)
            goal = next(self._motion, None)
        return goal or self._last or Goal(Pose(hand.position, hand.rotation), OPEN)
