"""The nearest point of a path against a fine search along it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.maths.paths import nearest_on_path
from speedup_patch.maths.poses import axis_angle_to_quaternion, interpolate_poses, pose_distance, quaternion_multiply

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def wander(rng: np.random.Generator, batch: int, steps: int) -> np.ndarray:
    """Random walks of poses (batch, steps, 7)."""
    moves = np.cumsum(rng.normal(size=(batch, steps, 3)) * 0.01, axis=1)
    turns = np.cumsum(rng.normal(size=(batch, steps, 3)) * 0.05, axis=1)
    return np.concatenate([moves, axis_angle_to_quaternion(turns)], axis=-1)


@pytest.mark.parametrize("still", ["nothing", "position", "rotation"])
@given(seed=seeds)
@few
def test_nearest_point_matches_a_fine_search(still: str, seed: int):
    rng = np.random.default_rng(seed)
    path = wander(rng, 2, 8)
    if still == "position":
        path[..., :3] = path[:, :1, :3]
    if still == "rotation":
        path[..., 3:] = path[:, :1, 3:]
    shaken = path[:, rng.integers(8, size=5)] + np.array([0.01] * 3 + [0.0] * 4) * rng.normal(size=(2, 5, 7))
    shaken[..., 3:] = quaternion_multiply(axis_angle_to_quaternion(0.02 * rng.normal(size=(2, 5, 3))), shaken[..., 3:])
    distances, places = nearest_on_path(path, shaken)
    fine = interpolate_poses(path, np.arange(8.0), np.linspace(0, 7, 7 * 200 + 1))
    searched = pose_distance(shaken[:, :, None], fine[:, None]).min(axis=-1)
    assert (distances <= searched + 1e-3).all()
    assert (distances >= searched - 2e-4).all()
    for b in range(2):
        there = interpolate_poses(path[b], np.arange(8.0), places[b])
        np.testing.assert_allclose(pose_distance(there, shaken[b]), distances[b], atol=1e-9)


def test_a_path_of_one_pose_is_a_point():
    rng = np.random.default_rng(8)
    path, queries = wander(rng, 3, 1), wander(rng, 3, 4)
    distances, places = nearest_on_path(path, queries)
    np.testing.assert_array_equal(distances, pose_distance(path, queries))
    np.testing.assert_array_equal(places, 0.0)


@given(seed=seeds)
@few
def test_points_of_the_path_are_on_it(seed: int):
    rng = np.random.default_rng(seed)
    path = wander(rng, 300, 6)  # more paths than are handled at once
    at = np.sort(rng.uniform(0, 5, size=4))
    distances, places = nearest_on_path(path, interpolate_poses(path, np.arange(6.0), at))
    np.testing.assert_allclose(distances, 0.0, atol=1e-6)
    np.testing.assert_allclose(places, np.broadcast_to(at, places.shape), atol=1e-3)


@pytest.mark.parametrize("still", ["nothing", "position", "pose", "fingers"])
@given(seed=seeds)
@few
def test_nearest_point_with_fingers_matches_a_fine_search(still: str, seed: int):
    rng = np.random.default_rng(seed)
    path = np.concatenate([wander(rng, 2, 8), np.cumsum(0.01 * rng.normal(size=(2, 8, 1)), axis=1)], axis=-1)
    frozen = {"nothing": [], "position": [0, 1, 2], "pose": list(range(7)), "fingers": [7]}[still]
    path[..., frozen] = path[:, :1, frozen]
    shaken = path[:, rng.integers(8, size=5)]
    shaken[..., [0, 1, 2, 7]] += 0.01 * rng.normal(size=(2, 5, 4))
    distances, places = nearest_on_path(path, shaken)
    fine = interpolate_poses(path, np.arange(8.0), np.linspace(0, 7, 7 * 200 + 1))
    searched = pose_distance(shaken[:, :, None], fine[:, None]).min(axis=-1)
    assert (distances <= searched + 2e-3).all()
    assert (distances >= searched - 2e-4).all()
    for b in range(2):
        there = interpolate_poses(path[b], np.arange(8.0), places[b])
        np.testing.assert_allclose(pose_distance(there, shaken[b]), distances[b], atol=1e-9)
