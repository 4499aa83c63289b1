"""Training windows that share one copy of the demonstrations on the training device."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from speedup_patch.data import Demonstrations, sent_actions
from speedup_patch.errors import InputError
from speedup_patch.observations import feature_size, observe_episode
from speedup_patch.robots import Robot


class Window(NamedTuple):
    """B stretches of demonstration: where each starts, what was commanded, and where the robot went."""

    observations: Float[Tensor, "B O"]
    before: Float[Tensor, "B M A"]
    """The last commands before the start, oldest first; NaN where the episode had not begun."""
    actions: Float[Tensor, "B L A"]
    targets: Float[Tensor, "B L X"]
    """Features x after each action."""
    valid: Bool[Tensor, "B L"]
    """False past the end of the episode."""


class Windows:
    """Every moment of the demonstrations that has at least one step after it, with up to ``horizon`` steps each, and
    the last ``memory`` commands before it.

    The data lie on the device once, as concatenated rows; a window is gathered by index when it is asked for.
    """

    def __init__(
        self, robot: Robot, demonstrations: Demonstrations, horizon: int, device: torch.device, memory: int = 0
    ) -> None:
        robot.check_sizes(demonstrations.state_size, demonstrations.action_size, "the data set")
        lengths = np.array([len(episode) for episode in demonstrations])
        if lengths.max() < 2:
            raise InputError("a world model needs episodes of at least two control steps; every episode here has one")
        self.feature_size = feature_size(robot)
        observations, actions = _join(robot, demonstrations, self.feature_size)
        last = np.repeat(np.cumsum(lengths) - 1, lengths)
        starts = np.flatnonzero(np.arange(len(last)) < last)
        self.observations = torch.from_numpy(observations).to(device)
        self.actions = torch.from_numpy(actions).to(device)
        self.starts = torch.from_numpy(starts).to(device)
        self.first = torch.from_numpy(np.repeat(np.cumsum(lengths) - lengths, lengths)).to(device)
        self.last = torch.from_numpy(last).to(device)
        self.ahead = torch.arange(horizon, device=device)
        self.back = torch.arange(-memory, 0, device=device)

    def __len__(self) -> int:
        return len(self.starts)

    def gather(self, indices: Int[Tensor, " B"], length: int | None = None) -> Window:
        """The windows of these indices, their first ``length`` steps (all of the horizon by default)."""
        starts = self.starts[indices]
        rows = starts[:, None] + self.ahead[:length]
        last = self.last[starts][:, None]
        inside = torch.minimum(rows, last - 1)
        targets = self.observations[inside + 1, : self.feature_size]
        behind = starts[:, None] + self.back
        sent = self.actions[behind.clamp_min(0)]
        before = torch.where((behind >= self.first[starts][:, None])[..., None], sent, torch.nan)
        return Window(self.observations[starts], before, self.actions[inside], targets, rows < last)


def _join(
    robot: Robot, demonstrations: Demonstrations, features: int
) -> tuple[Float[np.ndarray, "N O"], Float[np.ndarray, "N A"]]:
    """(observations, what was sent) of all episodes in float32, filled one by one: only one is held in float64."""
    observations = np.empty((demonstrations.frames, 2 * features), dtype=np.float32)
    actions = np.empty((demonstrations.frames, robot.action_size), dtype=np.float32)
    row = 0
    for episode in demonstrations:
        place = slice(row, row + len(episode))
        observations[place] = observe_episode(robot, episode)
        actions[place] = sent_actions(episode)
        row += len(episode)
    return observations, actions
