"""The deviations measure what they say: nothing for the same motion, and the same in every frame."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.maths import deviation
from speedup_patch.maths.poses import (
    axis_angle_to_quaternion,
    compose_poses,
    interpolate_poses,
    pose_distance,
)

few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**32 - 1)
N = 12
WARPS = [
    np.arange(1.0, N + 1),
    np.arange(2.0, N + 1, 2),
    np.arange(1.5, N + 0.1, 1.5),
    np.array([5.0, 10.0, 12.0]),
    np.array([5.0, 10.0]),
]


def wander(rng: np.random.Generator, steps: int, arms: int = 2, batch: int = 3) -> np.ndarray:
    """Smooth motions (batch, steps, arms, 7)."""
    moves = np.cumsum(rng.normal(size=(batch, steps, arms, 3)) * 0.01, axis=1)
    turns = np.cumsum(rng.normal(size=(batch, steps, arms, 3)) * 0.05, axis=1)
    return np.concatenate([moves, axis_angle_to_quaternion(turns)], axis=-1)


def case(seed: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    motion = wander(rng, N + 1)
    return motion[:, 0], motion[:, 1:], wander(rng, len(positions)), positions


def read(motion: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The motion (B, N + 1, arms, 7) at original times."""
    times = np.arange(float(motion.shape[1]))
    return np.swapaxes(interpolate_poses(np.swapaxes(motion, 1, 2), times, at), 1, 2)


@given(seed=seeds)
@few
def test_the_same_motion_deviates_by_nothing(seed: int):
    start, reference, _, positions = case(seed, WARPS[0])
    np.testing.assert_array_equal(deviation.time_aligned_deviation(start, reference, reference, positions), 0.0)
    np.testing.assert_array_equal(deviation.cross_track_deviation(start, reference, reference, positions), 0.0)
    np.testing.assert_array_equal(deviation.along_track_lag(start, reference, reference, positions), 0.0)


@pytest.mark.parametrize("positions", WARPS[:4])
@given(seed=seeds)
@few
def test_straight_motion_read_along_a_warp_deviates_by_nothing(positions: np.ndarray, seed: int):
    rng = np.random.default_rng(seed)
    start = wander(rng, 1)[:, 0]
    velocity = 0.01 * rng.normal(size=(3, 1, 2, 3))
    offset = velocity * np.arange(1.0, N + 1)[:, None, None]
    reference = np.concatenate([start[:, None, :, :3] + offset, np.repeat(start[:, None, :, 3:], N, axis=1)], axis=-1)
    accelerated = read(np.concatenate([start[:, None], reference], axis=1), positions)
    np.testing.assert_allclose(
        deviation.time_aligned_deviation(start, reference, accelerated, positions), 0.0, atol=1e-9
    )


def test_a_kept_pose_belongs_to_the_original_time_of_its_position():
    rng = np.random.default_rng(5)
    start, reference, accelerated, positions = case(5, np.array([3.0, 6.0, 9.0, 12.0]))
    distances = deviation.time_aligned_distances(start, reference, accelerated, positions)
    np.testing.assert_allclose(distances[:, 2::3], pose_distance(reference[:, 2::3], accelerated), atol=1e-12)
    before = (2 * start[..., :3] + accelerated[:, 0, :, :3]) / 3
    np.testing.assert_array_less(0.5 * np.linalg.norm(before - reference[:, 0, :, :3], axis=-1), distances[:, 0] + 1e-9)
    worst = distances.max(axis=(1, 2))
    np.testing.assert_array_equal(deviation.time_aligned_deviation(start, reference, accelerated, positions), worst)
    one = rng.integers(3)
    alone = deviation.time_aligned_deviation(start[one], reference[one], accelerated[one], positions)
    assert alone.shape == ()
    np.testing.assert_array_equal(alone, worst[one])


def test_a_dropped_tail_counts_as_standing_still():
    start, reference, accelerated, positions = case(6, np.array([5.0, 10.0]))
    distances = deviation.time_aligned_distances(start, reference, accelerated, positions)
    held = pose_distance(reference[:, 10:], np.repeat(accelerated[:, -1:], 2, axis=1))
    np.testing.assert_allclose(distances[:, 10:], held, atol=1e-12)


@pytest.mark.parametrize("measure", [deviation.time_aligned_deviation, deviation.cross_track_deviation])
@pytest.mark.parametrize("positions", WARPS)
@given(seed=seeds)
@few
def test_deviation_does_not_depend_on_the_frame_or_on_quaternion_signs(measure, positions: np.ndarray, seed: int):
    *motions, positions = case(seed, positions)
    expected = measure(*motions, positions)
    frame = wander(np.random.default_rng(seed + 1), 1, arms=1, batch=1)[0, 0, 0]
    moved = measure(*(compose_poses(np.broadcast_to(frame, motion.shape), motion) for motion in motions), positions)
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    rng = np.random.default_rng(seed)
    flipped: list[np.ndarray] = []
    for motion in motions:
        sign = rng.choice([-1.0, 1.0], size=(*motion.shape[:-1], 1))
        flipped.append(np.concatenate([motion[..., :3], sign * motion[..., 3:]], axis=-1))
    np.testing.assert_allclose(measure(*flipped, positions), expected, atol=1e-6)


@pytest.mark.parametrize("positions", WARPS)
@given(seed=seeds)
@few
def test_leaving_the_path_is_never_further_than_being_late_on_it(positions: np.ndarray, seed: int):
    # The point of the path at the same time is one of those the search may choose: a theorem at every instant.
    start, reference, accelerated, positions = case(seed, positions)
    across = deviation.cross_track_distances(start, reference, accelerated, positions)
    same_time = pose_distance(read(np.concatenate([start[:, None], reference], axis=1), positions), accelerated)
    assert (across <= same_time + 1e-12).all()
    if (positions == np.rint(positions)).all():
        largest = deviation.cross_track_deviation(start, reference, accelerated, positions)
        assert (largest <= deviation.time_aligned_deviation(start, reference, accelerated, positions) + 1e-12).all()


@pytest.mark.parametrize("delay", [0.5, 1.0, 2.0])
@given(seed=seeds)
@few
def test_a_pure_delay_is_all_lag_and_no_deviation_across(delay: float, seed: int):
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=3)
    line = np.arange(N + 1.0)[:, None] * 0.01 * direction / np.linalg.norm(direction)
    motion = np.concatenate([line, np.tile([0.0, 0.0, 0.0, 1.0], (N + 1, 1))], axis=-1)[None, :, None]
    positions = np.arange(2.0, N + 1, 2)
    late = read(motion, positions - delay)
    arguments = motion[:, 0], motion[:, 1:], late, positions
    np.testing.assert_allclose(deviation.cross_track_deviation(*arguments), 0.0, atol=1e-7)
    np.testing.assert_allclose(deviation.time_aligned_deviation(*arguments), 0.5 * 0.01 * delay, atol=1e-9)
    np.testing.assert_allclose(deviation.along_track_lag(*arguments)[:, 1:], delay, atol=1e-6)


def test_single_precision_is_good_enough_for_the_papers_tolerances():
    *motions, positions = case(9, WARPS[2])
    for measure in (deviation.time_aligned_deviation, deviation.cross_track_deviation):
        single = measure(*(motion.astype(np.float32) for motion in motions), positions)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, measure(*motions, positions), atol=1e-5)


def test_an_empty_batch_has_no_deviations():
    *motions, positions = case(10, WARPS[1])
    for measure in (deviation.time_aligned_deviation, deviation.cross_track_deviation):
        assert measure(*(motion[:0] for motion in motions), positions).shape == (0,)


def with_fingers(motion: np.ndarray, opening: np.ndarray) -> np.ndarray:
    """The motion with an eighth number, as a gripper's opening."""
    return np.concatenate([motion, opening[..., None]], axis=-1)


def reach_and_grasp(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A straight reach (1, N + 1, 1, 7) and fingers (1, N + 1, 1) that close evenly on the way."""
    line = np.arange(N + 1.0)[:, None] * 0.01 * rng.normal(size=3)
    motion = np.concatenate([line, np.tile([0.0, 0.0, 0.0, 1.0], (N + 1, 1))], axis=-1)[None, :, None]
    return motion, np.linspace(0.1, 0.0, N + 1)[None, :, None]


@pytest.mark.parametrize("late", [0.5, 2.0])
@given(seed=seeds)
@few
def test_fingers_count_when_they_are_out_of_step_with_the_arm(late: float, seed: int):
    motion, opening = reach_and_grasp(np.random.default_rng(seed))
    whole = with_fingers(motion, opening)
    positions = np.arange(2.0, N + 1, 2)

    def deviation_of(arm_late: float, fingers_late: float) -> float:
        run = read(whole, positions - arm_late)
        run[..., 7] = read(whole, positions - fingers_late)[..., 7]
        found = deviation.cross_track_deviation(whole[:, 0], whole[:, 1:], run, positions)
        return float(found[0])

    assert deviation_of(0.0, 0.0) == pytest.approx(0.0, abs=1e-7)
    assert deviation_of(late, late) == pytest.approx(0.0, abs=1e-6)  # both late by the same: still in step
    reach = float(np.linalg.norm(motion[0, 1, 0, :3] - motion[0, 0, 0, :3]))
    # Nearest is where what is left of either is smallest: all of the fingers' lag, or all of the arm's.
    expected = late * min(0.1 / N, 0.5 * reach)
    assert deviation_of(0.0, late) == pytest.approx(expected, rel=0.02, abs=1e-6)
    assert deviation_of(late, 0.0) == pytest.approx(expected, rel=0.02, abs=1e-6)


@pytest.mark.parametrize("positions", WARPS)
@given(seed=seeds)
@few
def test_fingers_never_make_a_deviation_smaller(positions: np.ndarray, seed: int):
    start, reference, accelerated, _ = case(seed, positions)
    rng = np.random.default_rng(seed)
    fingers = [0.1 * rng.random(motion.shape[:-1]) for motion in (start, reference, accelerated)]
    together = [with_fingers(*pair) for pair in zip((start, reference, accelerated), fingers, strict=True)]
    for measure in (deviation.time_aligned_deviation, deviation.cross_track_deviation):
        # The nearest point is searched for on a grid, which costs up to 1e-3.
        assert (measure(*together, positions) >= measure(start, reference, accelerated, positions) - 1e-3).all()


@pytest.mark.parametrize("numbers", [7, 8])
@given(seed=seeds)
@few
def test_padded_batches_are_their_motions_one_by_one(numbers: int, seed: int):
    rng = np.random.default_rng(seed)
    # Warps that reach the end, as warps of different lengths do. One at whole positions would be compared at all whole
    # times when alone, and only at its positions among others.
    warps = [WARPS[2], np.array([2.5, 7.25, 12.0]), np.array([0.5, 12.0])]
    longest = max(len(warp) for warp in warps)
    motion, run = wander(rng, N + 1, batch=len(warps)), wander(rng, longest, batch=len(warps))
    if numbers == 8:
        motion, run = (with_fingers(each, rng.random(each.shape[:-1])) for each in (motion, run))
    positions = np.stack([np.pad(warp, (0, longest - len(warp)), mode="edge") for warp in warps])
    for measure in (deviation.time_aligned_deviation, deviation.cross_track_deviation):
        together = measure(motion[:, 0], motion[:, 1:], run, positions)
        for row, warp in enumerate(warps):
            alone = measure(motion[row, 0], motion[row, 1:], run[row, : len(warp)], warp)
            np.testing.assert_allclose(together[row], alone, atol=1e-9)
