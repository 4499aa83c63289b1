"""The protocols the core asks for: what a policy, a scheduler, a world model and an environment must do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.robots import Robot
from speedup_patch.warp import Warp

Observation = Mapping[str, np.ndarray]
"""What a policy sees, unbatched. ``state`` (S,) is always there. ``previous_state`` (S,), the state one control
step earlier, tells the velocity; at the first step it equals ``state``. Policies may ask for more keys, such as
``environment_state``."""


@runtime_checkable
class ChunkPolicy(Protocol):
    """A policy that answers an observation with a chunk of un-normalised actions."""

    def infer(self, observation: Observation) -> Float[np.ndarray, "n A"]:
        """The next n actions, first one first."""
        ...

    def reset(self) -> None:
        """Forgets the past: a new episode begins."""
        ...


@runtime_checkable
class Scheduler(Protocol):
    """Decides how fast a chunk runs."""

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The warp to run this chunk along; ``observation`` is the network input o_t (see observations.py), ``before``
        what the world model wants to know of the commands sent so far (see ``WorldModel``)."""
        ...

    def reset(self) -> None:
        """Forgets the past: a new episode begins."""
        ...


@runtime_checkable
class RateChooser(Protocol):
    """Picks one rate per chunk, many at a time and without memory: the paper's kind of scheduler."""

    def choose(
        self,
        observations: Float[np.ndarray, "B O"],
        chunks: Float[np.ndarray, "B n A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, " B"]:
        """A rate k >= 1 for every chunk."""
        ...


@runtime_checkable
class WorldModel(Protocol):
    """Predicts what the robot's own body does when actions are sent."""

    @property
    def robot(self) -> Robot: ...

    @property
    def memory(self) -> int:
        """M, how many of the commands sent last it takes into account."""
        ...

    def rollout(
        self,
        observations: Float[np.ndarray, "B O"],
        actions: Float[np.ndarray, "B L A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised. ``before`` are the last M
        commands sent, oldest first, NaN where there was none; None where nothing is known of them."""
        ...

    def save(self, directory: Path) -> None:
        """Writes the model into a patch folder."""
        ...


@runtime_checkable
class Env(Protocol):
    """A simulator in closed loop, one task."""

    name: str
    robot: Robot
    max_steps: int

    def reset(self, seed: int) -> Observation:
        """Starts the episode that this seed names; the same seed gives the same start."""
        ...

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[Observation, bool]:
        """Sends one action and returns what is seen one control step later, and whether the task is solved."""
        ...

    def save(self) -> object:
        """Everything needed to come back to this moment exactly."""
        ...

    def restore(self, snapshot: object) -> Observation:
        """Comes back to a saved moment; what follows repeats bit for bit."""
        ...

    def close(self) -> None: ...
