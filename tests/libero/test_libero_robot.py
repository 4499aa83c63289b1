"""The robots ``panda_libero`` and ``panda_libero_joints`` against the simulator that they describe."""

import numpy as np
import pytest

pytest.importorskip("robosuite", reason="needs the LIBERO environment")

from speedup_patch.envs import make_env
from speedup_patch.envs.libero import LiberoEnv
from speedup_patch.maths.poses import compose_poses, rotation_distance
from speedup_patch.robots import find_robot

pytestmark = pytest.mark.libero
REST = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])


@pytest.fixture(scope="module")
def env() -> LiberoEnv:
    made = make_env("libero/goal/7")
    assert isinstance(made, LiberoEnv)
    made.reset(0)
    return made


def test_dimensions_limits_and_rate(env: LiberoEnv) -> None:
    robosuite_env = env.simulator._env
    low, high = robosuite_env.action_spec
    np.testing.assert_array_equal(env.robot.action_low, low)
    np.testing.assert_array_equal(env.robot.action_high, high)
    assert env.robot.control_hz == robosuite_env.control_freq
    controller = robosuite_env.robots[0].controller
    scales = np.repeat([group.scale for group in env.robot.actions[:2]], 3)
    np.testing.assert_allclose(scales, controller.output_max)


def test_a_full_action_sets_the_goal_that_the_scales_say(env: LiberoEnv) -> None:
    """Measured at the controller: its goal minus the pose at the start of the step."""
    translation, turn, _ = env.robot.actions
    for dimension in range(6):
        for sign in (-1.0, 1.0):
            state = env.reset(0)["state"]
            start = controller_pose(env)
            action = REST.copy()
            action[dimension] = sign
            env.step(action)
            after = env.simulator.save()
            moved = after.goal_position - state[:3]
            turned = 2.0 * rotation_distance(quaternion(after.goal_rotation), start)
            if dimension < 3:
                np.testing.assert_allclose(moved, sign * translation.scale * np.eye(3)[dimension], atol=1e-9)
            else:
                np.testing.assert_allclose(moved, 0.0, atol=1e-9)
                assert turned == pytest.approx(turn.scale, abs=1e-6)


def controller_pose(env: LiberoEnv) -> np.ndarray:
    robot = env.simulator._env.robots[0]
    return quaternion(env.simulator._data.site_xmat[robot.eef_site_id].reshape(3, 3))


def quaternion(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(rotation).as_quat()


def test_poses_are_the_simulators_along_a_motion(env: LiberoEnv) -> None:
    joints_robot = find_robot("panda_libero_joints")
    rng = np.random.default_rng(0)
    env.reset(1)
    base = env.simulator.pose("robot0_base")
    for _ in range(30):
        state = env.step(rng.uniform(-1, 1, 7))[0]["state"]
        site, hand = env.simulator.pose("gripper0_grip_site"), env.simulator.pose("robot0_right_hand")
        from_state = env.robot.poses(state)[0]
        from_joints = compose_poses(base, joints_robot.poses(np.r_[env.simulator.arm_joints(), state[6:]])[0])
        for pose in (from_state, from_joints):
            np.testing.assert_allclose(pose[:3], site[:3], atol=1e-5)
            assert rotation_distance(pose[3:], hand[3:]) < 1e-5


def test_gripper_closes_with_plus_one_within_its_stroke_time(env: LiberoEnv) -> None:
    (gripper,) = env.robot.grippers
    env.reset(0)
    width = {}
    for command in (gripper.closed, gripper.open):
        action = REST.copy()
        action[gripper.action] = command
        for _ in range(gripper.stroke_steps):
            state = env.step(action)[0]["state"]
        width[command] = float(np.ptp(state[list(gripper.state)]))
    assert width[gripper.closed] < 0.01
    assert width[gripper.open] > 0.07
