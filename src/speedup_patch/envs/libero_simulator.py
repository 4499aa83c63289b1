"""One LIBERO task in robosuite: the stock physics, started, stepped, read, saved and restored exactly."""

# MuJoCo is a compiled module without type stubs; LIBERO and robosuite have no types.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from speedup_patch.envs.libero_setup import initial_states, prepare_libero, task_file
from speedup_patch.envs.libero_tasks import LiberoTask

if TYPE_CHECKING:
    from speedup_patch.envs.libero_controller import PoseController

SETTLE_ACTION = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
SETTLE_STEPS = 10
"""Control steps at rest, opening the gripper, before an episode starts: things fall into place."""

IMAGE_SIZE = 128

_STATE_MASK = int(mujoco.mjtState.mjSTATE_INTEGRATION)


@dataclass(frozen=True)
class SimulatorSnapshot:
    """One moment of a task: MuJoCo's integration state with its warm start, where the furniture stands, and what
    the controller remembers."""

    integration: Float[np.ndarray, " N"]
    body_positions: Float[np.ndarray, "bodies 3"]
    body_quaternions: Float[np.ndarray, "bodies 4"]
    goal_position: Float[np.ndarray, "3"]
    goal_rotation: Float[np.ndarray, "3 3"]
    gripper_command: Float[np.ndarray, "2"]


class TaskSimulator:
    """One task's robosuite environment without observables: everything is read from MuJoCo directly."""

    def __init__(self, task: LiberoTask, cameras: Sequence[str], double_gripper: bool) -> None:
        self.task = task
        self.cameras = tuple(cameras)
        self._env = _make_robosuite_env(task, bool(cameras), double_gripper)
        self._model: mujoco.MjModel = self._env.sim.model._model
        self._data: mujoco.MjData = self._env.sim.data._data
        self._controller = _make_controller(self._model, self._data, self._env)
        self._robot = self._env.robots[0]
        self._hand = self._model.body(self._robot.robot_model.eef_name).id
        self._fingers = self._robot._ref_gripper_joint_pos_indexes
        self._arm = self._robot._ref_joint_pos_indexes
        self._motors = self._robot._ref_joint_actuator_indexes
        joints = [joint for fixture in self._env.fixtures_dict.values() for joint in fixture.joints]
        self.fixture_joint_names: tuple[str, ...] = tuple(joints)
        self._fixture_joints = [int(self._model.joint(joint).qposadr[0]) for joint in joints]

    @property
    def objects_of_interest(self) -> tuple[str, ...]:
        """What LIBERO's task definition says it is about: objects, fixtures or regions."""
        return tuple(self._env.obj_of_interest)

    @property
    def objects(self) -> tuple[str, ...]:
        """The things that can be moved about."""
        return tuple(self._env.objects_dict)

    @property
    def fixtures(self) -> tuple[str, ...]:
        """The furniture, without the table."""
        return tuple(self._env.fixtures_dict)

    def start(self, initial: int, arm_noise: Float[np.ndarray, "7"]) -> None:
        """Begins at LIBERO's initial state of this number with the arm's joints moved by ``arm_noise`` radians, then
        lets things settle. The furniture is placed, as LIBERO does, at random within a centimetre: by this number."""
        self._reset(initial)
        self._env.sim.set_state_from_flattened(initial_states(self.task)[initial])
        self._settle(arm_noise)

    def start_anew(self, seed: int, arm_noise: Float[np.ndarray, "7"]) -> None:
        """As ``start``, with all things where LIBERO's own rules place them for this seed.

        LIBERO places what stands on furniture by adding the furniture's new place to where its surfaces are before the
        reset: so the furniture is taken back to the origin first, where LIBERO, which loads the scene anew, has it.
        """
        for name in self.fixtures:
            root = self._model.body(self._env.get_object(name).root_body)
            root.pos, root.quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        self._reset(seed)
        self._settle(arm_noise)

    def _reset(self, seed: int) -> None:
        with _numpy_seeded(seed):
            self._env.reset()
        self._robot.gripper.current_action = np.zeros(self._robot.gripper.dof)

    def _settle(self, arm_noise: Float[np.ndarray, "7"]) -> None:
        self._data.qpos[self._arm] += arm_noise
        mujoco.mj_forward(self._model, self._data)
        # robosuite's own loop takes the first step, in which it still aims at where the arm was reset to.
        self._env.step(SETTLE_ACTION)
        self._controller.take_over(self._env)
        for _ in range(SETTLE_STEPS - 1):
            self.step(SETTLE_ACTION)

    def step(self, action: Float[np.ndarray, "7"]) -> bool:
        """One control step; whether LIBERO's goal holds after it."""
        before = self._data.time
        self._controller.step(action)
        self._env._post_process()
        solved = self._env._check_success()
        if self._data.time <= before:
            raise RuntimeError(f"{self.task.name}: the simulation diverged and MuJoCo restarted it")
        # Poses that belong to the new qpos, without the solver, whose warm start must stay as it is.
        mujoco.mj_kinematics(self._model, self._data)
        return bool(solved)

    def achieved(self) -> tuple[bool, ...]:
        """Which of the task's goals hold at this moment, in the order of the task's file."""
        return tuple(bool(self._env._eval_predicate(goal)) for goal in self._env.parsed_problem["goal_state"])

    def state(self) -> Float[np.ndarray, "8"]:
        """Gripper site's position (3), hand's orientation as axis-angle (3, turns of up to two pi, so that it never
        jumps), both fingers' positions (2)."""
        position = self._data.site_xpos[self._robot.eef_site_id]
        return np.concatenate([position, _axis_angle(self._data.xquat[self._hand]), self._data.qpos[self._fingers]])

    def arm_joints(self) -> Float[np.ndarray, "7"]:
        """The arm's joint angles in radians."""
        return self._data.qpos[self._arm].copy()

    def arm_torques(self) -> Float[np.ndarray, "7"]:
        """What the arm's motors exerted last, N m."""
        return self._data.actuator_force[self._motors].copy()

    def fixture_joints(self) -> Float[np.ndarray, " J"]:
        """How far drawers (metres), doors and knobs (radians) are, in the order of ``fixture_joint_names``."""
        return self._data.qpos[self._fixture_joints].copy()

    def pose(self, name: str) -> Float[np.ndarray, "7"]:
        """Position and (x, y, z, w) quaternion of an object, a piece of furniture, a region or any site or body."""
        body = self._env.obj_body_id.get(name)
        if body is None and mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_SITE, name) >= 0:
            site = self._model.site(name).id
            quaternion = np.empty(4)
            mujoco.mju_mat2Quat(quaternion, self._data.site_xmat[site])
            return np.concatenate([self._data.site_xpos[site], np.roll(quaternion, -1)])
        body = self._model.body(name).id if body is None else body
        return np.concatenate([self._data.xpos[body], np.roll(self._data.xquat[body], -1)])

    def image(self, camera: str) -> UInt8[np.ndarray, "h w 3"]:
        """What a camera sees, upright."""
        pixels = self._env.sim.render(camera_name=camera, width=IMAGE_SIZE, height=IMAGE_SIZE)
        return np.ascontiguousarray(pixels[::-1])

    def save(self) -> SimulatorSnapshot:
        """Everything needed to come back to this moment exactly."""
        integration = np.empty(mujoco.mj_stateSize(self._model, _STATE_MASK))
        mujoco.mj_getState(self._model, self._data, integration, _STATE_MASK)
        return SimulatorSnapshot(
            integration,
            self._model.body_pos.copy(),
            self._model.body_quat.copy(),
            self._controller.goal_position,
            self._controller.goal_rotation,
            self._controller.gripper_command,
        )

    def restore(self, snapshot: SimulatorSnapshot) -> None:
        """Comes back to a saved moment of this task."""
        self._model.body_pos[:] = snapshot.body_positions
        self._model.body_quat[:] = snapshot.body_quaternions
        mujoco.mj_setState(self._model, self._data, snapshot.integration, _STATE_MASK)
        mujoco.mj_kinematics(self._model, self._data)
        self._controller.goal_position = snapshot.goal_position
        self._controller.goal_rotation = snapshot.goal_rotation
        self._controller.gripper_command = snapshot.gripper_command

    def close(self) -> None:
        """Releases the renderer, if there is one."""
        self._env.close()


def _make_controller(model: mujoco.MjModel, data: mujoco.MjData, env: Any) -> "PoseController":
    from speedup_patch.envs.libero_controller import PoseController

    return PoseController(model, data, env)


def _make_robosuite_env(task: LiberoTask, rendering: bool, double_gripper: bool) -> Any:
    prepare_libero()
    from libero.libero.envs.env_wrapper import ControlEnv

    with _numpy_seeded(0):
        control = ControlEnv(
            bddl_file_name=str(task_file(task)),
            gripper_types=_double_gripper_type() if double_gripper else "default",
            use_camera_obs=False,
            has_offscreen_renderer=rendering,
            hard_reset=False,
            ignore_done=True,
        )
    # What robosuite observes every 2 ms would cost a quarter of the time and is never asked for.
    control.env._observables = {}
    return control.env


def _double_gripper_type() -> str:
    """The name of a gripper that robosuite then knows: the Panda's, twice as fast."""
    from robosuite.models.grippers import GRIPPER_MAPPING
    from robosuite.models.grippers.panda_gripper import PandaGripper

    class DoubleSpeedPandaGripper(PandaGripper):
        @property
        def speed(self) -> float:
            return 2.0 * super().speed

    name = DoubleSpeedPandaGripper.__name__
    GRIPPER_MAPPING.setdefault(name, DoubleSpeedPandaGripper)
    return name


@contextmanager
def _numpy_seeded(seed: int) -> Generator[None]:
    """LIBERO draws from NumPy's global generator; whoever else uses it finds it as it was."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


def _axis_angle(quaternion: Float[np.ndarray, "4"]) -> Float[np.ndarray, "3"]:
    """Of MuJoCo's (w, x, y, z), whose sign is kept: kinematics moves it smoothly, also through half a turn."""
    sine = float(np.linalg.norm(quaternion[1:]))
    return quaternion[1:] * (2.0 * np.arctan2(sine, quaternion[0]) / max(sine, 1e-12))
