"""Forward kinematics against a chain of scipy rotations; against MuJoCo it is checked in test_robots.py."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.maths.kinematics import forward_kinematics
from speedup_patch.maths.poses import canonical_sign, compose_poses


def random_chain(rng: np.random.Generator, joints: int) -> dict[str, np.ndarray]:
    return {
        "positions": rng.normal(size=(joints, 3)),
        "quaternions": Rotation.random(joints, rng=rng).as_quat(),
        "axes": rng.normal(size=(joints, 3)),
        "base": np.concatenate([rng.normal(size=3), Rotation.random(rng=rng).as_quat()]),
    }


@given(seed=st.integers(0, 2**32 - 1), joints=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_pose_is_the_chain_of_offsets_and_turns(seed: int, joints: int):
    rng = np.random.default_rng(seed)
    chain, angles = random_chain(rng, joints), rng.uniform(-4, 4, size=(2, 3, joints))
    expected = np.broadcast_to(chain["base"], (2, 3, 7))
    for i in range(joints):
        axis = chain["axes"][i] / np.linalg.norm(chain["axes"][i])
        offset = np.concatenate([chain["positions"][i], chain["quaternions"][i]])
        turn = Rotation.from_rotvec(angles[..., i].reshape(-1, 1) * axis).as_quat().reshape(2, 3, 4)
        turn = np.concatenate([np.zeros((2, 3, 3)), turn], axis=-1)
        expected = compose_poses(compose_poses(expected, np.broadcast_to(offset, (2, 3, 7))), turn)
    found = forward_kinematics(angles, **chain)
    np.testing.assert_allclose(found[..., :3], expected[..., :3], atol=1e-9)
    np.testing.assert_allclose(Rotation.from_quat(found[0, 0, 3:]).as_matrix(),
                               Rotation.from_quat(expected[0, 0, 3:]).as_matrix(), atol=1e-9)  # fmt: skip
    assert (found[..., 6] >= 0).all()
    np.testing.assert_array_equal(forward_kinematics(angles[1, 2], **chain).shape, (7,))
    np.testing.assert_allclose(forward_kinematics(angles[1, 2], **chain), found[1, 2], atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), joints=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_slides_shift_along_their_axis_and_the_tool_comes_last(seed: int, joints: int):
    rng = np.random.default_rng(seed)
    chain, values = random_chain(rng, joints), rng.uniform(-2, 2, size=(4, joints))
    slides, tool = rng.random(joints) < 0.5, np.concatenate([rng.normal(size=3), Rotation.random(rng=rng).as_quat()])
    expected = np.broadcast_to(chain["base"], (4, 7))
    for i in range(joints):
        axis = chain["axes"][i] / np.linalg.norm(chain["axes"][i])
        move = values[:, i, None] * axis
        still = np.zeros((4, 3))
        turn = Rotation.from_rotvec(still if slides[i] else move).as_quat()
        expected = compose_poses(expected, np.concatenate([chain["positions"][i], chain["quaternions"][i]]))
        expected = compose_poses(expected, np.concatenate([move if slides[i] else still, turn], axis=-1))
    expected = compose_poses(expected, tool)
    found = forward_kinematics(values, **chain, slides=slides, tool=tool)
    np.testing.assert_allclose(found[:, :3], expected[:, :3], atol=1e-9)
    np.testing.assert_allclose(np.abs((found[:, 3:] * expected[:, 3:]).sum(axis=-1)), 1.0, atol=1e-12)


def test_single_precision_and_empty_batches_are_answered_in_double():
    chain = random_chain(np.random.default_rng(0), 6)
    assert forward_kinematics(np.zeros((0, 6)), **chain).shape == (0, 7)
    assert forward_kinematics(np.zeros(6, np.float32), **chain).dtype == np.float64


def test_lengths_of_axes_and_quaternions_do_not_matter():
    rng = np.random.default_rng(1)
    chain, angles = random_chain(rng, 4), rng.normal(size=4)
    base = np.concatenate([chain["base"][:3], 3 * chain["base"][3:]])
    scaled = {**chain, "axes": 2 * chain["axes"], "quaternions": 5 * chain["quaternions"], "base": base}
    np.testing.assert_allclose(forward_kinematics(angles, **scaled), forward_kinematics(angles, **chain), atol=1e-12)


def test_a_joint_without_an_axis_is_named():
    chain = random_chain(np.random.default_rng(2), 3)
    chain["axes"][1] = 0
    with pytest.raises(ValueError, match="joint axis 1"):
        forward_kinematics(np.zeros(3), **chain)


def test_zero_angles_give_the_product_of_the_offsets():
    chain = random_chain(np.random.default_rng(3), 3)
    pose = chain["base"]
    for position, quaternion in zip(chain["positions"], chain["quaternions"], strict=True):
        pose = compose_poses(pose, np.concatenate([position, quaternion]))
    found = forward_kinematics(np.zeros(3), **chain)
    np.testing.assert_allclose(found, np.concatenate([pose[:3], canonical_sign(pose[3:])]), atol=1e-12)
