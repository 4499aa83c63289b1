"""Fits a world model to demonstrations."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from speedup_patch.data import Demonstrations
from speedup_patch.interfaces import WorldModel
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.observations import feature_poses
from speedup_patch.reporting import HELD_OUT, Report, silent
from speedup_patch.robots import Robot
from speedup_patch.training import LoopConfig, adam_tensors, load_adam_tensors, train
from speedup_patch.world_model.config import LONGEST_HORIZON, Kind, WorldModelConfig
from speedup_patch.world_model.model import DYNAMICS, NetworkWorldModel
from speedup_patch.world_model.network import NetworkDynamics, NetworkShape
from speedup_patch.world_model.servo import ServoWorldModel, why_no_servo
from speedup_patch.world_model.servo_fit import fit_servo_world_model
from speedup_patch.world_model.windows import Window, Windows

JUDGED_WINDOWS = 2048
"""Held-out windows that figures are computed on, spread evenly; all of them when there are fewer."""

MAX_GRADIENT_NORM = 1.0


class DynamicsLearner:
    """Trains a network on windows, with a learning rate that falls to zero along a cosine."""

    def __init__(
        self, dynamics: NetworkDynamics, training: Windows, held_out: Windows, loop: LoopConfig, device: torch.device
    ) -> None:
        self.dynamics = dynamics.to(device)
        self.training = training
        self.held_out = spread(held_out)
        self.loop = loop
        self.optimizer = torch.optim.Adam(self.dynamics.parameters(), lr=loop.learning_rate)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.dynamics.fit_scaling(spread(training))

    def update(self, batch: Int[Tensor, " B"]) -> dict[str, Tensor]:
        """One gradient step on these windows."""
        progress = min(float(self.updates) / self.loop.steps, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.loop.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        loss = self.dynamics.loss(self.training.gather(batch))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.dynamics.parameters(), MAX_GRADIENT_NORM)
        self.optimizer.step()
        self.updates += 1
        return {"loss": loss.detach()}

    def evaluate(self) -> dict[str, float]:
        """The loss on held-out windows."""
        with torch.inference_mode():
            return {"loss": float(self.dynamics.loss(self.held_out))}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes."""
        return {
            **self.dynamics.state_dict(),
            **adam_tensors(self.optimizer, "optimizer"),
            "updates": self.updates,
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Continues from what ``tensors`` returned."""
        self.dynamics.load_state_dict({name: tensors[name] for name in self.dynamics.state_dict()})
        load_adam_tensors(self.optimizer, tensors, "optimizer")
        self.updates = tensors["updates"].cpu().clone()


def spread(windows: Windows) -> Window:
    """At most ``JUDGED_WINDOWS`` windows, spread evenly over the data."""
    count = min(JUDGED_WINDOWS, len(windows))
    return windows.gather(torch.linspace(0, len(windows) - 1, count, device=windows.starts.device).long())


def resolve_kind(config: WorldModelConfig, robot: Robot) -> Kind:
    """The kind to fit: the one asked for, or for ``auto`` the servo where the robot allows it, else the GRU."""
    if config.kind == "auto":
        return "gru" if why_no_servo(robot) else "servo"
    return config.kind


def train_world_model(
    training: Demonstrations,
    held_out: Demonstrations,
    robot: Robot,
    config: WorldModelConfig,
    *,
    device: torch.device,
    chunk_length: int = LONGEST_HORIZON,
    checkpoint: Path | None = None,
    resume: bool = False,
    report: Report = silent,
) -> tuple[NetworkWorldModel | ServoWorldModel, dict[str, float]]:
    """A world model for chunks of this length, and how far its predictions are off on held-out demonstrations.

    A servo is fitted in one go, in well under a minute: it writes no checkpoint, and takes its time to settle, however
    short the chunks are.
    """
    kind = resolve_kind(config, robot)
    horizon = config.resolved_horizon(LONGEST_HORIZON if kind == "servo" else chunk_length)
    memory = config.memory if kind == "gru" else 0
    judged = Windows(robot, held_out, horizon, device, memory)
    if kind == "servo":
        model = fit_servo_world_model(training, robot, horizon, report)
        steps = len(robot.drives)
    else:
        loop = config.resolved_loop(kind)
        windows = Windows(robot, training, horizon, device, memory)
        dynamics = build_dynamics(kind, robot, config, loop.seed)
        learner = DynamicsLearner(dynamics, windows, judged, loop, device)
        history = train(
            learner,
            len(windows),
            loop,
            stage="world model",
            device=device,
            checkpoint=checkpoint,
            made_for={"horizon": horizon},
            resume=resume,
            report=report,
        )
        model = NetworkWorldModel(robot, kind, dynamics)
        steps = history[-1].step
    figures = judge(model, spread(judged))
    report("world model", steps, steps, {f"{HELD_OUT}{name}": value for name, value in figures.items()})
    return model, figures


def build_dynamics(kind: Kind, robot: Robot, config: WorldModelConfig, seed: int) -> NetworkDynamics:
    """An untrained network whose weights follow from the seed alone."""
    shape = NetworkShape(config.hidden, config.layers, config.velocity, config.residual, config.relative_actions)
    if kind == "gru":
        shape = replace(shape, shortcut=config.shortcut, memory=config.memory)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DYNAMICS[kind](robot, shape)


def judge(model: WorldModel, window: Window) -> dict[str, float]:
    """Root mean squared end-effector errors after 1, a quarter, half and all of the horizon: position in mm, turn in
    degrees."""
    observations, actions, before = (
        part.cpu().numpy() for part in (window.observations, window.actions, window.before)
    )
    predicted = feature_poses(model.robot, model.rollout(observations, actions, before))
    true = feature_poses(model.robot, window.targets.cpu().numpy())
    valid = window.valid.cpu().numpy()
    horizon = actions.shape[1]
    figures: dict[str, float] = {}
    for step in sorted({1, max(horizon // 4, 1), max(horizon // 2, 1), horizon}):
        rows = valid[:, step - 1]
        ours, theirs = predicted[rows, step - 1], true[rows, step - 1]
        figures[f"position_mm_at_{step}"] = 1e3 * _root_mean_square(
            np.linalg.norm(ours[..., :3] - theirs[..., :3], axis=-1)
        )
        figures[f"turn_degrees_at_{step}"] = np.degrees(
            2.0 * _root_mean_square(rotation_distance(ours[..., 3:], theirs[..., 3:]))
        )
    return figures


def _root_mean_square(values: Float[np.ndarray, "..."]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else math.nan
