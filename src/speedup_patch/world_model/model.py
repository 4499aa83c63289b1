"""World models of learned dynamics, and how any world model is read back from its folder (safetensors + JSON)."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float

from speedup_patch.array_files import check_same_shapes, load_arrays
from speedup_patch.artefacts import read_json, write_json
from speedup_patch.errors import InputError
from speedup_patch.observations import no_commands
from speedup_patch.robots import Robot
from speedup_patch.tensor_files import load_tensors, save_tensors
from speedup_patch.world_model.config import KINDS, Kind
from speedup_patch.world_model.network import AnyStepDynamics, NetworkDynamics, NetworkShape, OneStepDynamics
from speedup_patch.world_model.servo import ServoWorldModel, servo_from_arrays

ROWS_AT_ONCE = 8192
"""Rollouts computed together: enough to keep a device busy, few enough to fit in memory."""

DYNAMICS: dict[str, type[NetworkDynamics]] = {"gru": AnyStepDynamics, "mlp": OneStepDynamics}


class NetworkWorldModel:
    """A ``WorldModel`` around a trained network."""

    def __init__(self, robot: Robot, kind: Kind, dynamics: NetworkDynamics) -> None:
        self.robot = robot
        self.kind: Kind = kind
        self.dynamics = dynamics.eval()

    @property
    def memory(self) -> int:
        """How many of the commands sent last it takes into account."""
        return self.dynamics.shape.memory

    def rollout(
        self,
        observations: Float[np.ndarray, "B O"],
        actions: Float[np.ndarray, "B L A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised."""
        device = next(self.dynamics.parameters()).device
        sent = no_commands(len(actions), self.memory, actions.shape[-1]) if before is None else before
        predictions = np.empty((*actions.shape[:2], self.dynamics.x_size), dtype=np.float32)
        for first in range(0, len(actions), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            inputs = (
                torch.from_numpy(part[rows].astype(np.float32)).to(device) for part in (observations, actions, sent)
            )
            with torch.inference_mode():
                predictions[rows] = self.dynamics(*inputs).cpu().numpy()
        return predictions

    def save(self, directory: Path) -> None:
        """Writes the weights, and what is needed to build the network again."""
        save_tensors(directory / "world_model.safetensors", self.dynamics.state_dict())
        description = {"kind": self.kind, "robot": self.robot.name, "network": asdict(self.dynamics.shape)}
        write_json(directory / "world_model.json", description)


def load_world_model(directory: Path, robot: Robot) -> NetworkWorldModel | ServoWorldModel:
    """Reads what ``save`` wrote and checks that it fits the robot."""
    description = read_json(directory / "world_model.json")
    kind = description.get("kind")
    if kind not in KINDS:
        raise InputError(
            f"{directory / 'world_model.json'} names an unknown kind of world model, {kind!r}; "
            f"known kinds: {', '.join(KINDS)}"
        )
    path = directory / "world_model.safetensors"
    what = f"{path}, read for robot {robot.name!r},"
    if kind == "servo":
        return servo_from_arrays(robot, load_arrays(path), what)
    tensors, _ = load_tensors(path, torch.device("cpu"))
    shape = _read_shape(description, directory / "world_model.json")
    dynamics = DYNAMICS[kind](robot, shape)
    check_same_shapes(tensors, dynamics.state_dict(), what)
    dynamics.load_state_dict(tensors)
    return NetworkWorldModel(robot, kind, dynamics)


def _read_shape(description: dict[str, Any], path: Path) -> NetworkShape:
    network = description.get("network")
    flags = ("velocity", "residual", "relative_actions", "shortcut")
    expected = {"hidden": int, "layers": int, "memory": int} | dict.fromkeys(flags, bool)
    # The first world models had no shortcut and no memory, and did not say so.
    shape = {"shortcut": False, "memory": 0} | network if isinstance(network, dict) else {}
    if {name: type(value) for name, value in shape.items()} != expected:
        raise InputError(f"{path} must describe its network by {', '.join(expected)}; it says {network!r}")
    return NetworkShape(**cast(dict[str, Any], shape))
