"""A trained world model: rolls out action sequences, saves and loads itself as safetensors + JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from speedup_patch.artefacts import read_json, write_json
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.tensor_files import check_same_tensors, load_tensors, save_tensors
from speedup_patch.world_model.config import KINDS, Kind
from speedup_patch.world_model.network import AnyStepDynamics, Dynamics, NetworkShape, OneStepDynamics
from speedup_patch.world_model.servo import ServoDynamics

ROWS_AT_ONCE = 8192
"""Rollouts computed together: enough to keep the device busy, few enough to fit in memory."""

WEIGHTS, DESCRIPTION = "world_model.safetensors", "world_model.json"


class FittedWorldModel:
    """A ``WorldModel`` around fitted dynamics of any kind."""

    def __init__(self, robot: Robot, kind: Kind, dynamics: Dynamics) -> None:
        self.robot = robot
        self.kind: Kind = kind
        self.dynamics = dynamics.eval()

    def rollout(
        self, observations: Float[np.ndarray, "B O"], actions: Float[np.ndarray, "B L A"]
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised."""
        device = next(self.dynamics.parameters()).device
        predictions: list[np.ndarray] = []
        for first in range(0, len(actions), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            o, a = (torch.from_numpy(part[rows].astype(np.float32)).to(device) for part in (observations, actions))
            with torch.inference_mode():
                predictions.append(self.dynamics(o, a).cpu().numpy())
        return np.concatenate(predictions).astype(np.float64)

    def save(self, directory: Path) -> None:
        """Writes the weights and what is needed to build the dynamics again."""
        save_tensors(directory / WEIGHTS, self.dynamics.state_dict())
        write_json(directory / DESCRIPTION, {"kind": self.kind, "robot": self.robot.name} | self.dynamics.description())


def load_world_model(directory: Path, robot: Robot) -> FittedWorldModel:
    """Reads what ``save`` wrote and checks that it fits the robot."""
    description = read_json(directory / DESCRIPTION)
    kind = description.get("kind")
    if kind not in KINDS:
        raise InputError(f"{directory / DESCRIPTION} names an unknown kind of world model {kind!r}; known: {KINDS}")
    dynamics = build_dynamics(kind, robot, description, str(directory / DESCRIPTION))
    tensors, _ = load_tensors(directory / WEIGHTS, torch.device("cpu"))
    check_same_tensors(tensors, dynamics.state_dict(), f"{directory / WEIGHTS} (for robot {robot.name!r})")
    dynamics.load_state_dict(tensors)
    return FittedWorldModel(robot, kind, dynamics)
