"""Every robot constant against the model its simulator compiles."""

import gym_aloha.constants as gym_constants
import mujoco
import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA, ROBOTS, ActionGroup, Arm, Robot, StatePose, find_robot

SIDES = ("left", "right")


@pytest.fixture(scope="module", params=["bimanual_viperx_transfer_cube.xml", "bimanual_viperx_insertion.xml"])
def model(request: pytest.FixtureRequest) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(gym_constants.ASSETS_DIR / request.param))


def simulator_joint(name: str) -> str:
    """``left_waist`` -> ``vx300s_left/waist``."""
    side, joint = name.split("_", 1)
    return f"vx300s_{side}/{joint}"


def joint_dimensions() -> list[int]:
    return [i for i, name in enumerate(ALOHA.state_names) if not name.endswith("gripper")]


def test_aloha_forward_kinematics_match_the_simulator(model: mujoco.MjModel):
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    low, high = ALOHA.action_low, ALOHA.action_high
    for state in rng.uniform(low, high, size=(50, ALOHA.state_size)):
        for i in joint_dimensions():
            data.qpos[model.joint(simulator_joint(ALOHA.state_names[i])).qposadr[0]] = state[i]
        mujoco.mj_kinematics(model, data)
        for arm, pose in zip(ALOHA.arms, ALOHA.poses(state), strict=True):
            body = data.body(f"vx300s_{arm.name}/gripper_link")
            np.testing.assert_allclose(pose[:3], body.xpos, atol=1e-6)
            quaternion = np.roll(body.xquat, -1)
            assert abs(quaternion @ pose[3:]) == pytest.approx(1.0, abs=1e-9)


def test_aloha_names_and_limits_match_the_simulator(model: mujoco.MjModel):
    assert ALOHA.state_names == ALOHA.action_names
    assert ALOHA.state_size == ALOHA.action_size == 14
    for i in joint_dimensions():
        joint = model.joint(simulator_joint(ALOHA.action_names[i]))
        driver = next(a for a in range(model.nu) if model.actuator_trnid[a, 0] == joint.id)
        for limits in (joint.range, model.actuator_ctrlrange[driver]):
            np.testing.assert_allclose([ALOHA.action_low[i], ALOHA.action_high[i]], limits)
    assert ALOHA.control_hz == pytest.approx(1 / gym_constants.DT)


def test_there_is_a_rating_for_every_joint_where_there_are_any():
    joints = {"aloha": 12, "panda_libero": 7, "panda_libero_joints": 7, "panda_robomimic": 7, "droid": 7}
    assert {name: len(robot.rated_speeds) for name, robot in ROBOTS.items() if robot.rated_speeds} == joints
    assert {len(robot.rated_torques) for robot in ROBOTS.values()} == {0, 7}


def test_aloha_grippers_are_normalised_as_in_the_simulator(model: mujoco.MjModel):
    for arm in ALOHA.arms:
        gripper = arm.gripper
        assert gripper is not None
        assert ALOHA.action_names[gripper.action] == f"{arm.name}_gripper"
        open_finger = gym_constants.unnormalize_puppet_gripper_position(gripper.open)
        closed_finger = gym_constants.unnormalize_puppet_gripper_position(gripper.closed)
        low, high = model.joint(f"vx300s_{arm.name}/left_finger").range
        # 1 is just beyond the wide end of the finger's range, 0 below the narrow one.
        assert closed_finger <= low < high
        assert open_finger == pytest.approx(high, abs=2e-3)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=lambda robot: robot.name)
def test_every_robot_is_consistent(robot: Robot):
    assert find_robot(robot.name) is robot
    assert len(set(robot.state_names)) == robot.state_size
    assert len(set(robot.action_names)) == robot.action_size
    assert (robot.action_low < robot.action_high).all()
    covered = [i for part in robot.action_slices for i in range(part.start, part.stop)]
    assert covered == list(range(robot.action_size))
    middle = 0.5 * np.ones((2, 3, robot.state_size))
    poses = robot.poses(middle)
    assert poses.shape == (2, 3, len(robot.arms), 7)
    np.testing.assert_allclose(np.linalg.norm(poses[..., 3:], axis=-1), 1.0, atol=1e-9)
    for gripper in robot.grippers:
        group = next(g for g, part in zip(robot.actions, robot.action_slices, strict=True)
                     if part.start <= gripper.action < part.stop)  # fmt: skip
        assert group.mode == "gripper"
        assert gripper.closed != gripper.open
    assert all(0 <= action < robot.action_size for action in robot.drives)


def test_driven_states_carry_the_name_of_their_command():
    for action, state in ALOHA.drives.items():
        assert ALOHA.action_names[action] == ALOHA.state_names[state]


def test_mistakes_in_a_robot_are_named():
    with pytest.raises(InputError, match=r"known robots: .*aloha"):
        find_robot("hal9000")
    with pytest.raises(InputError, match="one low and one high"):
        ActionGroup(("x",), "delta", "m", (0.0, 0.0), (1.0,))
    with pytest.raises(InputError, match="axis_angle takes 3"):
        ActionGroup(("x",), "delta", "rad", (0.0,), (1.0,), rotation="axis_angle")
    with pytest.raises(InputError, match="six_d takes 6"):
        StatePose((0, 1, 2), (3, 4, 5), "six_d")
    with pytest.raises(InputError, match="'aloha'"):
        ALOHA.check_sizes(7, 14, "the data set")


def test_a_pose_that_the_state_carries_is_driven_by_nothing():
    panda = find_robot("panda_libero")
    arm = panda.arms[0]
    assert isinstance(arm.pose, StatePose)
    name = panda.state_names[arm.pose.position[0]]
    target = ActionGroup(("x",), "absolute", "m", (-1.0,), (1.0,), drives=arm.pose.position[:1])
    with pytest.raises(InputError, match=f"{name}: an end-effector pose in the state is not driven"):
        Robot("r", 20.0, panda.state_names, (target,), (Arm("arm", arm.pose),))
