"""The critic and the learned world models, computed by onnxruntime."""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.array_files import load_arrays
from speedup_patch.artefacts import read_json
from speedup_patch.candidates import Choices
from speedup_patch.errors import InputError
from speedup_patch.interfaces import WorldModel
from speedup_patch.observations import feature_size, no_commands
from speedup_patch.onnx_files import compute, open_session
from speedup_patch.robots import Robot
from speedup_patch.scheduler.chooser import LearnedChooser
from speedup_patch.scheduler.files import GRAPH, read_scheduler
from speedup_patch.world_model.servo import servo_from_arrays

WORLD_MODEL_GRAPH = "world_model.onnx"
ROWS_AT_ONCE = 4096


class OnnxCritic:
    """A QFunction computed by onnxruntime."""

    def __init__(self, path: Path) -> None:
        self._session = open_session(path, "the scheduler's file")

    def __call__(
        self,
        observations: Float[np.ndarray, "N O"],
        chunks: Float[np.ndarray, "N l A"],
        lengths: Int[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        feeds = {"observation": observations, "chunk": chunks, "length": lengths}
        return compute(self._session, feeds)


class OnnxWorldModel:
    """A ``WorldModel`` from an ONNX graph: any number of steps at once (gru), or one step at a time (mlp)."""

    def __init__(self, robot: Robot, path: Path, one_step: bool) -> None:
        self.robot = robot
        self._session = open_session(path, "the world model's file")
        inputs = {entry.name: entry.shape for entry in self._session.get_inputs()}
        self.memory: int = inputs["before"][1] if "before" in inputs else 0
        """How many of the commands sent last it takes into account."""
        self._one_step = one_step

    def rollout(
        self,
        observations: Float[np.ndarray, "B O"],
        actions: Float[np.ndarray, "B L A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised."""
        sent = no_commands(len(actions), self.memory, actions.shape[-1]) if before is None else before
        whole = [array.astype(np.float32) for array in (observations, actions, sent)]
        parts = [slice(first, first + ROWS_AT_ONCE) for first in range(0, len(actions), ROWS_AT_ONCE)]
        predict = self._step_by_step if self._one_step else self._run
        return np.concatenate([predict(*(array[part] for array in whole)) for part in parts])

    def save(self, directory: Path) -> None:
        """A model made for running only; the folder it came from is the one to copy."""
        raise InputError("a world model read for running cannot be saved again: copy its patch folder instead")

    def _run(
        self, o: Float[np.ndarray, "B O"], actions: Float[np.ndarray, "B L A"], before: Float[np.ndarray, "B M A"]
    ) -> Float[np.ndarray, "B L X"]:
        feeds = {"observation": o, "actions": actions} | ({"before": before} if self.memory else {})
        return compute(self._session, feeds)

    def _step_by_step(
        self, o: Float[np.ndarray, "B O"], actions: Float[np.ndarray, "B L A"], before: Float[np.ndarray, "B M A"]
    ) -> Float[np.ndarray, "B L X"]:
        size = feature_size(self.robot)
        predictions = np.empty((*actions.shape[:2], size), dtype=np.float32)
        for step in range(actions.shape[1]):
            x = self._run(o, actions[:, step : step + 1], before)[:, 0]
            o = np.concatenate([x, x - o[:, :size]], axis=-1)
            predictions[:, step] = x
        return predictions


def load_chooser(directory: Path, robot: Robot) -> tuple[LearnedChooser, Choices]:
    """The scheduler of a patch folder, run by onnxruntime, and what it chooses from."""
    saved = read_scheduler(directory, robot)
    return LearnedChooser(OnnxCritic(directory / GRAPH), saved.inputs, saved.shape.longest), saved.choices


def load_world_model(directory: Path, robot: Robot) -> WorldModel:
    """The world model of a patch folder, run by numpy (servo) or onnxruntime (gru, mlp)."""
    kind = read_json(directory / "world_model.json").get("kind")
    if kind == "servo":
        path = directory / "world_model.safetensors"
        return servo_from_arrays(robot, load_arrays(path), f"{path}, read for robot {robot.name!r},")
    if kind not in ("gru", "mlp"):
        raise InputError(
            f"{directory / 'world_model.json'} names an unknown kind of world model, {kind!r}; "
            "known kinds: gru, mlp, servo"
        )
    return OnnxWorldModel(robot, directory / WORLD_MODEL_GRAPH, one_step=kind == "mlp")
