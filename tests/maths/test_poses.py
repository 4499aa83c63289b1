"""Rotations agree with scipy, convert back and forth, and poses interpolate and compare as the paper says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.transform import Rotation

from speedup_patch.maths import poses

SIZES = {"quaternion_xyzw": 4, "quaternion_wxyz": 4, "axis_angle": 3, "euler_xyz": 3, "six_d": 6, "matrix": 9}
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30, deadline=None)


def random_quaternions(seed: int, *shape: int) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(*shape, 4))
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def random_poses(seed: int, *shape: int) -> np.ndarray:
    position = np.random.default_rng(seed + 1).normal(size=(*shape, 3))
    return np.concatenate([position, random_quaternions(seed, *shape)], axis=-1)


@pytest.mark.parametrize("representation", SIZES)
@given(seed=seeds)
@few
def test_every_representation_comes_back_as_the_same_rotation(representation: str, seed: int):
    quaternions = random_quaternions(seed, 2, 3)
    written = poses.quaternion_to_rotation(quaternions, representation)
    assert written.shape == (2, 3, SIZES[representation])
    back = poses.rotation_to_quaternion(written, representation)
    assert (back[..., 3] >= 0).all()
    np.testing.assert_allclose(back, poses.canonical_sign(quaternions), atol=1e-7)


@given(seed=seeds)
@few
def test_representations_agree_with_scipy(seed: int):
    quaternions = random_quaternions(seed, 5)
    rotation = Rotation.from_quat(quaternions)
    matrix = rotation.as_matrix()
    columns = np.concatenate([matrix[:, :, 0], matrix[:, :, 1]], axis=-1)
    for representation, expected in {
        "axis_angle": rotation.as_rotvec(),
        "euler_xyz": rotation.as_euler("xyz"),
        "matrix": matrix.reshape(5, 9),
        "six_d": columns,
    }.items():
        np.testing.assert_allclose(poses.quaternion_to_rotation(quaternions, representation), expected, atol=1e-9)


@pytest.mark.parametrize("representation", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_empty_and_single_inputs_keep_their_shape_and_precision(representation: str, dtype: type):
    for shape in ((0,), (), (0, 3)):
        quaternions = random_quaternions(0, *shape).astype(dtype)
        written = poses.quaternion_to_rotation(quaternions, representation)
        back = poses.rotation_to_quaternion(written, representation)
        assert written.shape == (*shape, SIZES[representation])
        assert back.shape == (*shape, 4)
        assert written.dtype == back.dtype == dtype


@pytest.mark.parametrize("turn", [0.0, 1e-13, 1e-7, np.pi - 1e-9, np.pi, -np.pi, 3 * np.pi])
def test_axis_angle_is_right_at_its_edges(turn: float):
    given_turn = np.array([0.0, turn, 0.0])
    matrix = Rotation.from_quat(poses.rotation_to_quaternion(given_turn, "axis_angle")).as_matrix()
    np.testing.assert_allclose(matrix, Rotation.from_rotvec(given_turn).as_matrix(), atol=1e-12)
    small = poses.quaternion_to_axis_angle(poses.axis_angle_to_quaternion(given_turn))
    assert np.linalg.norm(small) <= np.pi + 1e-12


@pytest.mark.parametrize(
    ("representation", "bad"),
    [
        ("quaternion_xyzw", [0, 0, 0, 0]),
        ("quaternion_wxyz", [0, 0, np.nan, 0]),
        ("six_d", [1, 0, 0, 2, 0, 0]),
        ("matrix", [0] * 9),
        ("matrix", [1, 0, 0, 0, 1, 0, 0, 0, -1]),
    ],
)
def test_what_is_no_rotation_is_refused_by_its_index(representation: str, bad: list[float]):
    rows = np.tile(poses.quaternion_to_rotation(np.array([0.0, 0.0, 0.0, 1.0]), representation), (2, 3, 1))
    rows[1, 2] = bad
    with pytest.raises(ValueError, match=r"index \(1, 2\)"):
        poses.rotation_to_quaternion(rows, representation)


def test_an_unknown_representation_is_named():
    with pytest.raises(ValueError, match="'rpy'"):
        poses.rotation_to_quaternion(np.zeros(3), "rpy")
    with pytest.raises(ValueError, match="'rpy'"):
        poses.quaternion_to_rotation(np.array([0.0, 0.0, 0.0, 1.0]), "rpy")


@given(
    six_d=hnp.arrays(np.float64, (4, 6), elements=st.floats(-1e200, 1e200, allow_subnormal=True)),
    single=st.booleans(),
)
@few
def test_any_finite_six_d_gives_a_unit_quaternion(six_d: np.ndarray, single: bool):
    values = np.clip(six_d, -1e30, 1e30).astype(np.float32) if single else six_d
    quaternions = poses.six_d_to_quaternion(values)
    np.testing.assert_allclose(np.linalg.norm(quaternions, axis=-1), 1.0, atol=1e-5)


@given(seed=seeds, scales=st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), shear=st.floats(-2, 2))
@few
def test_gram_schmidt_ignores_scale_and_shear(seed: int, scales: tuple[float, float], shear: float):
    quaternions = random_quaternions(seed, 3)
    columns = poses.quaternion_to_six_d(quaternions)
    first, second = columns[:, :3] * scales[0], columns[:, 3:] * scales[1] + shear * columns[:, :3] * scales[1]
    back = poses.six_d_to_quaternion(np.concatenate([first, second], axis=-1))
    np.testing.assert_allclose(back, poses.canonical_sign(quaternions), atol=1e-9)


def test_a_diverged_network_is_not_hidden():
    assert np.isnan(poses.six_d_to_quaternion(np.full(6, np.nan))).all()


@given(seed=seeds)
@few
def test_products_and_turned_vectors_agree_with_matrices(seed: int):
    left, right = random_quaternions(seed, 4), random_quaternions(seed + 1, 4)
    vector = np.random.default_rng(seed).normal(size=(4, 3))
    product = Rotation.from_quat(poses.quaternion_multiply(left, right)).as_matrix()
    expected = Rotation.from_quat(left).as_matrix() @ Rotation.from_quat(right).as_matrix()
    np.testing.assert_allclose(product, expected, atol=1e-12)
    np.testing.assert_allclose(poses.rotate_vector(left, vector), Rotation.from_quat(left).apply(vector), atol=1e-12)


@given(seed=seeds)
@few
def test_a_turn_takes_one_orientation_to_the_next(seed: int):
    before, after = random_quaternions(seed, 4), random_quaternions(seed + 1, 4)
    turns = poses.turns_between(before, -after)
    reached = Rotation.from_rotvec(turns) * Rotation.from_quat(before)
    np.testing.assert_allclose(reached.as_matrix(), Rotation.from_quat(after).as_matrix(), atol=1e-9)
    assert (np.linalg.norm(turns, axis=-1) <= np.pi + 1e-9).all()


@given(seed=seeds)
@few
def test_poses_compose_associatively_with_an_identity(seed: int):
    a, b, c = (random_poses(seed + i, 3) for i in range(3))
    left = poses.compose_poses(poses.compose_poses(a, b), c)
    right = poses.compose_poses(a, poses.compose_poses(b, c))
    np.testing.assert_allclose(poses.pose_distance(left, right), 0.0, atol=1e-9)
    nothing = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(poses.pose_distance(poses.compose_poses(nothing, a), a), 0.0, atol=1e-12)


@given(seed=seeds, fraction=st.floats(0, 1))
@few
def test_nlerp_stays_on_the_shorter_arc(seed: int, fraction: float):
    start, end = random_quaternions(seed, 6), random_quaternions(seed + 1, 6)
    between = poses.nlerp(start, end, fraction)
    np.testing.assert_allclose(np.linalg.norm(between, axis=-1), 1.0, atol=1e-12)
    whole = poses.rotation_distance(start, end)
    parts = poses.rotation_distance(start, between) + poses.rotation_distance(between, end)
    np.testing.assert_allclose(parts, whole, atol=1e-9)
    np.testing.assert_allclose(poses.rotation_distance(between, poses.nlerp(start, -end, fraction)), 0, atol=1e-9)


def test_nlerp_is_exact_at_both_ends_and_safe_for_opposite_rotations():
    start, end = random_quaternions(1, 50), random_quaternions(2, 50)
    np.testing.assert_array_equal(poses.nlerp(start, end, 0.0), start)
    np.testing.assert_array_equal(poses.nlerp(start, end, 1.0), end)
    half_turn = poses.nlerp(np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0]), 0.5)
    np.testing.assert_allclose(half_turn, np.array([1, 0, 0, 1]) / np.sqrt(2))


def test_interpolation_is_exact_at_given_times_linear_between_and_held_outside():
    path = random_poses(3, 2, 4)
    times = np.array([0.0, 1.0, 2.5, 3.0])
    np.testing.assert_array_equal(poses.interpolate_poses(path, times, times), path)
    outside = poses.interpolate_poses(path, times, np.array([-1.0, 9.0]))
    np.testing.assert_array_equal(outside, path[:, [0, -1]])
    middle = poses.interpolate_poses(path, times, np.array([1.75]))[:, 0]
    np.testing.assert_allclose(middle[:, :3], path[:, 1:3, :3].mean(axis=1))
    halves = [poses.rotation_distance(middle[:, 3:], path[:, i, 3:]) for i in (1, 2)]
    np.testing.assert_allclose(halves[0], halves[1], atol=1e-9)
    alone = poses.interpolate_poses(path[:, :1], times[:1], np.array([-1.0, 0.0, 5.0]))
    np.testing.assert_array_equal(alone, np.repeat(path[:, :1], 3, axis=1))


@given(seed=seeds)
@few
def test_distance_is_the_papers_formula_and_a_metric(seed: int):
    a, b, c = (random_poses(seed + i, 5) for i in range(3))
    inner = np.abs((a[:, 3:] * b[:, 3:]).sum(axis=-1))
    expected = 0.5 * np.linalg.norm(a[:, :3] - b[:, :3], axis=-1) + np.arccos(np.minimum(inner, 1.0))
    np.testing.assert_allclose(poses.pose_distance(a, b), expected, atol=1e-7)
    np.testing.assert_array_equal(poses.pose_distance(a, b), poses.pose_distance(b, a))
    np.testing.assert_array_equal(poses.pose_distance(a, a), 0.0)
    assert (poses.pose_distance(a, c) <= poses.pose_distance(a, b) + poses.pose_distance(b, c) + 1e-9).all()
    turned = a * np.array([1, 1, 1, -1, -1, -1, -1])
    np.testing.assert_array_equal(poses.pose_distance(turned, b), poses.pose_distance(a, b))
    frame = random_poses(seed + 7)
    moved = poses.pose_distance(poses.compose_poses(frame, a), poses.compose_poses(frame, b))
    np.testing.assert_allclose(moved, poses.pose_distance(a, b), atol=1e-9)


def test_small_angles_survive_single_precision():
    turn = poses.axis_angle_to_quaternion(np.array([2e-4, 0.0, 0.0], dtype=np.float32))
    identity = np.array([0.0, 0.0, 0.0, 1.0], dtype=np.float32)
    np.testing.assert_allclose(poses.rotation_distance(turn, identity), 1e-4, rtol=1e-3)


def test_euler_angles_survive_gimbal_lock_without_a_warning(recwarn: pytest.WarningsRecorder):
    locked = np.array([0.3, np.pi / 2, -0.4])
    quaternion = poses.rotation_to_quaternion(locked, "euler_xyz")
    again = poses.rotation_to_quaternion(poses.quaternion_to_rotation(quaternion, "euler_xyz"), "euler_xyz")
    np.testing.assert_allclose(poses.rotation_distance(again, quaternion), 0.0, atol=1e-6)
    assert not recwarn.list


@few
@given(seeds, st.floats(1e-6, 1.0))
def test_angles_between_six_d_rotations_are_those_between_quaternions(seed, size):
    rng = np.random.default_rng(seed)
    turns = np.cumsum(rng.normal(0, size, (3, 8, 3)), axis=1)
    quaternions = poses.axis_angle_to_quaternion(turns)
    stretched = poses.quaternion_to_six_d(quaternions) * rng.uniform(0.5, 2.0)
    expected = 2.0 * poses.rotation_distance(quaternions[:, 1:], quaternions[:, :-1])
    np.testing.assert_allclose(poses.six_d_angles(stretched), expected, rtol=1e-6, atol=1e-9)
