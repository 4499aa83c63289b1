"""What a scripted expert must do for demonstrations to be collected from it."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.interfaces import Observation


@runtime_checkable
class Expert(Protocol):
    """Solves one episode in closed loop."""

    def act(self, observation: Observation) -> Float[np.ndarray, " A"]:
        """The undisturbed action for this moment."""
        ...

    def tolerance(self) -> Float[np.ndarray, " A"]:
        """Standard deviation of the disturbance that each action dimension bears at this moment, in its own unit."""
        ...

    def shove(self) -> Float[np.ndarray, " A"]:
        """The hardest push that each action dimension bears at this moment, in its own unit."""
        ...
