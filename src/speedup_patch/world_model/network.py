"""The two learned dynamics: any-step (a GRU driven by actions alone) and one-step (an MLP fed its own predictions).

Both take un-normalised observations and actions and return un-normalised features x; the normalisation, read from the
training data, travels with the weights.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from speedup_patch.maths.momentum import SETTLING
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import command_matrix, feature_size
from speedup_patch.robots import Robot
from speedup_patch.world_model.windows import Window

RIDGE = 1e-4
"""How strongly the weights of the linear way are held back, where the data do not say."""
QUIET_START = 0.1
"""By how much the GRU's first predictions are scaled down where a linear way has been fitted already."""
MIN_SPREAD = 0.01
"""The least spread, as a share of the overall one, by which a step's error is judged: noise should not dominate."""


@dataclass(frozen=True)
class NetworkShape:
    """What must be known to build a network before its weights are loaded."""

    hidden: int
    layers: int
    velocity: bool
    residual: bool
    relative_actions: bool
    shortcut: bool = False
    """Whether the any-step network has a linear way past its GRU."""
    memory: int = 0
    """How many of the commands sent last the any-step network sees."""


class Scaling(nn.Module):
    """The normalisation to zero mean and unit deviation of one quantity of D numbers."""

    mean: Tensor
    std: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(size))

    def fit(self, rows: Float[Tensor, "N D"]) -> None:
        """Reads mean and deviation from data."""
        normalizer = Normalizer.fit(rows.cpu().numpy().astype(np.float64))
        self.mean.copy_(torch.from_numpy(normalizer.mean))
        self.std.copy_(torch.from_numpy(normalizer.std))

    def forward(self, values: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return (values - self.mean) / self.std

    def invert(self, values: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Back to the original units."""
        return values * self.std + self.mean


class NetworkDynamics(nn.Module, ABC):
    """What the two networks share: how observations and commands enter, and how predictions leave."""

    origin: Tensor
    spread: Tensor

    def __init__(self, robot: Robot, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.x_size = feature_size(robot)
        self.register_buffer("origin", torch.from_numpy(command_matrix(robot)).float(), persistent=False)
        self.register_buffer("spread", torch.ones(1, self.x_size), persistent=False)
        self.observation_scaling = Scaling(2 * self.x_size)
        self.command_scaling = Scaling(robot.action_size)
        self.target_scaling = Scaling(self.x_size)

    @property
    def input_size(self) -> int:
        """How many numbers of o the network sees."""
        return 2 * self.x_size if self.shape.velocity else self.x_size

    @abstractmethod
    def forward(
        self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B L A"], before: Float[Tensor, "B M A"]
    ) -> Float[Tensor, "B L X"]:
        """Features x after each action; ``before`` are the last commands sent, NaN where there was none."""

    @abstractmethod
    def loss(self, window: Window) -> Float[Tensor, ""]:
        """Mean squared error of the valid steps, in units of how far the training data move by then."""

    def fit_scaling(self, window: Window) -> None:
        """Reads the normalisation from training windows."""
        valid = window.valid
        self.observation_scaling.fit(window.observations)
        self.command_scaling.fit(self._relative(window.observations, window.actions)[valid])
        change = self._change(window.observations, window.targets)
        self.target_scaling.fit(change[valid])
        # A change grows with time. Judged by one spread, the first steps would hardly count, yet accelerated chunks
        # are short: every step is judged by its own.
        normalised = self.target_scaling(change) * valid[..., None]
        self.spread = (normalised**2).sum(dim=0).div(valid.sum(dim=0)[:, None]).sqrt().clamp_min(MIN_SPREAD)

    def _inputs(self, observations: Float[Tensor, "B O"]) -> Float[Tensor, "B I"]:
        return self.observation_scaling(observations)[..., : self.input_size]

    def _relative(self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B L A"]) -> Float[Tensor, "B L A"]:
        """Commands that are targets, as distances from where the robot starts."""
        if not self.shape.relative_actions:
            return actions
        return actions - (observations[:, : self.x_size] @ self.origin)[:, None]

    def _change(self, observations: Float[Tensor, "B O"], x: Float[Tensor, "B L X"]) -> Float[Tensor, "B L X"]:
        return x - observations[:, None, : self.x_size] if self.shape.residual else x

    def _restore(self, observations: Float[Tensor, "B O"], outputs: Float[Tensor, "B L X"]) -> Float[Tensor, "B L X"]:
        """x from normalised outputs."""
        change = self.target_scaling.invert(outputs)
        return change + observations[:, None, : self.x_size] if self.shape.residual else change

    def _error(
        self, outputs: Float[Tensor, "B L X"], observations: Float[Tensor, "B O"], window: Window
    ) -> Float[Tensor, ""]:
        wanted = self.target_scaling(self._change(observations, window.targets))
        squared = (((outputs - wanted) / self.spread) ** 2).mean(dim=-1)
        return (squared * window.valid).sum() / window.valid.sum()


class AnyStepDynamics(NetworkDynamics):
    """The paper's model: o_t starts the hidden state of a GRU, which then sees commands only, never a prediction.

    With a memory, the last commands sent start it, too: an arm that is told motions is still answering them.

    With a shortcut, what an arm does in proportion to its commands so far, its first velocity and its place goes past
    the GRU, which is left with the rest. Accelerated chunks command more than any demonstration, and straight lines
    reach further than gates.
    """

    def __init__(self, robot: Robot, shape: NetworkShape) -> None:
        super().__init__(robot, shape)
        seen = self.input_size + shape.memory * robot.action_size
        self.encoder = nn.Sequential(
            nn.Linear(seen, shape.hidden), nn.SiLU(), nn.Linear(shape.hidden, shape.layers * shape.hidden)
        )
        self.recurrent = nn.GRU(robot.action_size, shape.hidden, shape.layers, batch_first=True)
        self.decoder = nn.Sequential(
            nn.Linear(shape.hidden, shape.hidden), nn.SiLU(), nn.Linear(shape.hidden, self.x_size)
        )
        size = 2 * robot.action_size + self.input_size + 2
        self.shortcut = nn.Linear(size, self.x_size, bias=False) if shape.shortcut else None

    def fit_scaling(self, window: Window) -> None:
        """Reads the normalisation, and the best shortcut, from training windows; the GRU starts from little."""
        super().fit_scaling(window)
        if self.shortcut is None:
            return
        with torch.no_grad():
            commands = self.command_scaling(self._relative(window.observations, window.actions))
            wanted = self.target_scaling(self._change(window.observations, window.targets))
            weights = 1.0 / self.spread.mean(dim=-1).expand(wanted.shape[:2])[window.valid][:, None]
            rows, values = (
                (part[window.valid] * weights).cpu().double()
                for part in (self._linear_inputs(window.observations, commands), wanted)
            )
            held = RIDGE * rows.square().sum() / rows.shape[1] * torch.eye(rows.shape[1], dtype=rows.dtype)
            self.shortcut.weight.copy_(torch.linalg.solve(rows.T @ rows + held, rows.T @ values).T)
            for parameter in self.decoder[-1].parameters():
                parameter.mul_(QUIET_START)

    def _linear_inputs(
        self, observations: Float[Tensor, "B O"], commands: Float[Tensor, "B L A"]
    ) -> Float[Tensor, "B L I"]:
        """Commands so far and now, a constant, time, place times time, and how far the first velocity has led."""
        constant = torch.ones_like(commands[..., :1])
        time = constant.cumsum(dim=1)
        x, *velocity = self._inputs(observations)[:, None].split(self.x_size, dim=-1)
        ran_on = [v * (1.0 - SETTLING**time) for v in velocity]
        return torch.cat([commands.cumsum(dim=1), commands, constant, time, x * time, *ran_on], dim=-1)

    def _outputs(
        self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B L A"], before: Float[Tensor, "B M A"]
    ) -> Float[Tensor, "B L X"]:
        commands, sent = (self.command_scaling(self._relative(observations, part)) for part in (actions, before))
        # A command that was not sent, or is not known, counts as the mean of all.
        seen = torch.cat([self._inputs(observations), torch.nan_to_num(sent, nan=0.0).flatten(1)], dim=-1)
        hidden = self.encoder(seen).unflatten(-1, (self.shape.layers, self.shape.hidden))
        states, _ = self.recurrent(commands, hidden.transpose(0, 1).contiguous())
        outputs = self.decoder(states)
        if self.shortcut is None:
            return outputs
        return outputs + self.shortcut(self._linear_inputs(observations, commands))

    def forward(
        self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B L A"], before: Float[Tensor, "B M A"]
    ) -> Float[Tensor, "B L X"]:
        return self._restore(observations, self._outputs(observations, actions, before))

    def loss(self, window: Window) -> Float[Tensor, ""]:
        # One window of the full horizon holds every shorter one: the GRU is causal, so its i-th output is exactly
        # what it would give for a window of length i.
        outputs = self._outputs(window.observations, window.actions, window.before)
        return self._error(outputs, window.observations, window)


class OneStepDynamics(NetworkDynamics):
    """The paper's ablation: an MLP that predicts one step and is rolled out on its own predictions."""

    def __init__(self, robot: Robot, shape: NetworkShape) -> None:
        super().__init__(robot, shape)
        sizes = [self.input_size + robot.action_size] + [shape.hidden] * (shape.layers + 1)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.SiLU()]
        self.step = nn.Sequential(*layers, nn.Linear(shape.hidden, self.x_size))

    def _outputs(self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B 1 A"]) -> Float[Tensor, "B 1 X"]:
        commands = self.command_scaling(self._relative(observations, actions))
        return self.step(torch.cat([self._inputs(observations)[:, None], commands], dim=-1))

    def forward(
        self, observations: Float[Tensor, "B O"], actions: Float[Tensor, "B L A"], before: Float[Tensor, "B M A"]
    ) -> Float[Tensor, "B L X"]:
        predictions: list[Tensor] = []
        for step in range(actions.shape[1]):
            x = self._restore(observations, self._outputs(observations, actions[:, step : step + 1]))[:, 0]
            observations = torch.cat([x, x - observations[:, : self.x_size]], dim=-1)
            predictions.append(x)
        return torch.stack(predictions, dim=1)

    def loss(self, window: Window) -> Float[Tensor, ""]:
        first = _first_step(window)
        return self._error(self._outputs(first.observations, first.actions), first.observations, first)

    def fit_scaling(self, window: Window) -> None:
        super().fit_scaling(_first_step(window))


def _first_step(window: Window) -> Window:
    return Window(window.observations, window.before, window.actions[:, :1], window.targets[:, :1], window.valid[:, :1])
