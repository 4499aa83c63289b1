from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.acceleration import Merging, accelerate
from speedup_patch.robots import ALOHA
from speedup_patch.warp import Warp, uniform_warp
from stand_ins import DELTA_ROBOT


@given(st.integers(0, 1000), st.sampled_from([ALOHA, DELTA_ROBOT]))
def test_rate_one_gives_back_the_chunk_bit_for_bit(seed, robot):
    chunk = np.random.default_rng(seed).normal(size=(24, robot.action_size))
    assert np.array_equal(accelerate(robot, chunk, uniform_warp(24, 1.0)).actions, chunk)


@given(st.integers(0, 1000), st.integers(2, 6), st.integers(6, 25))
def test_absolute_targets_follow_the_papers_rule(seed, rate, n):
    chunk = np.random.default_rng(seed).normal(size=(n, ALOHA.action_size))
    shortened = accelerate(ALOHA, chunk, uniform_warp(n, float(rate), "drop")).actions
    assert np.array_equal(shortened, chunk[rate - 1 :: rate])


@given(st.integers(0, 1000), st.floats(1.0, 5.0))
def test_small_deltas_keep_the_whole_motion(seed, rate):
    chunk = np.random.default_rng(seed).normal(size=(12, 7)) * 0.02
    shortened, lost = accelerate(DELTA_ROBOT, chunk, uniform_warp(12, rate))
    np.testing.assert_allclose(shortened[:, :3].sum(axis=0), chunk[:, :3].sum(axis=0), atol=1e-12)
    assert not lost.any()
    before = Rotation.concatenate([Rotation.from_rotvec(turn) for turn in chunk[::-1, 3:6]])
    after = Rotation.concatenate([Rotation.from_rotvec(turn) for turn in shortened[::-1, 3:6]])
    total = [np.linalg.multi_dot(turns.as_matrix()) for turns in (before, after) if len(turns) > 1]
    assert len(total) < 2 or np.allclose(total[0], total[1], atol=1e-9)


def test_large_deltas_are_cut_to_the_limits_and_the_loss_is_told():
    chunk = np.full((4, 7), 0.6)
    shortened, lost = accelerate(DELTA_ROBOT, chunk, uniform_warp(4, 2.0))
    assert np.abs(shortened[:, :6]).max() <= 1.0
    np.testing.assert_allclose(lost[:3], 2 * 0.2)


def test_gripper_takes_the_last_command_of_each_window():
    chunk = np.zeros((6, 7))
    chunk[:, 6] = [-1, -1, 1, 1, 1, -1]
    shortened = accelerate(DELTA_ROBOT, chunk, uniform_warp(6, 3.0)).actions
    assert shortened[:, 6].tolist() == [1, -1]


def test_a_straight_cut_keeps_the_direction_of_the_motion_as_a_whole():
    chunk = np.tile([0.9, 0.3, -0.15, 0.0, 0.0, 0.6, 1.0], (4, 1))
    bent, straight = (
        accelerate(DELTA_ROBOT, chunk, uniform_warp(4, 2.0), Merging(straight=cut)) for cut in (False, True)
    )
    np.testing.assert_allclose(bent.actions[0, :3], [1.0, 0.6, -0.3])
    np.testing.assert_allclose(straight.actions[0, :6], chunk[0, :6] / 0.9)
    np.testing.assert_allclose(straight.lost[:6], 2 * np.abs(chunk[0, :6]) * (2 - 1 / 0.9))
    assert (straight.actions[:, 6] == 1.0).all()


@pytest.mark.parametrize("merge", [Merging("exact"), Merging("sum"), Merging(straight=True)])
def test_batches_equal_single_chunks(merge):
    chunks = np.random.default_rng(0).normal(size=(5, 10, 7)) * 0.4
    warp = Warp(np.array([1.5, 4.0, 7.25, 10.0]), 10)
    together = accelerate(DELTA_ROBOT, chunks, warp, merge).actions
    alone = np.stack([accelerate(DELTA_ROBOT, chunk, warp, merge).actions for chunk in chunks])
    np.testing.assert_allclose(together, alone, atol=1e-12)


@given(st.integers(0, 1000), st.floats(1.5, 5.0))
def test_what_momentum_carries_is_taken_off_in_equal_parts(seed, rate):
    rng = np.random.default_rng(seed)
    chunk, carried = rng.normal(size=(12, 7)) * 0.02, np.append(rng.normal(size=3) * 0.1, np.zeros(4))
    warp = uniform_warp(12, rate)
    plain, less = (accelerate(DELTA_ROBOT, chunk, w).actions for w in (warp, replace(warp, carried=carried)))
    np.testing.assert_allclose(plain - less, np.tile(carried / len(warp), (len(warp), 1)), atol=1e-12)
    much = accelerate(DELTA_ROBOT, chunk, replace(warp, carried=100 * carried)).actions
    assert (np.abs(much) <= 1).all()
    untouched = accelerate(DELTA_ROBOT, chunk, replace(uniform_warp(12, 1.0), carried=carried)).actions
    assert np.array_equal(untouched, chunk)
