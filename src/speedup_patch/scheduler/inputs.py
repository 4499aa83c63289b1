"""What a critic looks like from outside: its sizes, and how raw observations and chunks become its inputs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import command_matrix, split_observation
from speedup_patch.robots import Robot

Encoder = Literal["mlp", "gru"]
"""What reads the shortened chunk: the paper's GRU, or an MLP over all its rows, which trains many times faster."""


@dataclass(frozen=True)
class CriticShape:
    """The sizes of a critic."""

    observation_size: int
    action_size: int
    longest: int
    """Rows of the longest shortened chunk."""
    hidden: int
    layers: int
    encoder: Encoder


@dataclass(frozen=True)
class CriticInputs:
    """How raw observations and chunks become the critic's inputs."""

    robot: Robot
    observation: Normalizer
    action: Normalizer
    relative_actions: bool

    def encode_observations(self, observations: Float[np.ndarray, "N O"]) -> Float[np.ndarray, "N O"]:
        """Normalised o."""
        return self.observation.apply(observations).astype(np.float32)

    def encode_chunks(
        self, observations: Float[np.ndarray, "N O"], chunks: Float[np.ndarray, "N *R l A"]
    ) -> Float[np.ndarray, "N *R l A"]:
        """Normalised commands, relative to where the robot is when they are targets."""
        return self.action.apply(chunks - self._origin(observations, chunks.ndim)).astype(np.float32)

    def _origin(self, observations: Float[np.ndarray, "N O"], dimensions: int) -> np.ndarray:
        if not self.relative_actions:
            return np.zeros(())
        x, _ = split_observation(observations)
        origin = x @ command_matrix(self.robot)
        return origin.reshape(len(origin), *[1] * (dimensions - 2), origin.shape[-1])
