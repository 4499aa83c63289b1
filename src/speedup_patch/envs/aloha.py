"""gym-aloha's two tasks without cameras: the stock physics, starts and success at over a thousand steps a second."""

# MuJoCo is a compiled module without type stubs.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from gym_aloha.constants import (
    ASSETS_DIR,
    DT,
    START_ARM_POSE,
    normalize_puppet_gripper_position,
    unnormalize_puppet_gripper_position,
)
from gym_aloha.utils import sample_box_pose, sample_insertion_pose
from jaxtyping import Float

from speedup_patch.data import MachineState
from speedup_patch.envs.stage import Stage, View
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Observation
from speedup_patch.robots import ALOHA, Robot

Task = Literal["transfer", "insertion"]

MODEL_FILES: dict[Task, str] = {
    "transfer": "bimanual_viperx_transfer_cube.xml",
    "insertion": "bimanual_viperx_insertion.xml",
}
MAX_STEPS = 900
"""Control steps before an attempt counts as failed: one and a half times the longest demonstration (see collect.py)."""

ROBOT_QPOS = 16
"""Two arms of six joints and two fingers come first in qpos; the objects' free joints follow."""

ARM_JOINTS = (*range(6), *range(8, 14))
"""Where the joints of both arms, without fingers, stand among positions and among actuators."""

VIEW = View((0.0, 0.5, 0.175), distance=0.93, azimuth=90.0, elevation=-35.0)

_STATE_MASK = int(mujoco.mjtState.mjSTATE_INTEGRATION)


@dataclass(frozen=True)
class AlohaSnapshot:
    """One moment of an AlohaEnv: MuJoCo's integration state, warm start included, and the last two robot states."""

    task: Task
    integration: Float[np.ndarray, " N"]
    state: Float[np.ndarray, " S"]
    previous_state: Float[np.ndarray, " S"]


class AlohaEnv:
    """One gym-aloha task in closed loop at 50 Hz; implements ``Env``.

    Observations: ``state`` (14,), ``previous_state`` (14,) and ``environment_state``, the pose of the cube (7,) or of
    the peg and the socket (14,): position in metres, then MuJoCo's (w, x, y, z) quaternion.
    """

    def __init__(self, task: Task) -> None:
        self.task: Task = task
        self.name = f"aloha/{task}"
        self.robot: Robot = ALOHA
        self.max_steps = MAX_STEPS
        self.model = mujoco.MjModel.from_xml_path(str(ASSETS_DIR / MODEL_FILES[task]))
        self._data = mujoco.MjData(self.model)
        self._substeps = round(DT / self.model.opt.timestep)
        self._state = self._previous_state = np.zeros(ALOHA.state_size)
        self._winning, self._losing = _success_pairs(self.model, task)
        self.reset(0)

    @property
    def task_name(self) -> str:
        """The one task there is."""
        return self.name

    def reset(self, seed: int) -> Observation:
        """The stock start for this seed: arms at rest, objects where gym-aloha samples them."""
        poses = sample_box_pose(seed) if self.task == "transfer" else np.concatenate(sample_insertion_pose(seed))
        mujoco.mj_resetData(self.model, self._data)
        self._data.qpos[:ROBOT_QPOS] = START_ARM_POSE
        self._data.ctrl[:] = START_ARM_POSE
        self._data.qpos[ROBOT_QPOS:] = poses
        with _actuation_disabled(self.model):
            mujoco.mj_forward(self.model, self._data)
        self._state = self._previous_state = self._read_state()
        return self._observe()

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[Observation, bool]:
        """Sends 14 absolute targets (radians; grippers 0 closed .. 1 open); the actuators clamp them to their range."""
        _check_action(action)
        self._data.ctrl[:] = _controls(action)
        before = self._data.time
        # dm_control's order: positions, velocities and contacts are up to date when the step returns.
        mujoco.mj_step2(self.model, self._data)
        mujoco.mj_step(self.model, self._data, self._substeps - 1)
        mujoco.mj_step1(self.model, self._data)
        if self._data.time <= before:
            raise RuntimeError(f"{self.name}: the simulation diverged and MuJoCo restarted it")
        self._previous_state, self._state = self._state, self._read_state()
        return self._observe(), self.solved()

    def hold_action(self) -> Float[np.ndarray, " A"]:
        """The targets that the arms have: at the start, the pose they stand in."""
        ctrl = self._data.ctrl
        left, right = (normalize_puppet_gripper_position(ctrl[index]) for index in (6, 14))
        return np.concatenate([ctrl[:6], [left], ctrl[8:14], [right]])

    def machine(self) -> MachineState:
        """The twelve joints of the arms (rad) and what drives them (N m)."""
        joints = list(ARM_JOINTS)
        return MachineState(self._data.qpos[joints], self._data.actuator_force[joints])

    def solved(self) -> bool:
        """gym-aloha's reward 4: the left finger holds the lifted cube, or the peg touches the socket's pin."""
        pairs = {(int(first), int(second)) for first, second in self._data.contact.geom}
        return self._winning in pairs and self._losing not in pairs

    def save(self) -> AlohaSnapshot:
        """Everything needed to come back to this moment exactly."""
        integration = np.empty(mujoco.mj_stateSize(self.model, _STATE_MASK))
        mujoco.mj_getState(self.model, self._data, integration, _STATE_MASK)
        return AlohaSnapshot(self.task, integration, self._state, self._previous_state)

    def restore(self, snapshot: object) -> Observation:
        """Comes back to a saved moment; what follows repeats bit for bit."""
        if not isinstance(snapshot, AlohaSnapshot) or snapshot.task != self.task:
            raise InputError(f"{self.name} can only restore what its own save() returned")
        mujoco.mj_setState(self.model, self._data, snapshot.integration, _STATE_MASK)
        mujoco.mj_step1(self.model, self._data)
        self._state, self._previous_state = snapshot.state, snapshot.previous_state
        return self._observe()

    @property
    def stage(self) -> Stage:
        """What a film needs: the table and both arms, from the front."""
        return Stage(self.model, self._data, VIEW, headlight=0.55)

    def close(self) -> None:
        """Nothing to release: no renderer is ever opened."""

    def _read_state(self) -> Float[np.ndarray, " S"]:
        qpos = self._data.qpos
        left_gripper = normalize_puppet_gripper_position(qpos[6])
        right_gripper = normalize_puppet_gripper_position(qpos[14])
        return np.concatenate([qpos[:6], [left_gripper], qpos[8:14], [right_gripper]])

    def _observe(self) -> Observation:
        return {
            "state": self._state.copy(),
            "previous_state": self._previous_state.copy(),
            "environment_state": self._data.qpos[ROBOT_QPOS:].copy(),
        }


def _controls(action: Float[np.ndarray, " A"]) -> Float[np.ndarray, " U"]:
    left, right = (unnormalize_puppet_gripper_position(action[index]) for index in (6, 13))
    return np.concatenate([action[:6], [left, -left], action[7:13], [right, -right]])


def _check_action(action: Float[np.ndarray, " A"]) -> None:
    if action.shape != (ALOHA.action_size,):
        raise InputError(f"an ALOHA action has {ALOHA.action_size} numbers, not shape {action.shape}")
    if not np.isfinite(action).all():
        worst = int(np.argmin(np.isfinite(action)))
        raise InputError(f"action {ALOHA.action_names[worst]} is {action[worst]}; every target must be finite")


def _success_pairs(model: mujoco.MjModel, task: Task) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """(geoms that must touch, geoms that must not) for reward 4, in the order in which MuJoCo lists a contact."""

    def pair(first: str, second: str) -> tuple[int, int]:
        return int(model.geom(first).id), int(model.geom(second).id)

    if task == "transfer":
        return pair("red_box", "vx300s_left/10_left_gripper_finger"), pair("red_box", "table")
    return pair("red_peg", "pin"), None


@contextmanager
def _actuation_disabled(model: mujoco.MjModel) -> Generator[None]:
    """dm_control starts an episode this way, before any action has been sent."""
    flags = model.opt.disableflags
    model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    yield
    model.opt.disableflags = flags
