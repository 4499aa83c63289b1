"""Robot constants against what their makers publish, and against BiGym's own figures."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from speedup_patch.acceleration import accelerate
from speedup_patch.maths.poses import compose_poses, pose_distance
from speedup_patch.robots import (
    ARX5_BIMANUAL,
    DROID,
    H1_BIGYM,
    PANDA_LIBERO,
    PANDA_LIBERO_JOINTS,
    PANDA_ROBOMIMIC,
    SO101,
    SO101_DEGREES,
)
from speedup_patch.warp import uniform_warp

BIGYM = json.loads((Path(__file__).parent / "bigym_frames.json").read_text())

Origin = tuple[tuple[float, float, float], tuple[float, float, float]]
"""A URDF origin: xyz in metres, rpy in radians."""

SO101_ORIGINS: tuple[Origin, ...] = (
    ((0.0388353, -8.97657e-09, 0.0624), (3.14159, 4.18253e-17, -3.14159)),
    ((-0.0303992, -0.0182778, -0.0542), (-1.5708, -1.5708, 0.0)),
    ((-0.11257, -0.028, 1.73763e-16), (-3.63608e-16, 8.74301e-16, 1.5708)),
    ((-0.1349, 0.0052, 3.62355e-17), (4.02456e-15, 8.67362e-16, -1.5708)),
    ((5.55112e-17, -0.0611, 0.0181), (1.5708, 0.0486795, 3.14159)),
    ((-0.0079, -0.000218121, -0.0981274), (0.0, 3.14159, 0.0)),
)
ARX5_ORIGINS: tuple[Origin, ...] = (
    ((0.0, 0.0, 0.0603), (0.0, 0.0, 0.0)),
    ((0.02, 0.0, 0.0402), (0.0, 0.0, 0.0)),
    ((-0.264, 0.0, 0.0), (-3.1416, 0.0, 0.0)),
    ((0.245, 0.0, -0.056), (0.0, 0.0, 0.0)),
    ((0.06575, -0.001, -0.0825), (0.0, 0.0, 0.0)),
    ((0.02845, 0.0, 0.0825), (-3.1416, 0.0, 0.0)),
    ((0.145, 0.0, 0.0), (0.0, 0.0, 0.0)),
)
ARX5_AXES = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))
PANDA_DH = ((0, 0.333, 0), (0, 0, -1), (0, 0.316, 1), (0.0825, 0, 1), (-0.0825, 0.384, -1), (0, 0, 1), (0.088, 0, 1))
"""Franka's modified Denavit-Hartenberg parameters: a and d in metres, alpha in quarter turns."""


def pose(xyz: object, rotation: Rotation) -> np.ndarray:
    return np.concatenate([np.asarray(xyz, dtype=float), rotation.as_quat()])


def urdf_pose(origins: tuple[Origin, ...], axes: object, angles: np.ndarray) -> np.ndarray:
    """The end of a URDF chain; its last origin is a fixed tool."""
    found = pose((0, 0, 0), Rotation.identity())
    turns = [Rotation.from_rotvec(angle * np.array(axis, float)) for angle, axis in zip(angles, axes, strict=True)]  # type: ignore[call-overload]
    for (xyz, rpy), turn in zip(origins, [*turns, Rotation.identity()], strict=True):
        found = compose_poses(found, pose(xyz, Rotation.from_euler("xyz", rpy) * turn))
    return found


def panda_pose(angles: np.ndarray, tool: np.ndarray) -> np.ndarray:
    found = pose((0, 0, 0), Rotation.identity())
    for (a, d, quarters), angle in zip(PANDA_DH, angles, strict=True):
        tilt = Rotation.from_euler("x", quarters * np.pi / 2)
        found = compose_poses(found, pose((a, 0, 0), tilt))
        found = compose_poses(found, pose((0, 0, d), Rotation.from_euler("z", angle)))
    return compose_poses(found, tool)


@pytest.mark.parametrize("seed", range(5))
def test_so101_is_the_published_urdf_in_both_units(seed: int):
    angles = np.random.default_rng(seed).uniform(-1.5, 1.5, size=5)
    expected = urdf_pose(SO101_ORIGINS, [(0, 0, 1)] * 5, angles)
    in_degrees = np.append(np.degrees(angles), 50.0)
    in_percent = np.append(100 * angles / [1.91986, 1.74533, 1.69, 1.65806, np.pi], 50.0)
    for robot, state in ((SO101_DEGREES, in_degrees), (SO101, in_percent)):
        assert pose_distance(robot.poses(state)[0], expected) < 2e-5  # the URDF writes pi with 6 digits


@pytest.mark.parametrize("seed", range(5))
def test_arx5_is_the_published_urdf(seed: int):
    state = np.random.default_rng(seed).uniform(ARX5_BIMANUAL.action_low, ARX5_BIMANUAL.action_high)
    left, right = ARX5_BIMANUAL.poses(state)
    assert pose_distance(left, urdf_pose(ARX5_ORIGINS, ARX5_AXES, state[:6])) < 2e-5
    assert pose_distance(right, urdf_pose(ARX5_ORIGINS, ARX5_AXES, state[7:13])) < 2e-5


@pytest.mark.parametrize("seed", range(5))
def test_pandas_follow_frankas_parameters(seed: int):
    angles = np.random.default_rng(seed).uniform(-2, 2, size=7)
    flange = panda_pose(angles, pose((0, 0, 0.107), Rotation.identity()))
    assert pose_distance(DROID.poses(np.append(angles, 0.0))[0], flange) < 1e-9
    # robosuite's hand sits half a millimetre lower, turned by -45 degrees (its quaternion has three digits).
    hand = panda_pose(angles, pose((0, 0, 0.1065 + 0.097), Rotation.from_euler("z", -np.pi / 4)))
    assert pose_distance(PANDA_LIBERO_JOINTS.poses(np.append(angles, [0.04, -0.04]))[0], hand) < 5e-4


def test_h1_has_bigyms_dimensions_and_limits():
    names = [name.removeprefix("h1/").removesuffix("_joint") for name in BIGYM["joints"]]
    names = [name.replace("robotiq_2f85_left/", "left_gripper_") for name in names]
    names = [name.replace("robotiq_2f85_right/", "right_gripper_") for name in names]
    assert list(H1_BIGYM.state_names[:30]) == [f"qpos_{name}" for name in names]
    assert list(H1_BIGYM.state_names[30:60]) == [f"qvel_{name}" for name in names]
    np.testing.assert_allclose(H1_BIGYM.action_low, BIGYM["action_low"], atol=1e-6)
    np.testing.assert_allclose(H1_BIGYM.action_high, BIGYM["action_high"], atol=1e-6)


def test_h1_poses_are_bigyms_pinch_sites():
    states = np.array([frame["state"] for frame in BIGYM["frames"]])
    expected = np.array([frame["poses"] for frame in BIGYM["frames"]])
    assert states.shape[1] == H1_BIGYM.state_size
    assert np.ptp(expected[..., :3], axis=0).min() > 0.1
    found = H1_BIGYM.poses(states)
    np.testing.assert_allclose(found[..., :3], expected[..., :3], atol=1e-6)
    np.testing.assert_array_less(pose_distance(found, expected), 1e-6)


def test_the_same_pose_in_the_states_of_libero_and_robomimic():
    rng = np.random.default_rng(0)
    place, turn, fingers = rng.normal(size=(9, 3)), Rotation.random(9, rng=rng), rng.normal(size=(9, 2))
    as_axis_angle = np.concatenate([place, turn.as_rotvec(), fingers], axis=1)
    as_quaternion = np.concatenate([place, turn.as_quat(), fingers], axis=1)
    gap = pose_distance(PANDA_LIBERO.poses(as_axis_angle), PANDA_ROBOMIMIC.poses(as_quaternion))
    np.testing.assert_array_less(gap, 1e-9)


def test_droids_velocities_add_up_and_are_cut():
    chunk = np.full((4, 8), 0.3)
    chunk[:, 0] = 0.8
    merged = accelerate(DROID, chunk, uniform_warp(4, 2.0))
    np.testing.assert_allclose(merged.actions[:, 1:7], 0.6)
    np.testing.assert_allclose(merged.actions[:, 0], 1.0)
    np.testing.assert_allclose(merged.actions[:, 7], 0.3)
    assert merged.lost[0] > 0
    assert (merged.lost[1:] == 0).all()


def test_another_frequency_keeps_the_strokes_duration():
    for robot in (SO101, ARX5_BIMANUAL):
        seconds = robot.grippers[0].stroke_steps / robot.control_hz
        strokes = [robot.at(hertz).grippers[0].stroke_steps for hertz in (10.0, 20.0, 30.0, 50.0)]
        assert all(slow <= fast for slow, fast in pairwise(strokes))
        for steps, hertz in zip(strokes, (10.0, 20.0, 30.0, 50.0), strict=True):
            assert steps == pytest.approx(seconds * hertz, abs=0.5)
        assert robot.at(robot.control_hz) == robot
