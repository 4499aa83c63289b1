"""Reading a chunk along a warp equals the paper's rule at whole rates and loses nothing in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.maths import resampling

few = settings(max_examples=25, deadline=None)
lengths = st.integers(1, 30)
rates = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


def whole_positions(n: int, rate: int) -> np.ndarray:
    """The paper's l = floor(n / k) windows."""
    return rate * np.arange(1.0, n // rate + 1)


@st.composite
def warps(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    """A chunk length and increasing positions that reach its end."""
    n = draw(lengths)
    inner = draw(st.lists(st.floats(0.01, n - 0.01), max_size=12)) if n > 1 else []
    return n, np.unique([*np.round(inner, 3), float(n)])


@given(n=lengths, rate=rates, seed=seeds)
@few
def test_whole_rates_keep_the_last_target_of_each_window(n: int, rate: int, seed: int):
    chunk = np.random.default_rng(seed).normal(size=(2, n, 3))
    kept = chunk[:, rate - 1 :: rate]
    positions = whole_positions(n, rate)
    np.testing.assert_array_equal(resampling.resample_absolute(chunk, positions), kept)
    np.testing.assert_array_equal(resampling.resample_held(chunk, positions), kept)


@given(n=lengths, rate=rates, seed=seeds)
@few
def test_whole_rates_add_up_each_window(n: int, rate: int, seed: int):
    chunk = np.random.default_rng(seed).normal(size=(2, n, 3))
    sums = chunk[:, : n // rate * rate].reshape(2, n // rate, rate, 3).sum(axis=2)
    np.testing.assert_allclose(resampling.merge_delta(chunk, whole_positions(n, rate)), sums, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(n=lengths, seed=seeds)
@few
def test_rate_one_is_the_identity_bit_for_bit(dtype: type, n: int, seed: int):
    chunk = np.random.default_rng(seed).normal(size=(2, n, 3)).astype(dtype)
    quaternions = Rotation.random(2 * n, rng=np.random.default_rng(seed)).as_quat().reshape(2, n, 4).astype(dtype)
    positions = np.arange(1.0, n + 1)
    np.testing.assert_array_equal(resampling.merge_weights(positions, n), np.eye(n))
    for rule in (
        resampling.resample_absolute,
        resampling.resample_held,
        resampling.merge_delta,
        resampling.merge_delta_rotation,
    ):
        read = rule(chunk, positions)
        assert read.dtype == dtype
        np.testing.assert_array_equal(read, chunk)
    np.testing.assert_array_equal(resampling.resample_absolute_rotation(quaternions, positions), quaternions)


def test_rounding_in_a_rate_does_not_move_a_whole_position():
    chunk = np.random.default_rng(0).normal(size=(12, 2))
    drifted = 1.1 * np.arange(1, 11) + 1e-12
    assert drifted[-1] > 11
    np.testing.assert_array_equal(resampling.resample_held(chunk, drifted)[-1], chunk[10])
    np.testing.assert_array_equal(resampling.resample_absolute(chunk, drifted)[-1], chunk[10])


@given(warp=warps(), seed=seeds)
@few
def test_every_action_is_given_away_exactly_once(warp: tuple[int, np.ndarray], seed: int):
    n, positions = warp
    weights = resampling.merge_weights(positions, n)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), np.diff(positions, prepend=0.0), atol=1e-9)
    chunk = np.random.default_rng(seed).normal(size=(n, 2))
    merged = resampling.merge_delta(chunk, positions)
    np.testing.assert_allclose(merged.sum(axis=0), chunk.sum(axis=0), atol=1e-9)


@given(warp=warps(), seed=seeds)
@few
def test_merged_deltas_follow_the_integrated_path(warp: tuple[int, np.ndarray], seed: int):
    n, positions = warp
    chunk = np.random.default_rng(seed).normal(size=(n, 1))
    path = np.concatenate([[0.0], np.cumsum(chunk)])
    reached = np.cumsum(resampling.merge_delta(chunk, positions))
    np.testing.assert_allclose(reached, np.interp(positions, np.arange(n + 1), path), atol=1e-9)


@given(warp=warps(), seed=seeds)
@few
def test_absolute_targets_lie_on_the_line_through_the_commands(warp: tuple[int, np.ndarray], seed: int):
    n, positions = warp
    chunk = np.random.default_rng(seed).normal(size=(n, 1))
    expected = np.interp(positions, np.arange(1, n + 1), chunk[:, 0])
    np.testing.assert_allclose(resampling.resample_absolute(chunk, positions)[:, 0], expected, atol=1e-12)


@given(warp=warps(), seed=seeds)
@few
def test_held_commands_are_the_last_ones_a_window_touches(warp: tuple[int, np.ndarray], seed: int):
    n, positions = warp
    chunk = np.random.default_rng(seed).normal(size=(n, 1))
    touched = resampling.merge_weights(positions, n) > 0
    last = n - 1 - np.argmax(touched[:, ::-1], axis=1)
    np.testing.assert_array_equal(resampling.resample_held(chunk, positions), chunk[last])


def test_reading_beyond_the_chunk_holds_its_ends():
    chunk = np.array([[1.0], [2.0], [3.0]])
    beyond = np.array([0.2, 3.0, 7.5])
    for rule in (resampling.resample_absolute, resampling.resample_held):
        np.testing.assert_array_equal(rule(chunk, beyond)[:, 0], [1.0, 3.0, 3.0])


@given(warp=warps(), seed=seeds)
@few
def test_turns_compose_to_the_product_of_matrices(warp: tuple[int, np.ndarray], seed: int):
    n, positions = warp
    turns = 0.4 * np.random.default_rng(seed).normal(size=(2, n, 3))
    merged = resampling.merge_delta_rotation(turns, positions)
    weights = resampling.merge_weights(positions, n)
    for b in range(2):
        for j in range(len(positions)):
            product = np.eye(3)
            for i in range(n):
                product = Rotation.from_rotvec(weights[j, i] * turns[b, i]).as_matrix() @ product
            np.testing.assert_allclose(Rotation.from_rotvec(merged[b, j]).as_matrix(), product, atol=1e-9)


@given(n=lengths, rate=rates, seed=seeds, unit=st.sampled_from([0.5, 1.0, 2.0]))
@few
def test_turns_about_one_axis_add_up_even_beyond_half_a_turn(n: int, rate: int, seed: int, unit: float):
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    turns = rng.uniform(0, 1.5, size=(n, 1)) * axis / np.linalg.norm(axis)
    positions = whole_positions(n, rate)
    merged = resampling.merge_delta_rotation(turns, positions, radians_per_unit=unit)
    np.testing.assert_allclose(merged, resampling.merge_delta(turns, positions), atol=1e-7)


def test_small_turns_merge_like_sums_but_large_ones_do_not():
    turns = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    position = np.array([2.0])
    total = turns.sum(axis=0)
    for size, agrees in ((1e-4, True), (1.0, False)):
        merged = resampling.merge_delta_rotation(size * turns, position)[0]
        assert np.allclose(merged, size * total, rtol=1e-3, atol=1e-7) == agrees


def test_the_unit_of_a_turn_matters():
    turns = np.random.default_rng(4).normal(size=(4, 3))
    merged = resampling.merge_delta_rotation(turns, np.array([4.0]), radians_per_unit=0.5)
    np.testing.assert_allclose(0.5 * merged, resampling.merge_delta_rotation(0.5 * turns, np.array([4.0])))


@given(seed=seeds)
@few
def test_saturation_reports_what_it_cuts(seed: int):
    rng = np.random.default_rng(seed)
    actions, limit = rng.normal(size=(2, 5, 3)), rng.uniform(0.1, 2, size=3)
    clipped, lost = resampling.saturate(actions, -limit, limit)
    assert (np.abs(clipped) <= limit).all()
    assert lost.shape == (2, 3)
    np.testing.assert_allclose(lost, np.maximum(np.abs(actions) - limit, 0).sum(axis=1), atol=1e-12)
    inside, nothing = resampling.saturate(clipped, -limit, limit)
    np.testing.assert_array_equal(inside, clipped)
    np.testing.assert_array_equal(nothing, 0.0)


@given(seed=seeds)
@few
def test_straight_saturation_keeps_directions_and_goes_as_far_as_the_limits_allow(seed: int):
    rng = np.random.default_rng(seed)
    actions, limit = rng.normal(size=(2, 5, 3)), rng.uniform(0.1, 2, size=3)
    kept, lost = resampling.saturate(actions, -limit, limit, straight=True)
    assert (np.abs(kept) <= limit + 1e-12).all()
    share = (np.abs(actions) / limit).max(axis=-1, keepdims=True)
    np.testing.assert_allclose(kept * np.maximum(share, 1.0), actions, atol=1e-12)
    np.testing.assert_allclose(lost, np.abs(actions - kept).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize(("straight", "second"), [(False, -7.0), (True, -1.4)])
def test_saturation_keeps_single_precision_and_open_limits(straight: bool, second: float):
    actions = np.array([[5.0, -7.0]], dtype=np.float32)
    clipped, lost = resampling.saturate(actions, np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), straight)
    assert clipped.dtype == np.float32
    np.testing.assert_allclose(clipped, [[1.0, second]], rtol=1e-6)
    np.testing.assert_allclose(lost, [4.0, 7.0 + second], rtol=1e-6)


def test_a_motion_that_the_robot_cannot_make_does_not_cut_the_others():
    kept, _ = resampling.saturate(np.array([[0.5, 0.1]]), np.array([-1.0, 0.0]), np.array([1.0, 0.0]), straight=True)
    np.testing.assert_array_equal(kept, [[0.5, 0.0]])
