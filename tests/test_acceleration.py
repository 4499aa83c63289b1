from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.acceleration import Merging, accelerate
from speedup_patch.maths.retiming import read_ahead
from speedup_patch.robots import ALOHA, ActionGroup
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
    shortened, lost, kept = accelerate(DELTA_ROBOT, chunk, uniform_warp(12, rate))
    assert (kept == 1).all()
    np.testing.assert_allclose(shortened[:, :3].sum(axis=0), chunk[:, :3].sum(axis=0), atol=1e-12)
    assert not lost.any()
    before = Rotation.concatenate([Rotation.from_rotvec(turn) for turn in chunk[::-1, 3:6]])
    after = Rotation.concatenate([Rotation.from_rotvec(turn) for turn in shortened[::-1, 3:6]])
    total = [np.linalg.multi_dot(turns.as_matrix()) for turns in (before, after) if len(turns) > 1]
    assert len(total) < 2 or np.allclose(total[0], total[1], atol=1e-9)


def test_large_deltas_are_cut_to_the_limits_and_the_loss_is_told():
    chunk = np.full((4, 7), 0.6)
    shortened, lost, kept = accelerate(DELTA_ROBOT, chunk, uniform_warp(4, 2.0))
    assert np.abs(shortened[:, :6]).max() <= 1.0
    np.testing.assert_allclose(lost[:3], 2 * 0.2)
    np.testing.assert_allclose(kept, 1.0 / 1.2)


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


@pytest.mark.parametrize("straight", [False, True])
def test_what_momentum_makes_of_a_motion_leaves_room_for_more_of_it(straight):
    chunk = np.zeros((12, 7))
    chunk[:, 0], chunk[:, 1] = 0.8, 0.2
    carried = np.zeros(7)
    carried[0] = 0.3 * 6
    warp, merging = uniform_warp(12, 2.0), Merging(straight=straight)
    along = accelerate(DELTA_ROBOT, chunk, replace(warp, carried=carried), merging)
    np.testing.assert_allclose(along.actions[:, 0], 1.0)  # 1.3 of 1.6, of which momentum makes 0.3
    np.testing.assert_allclose(along.actions[:, 1], 0.4 * 1.3 / 1.6 if straight else 0.4)
    np.testing.assert_allclose(along.lost[0], 6 * 0.3)
    against = accelerate(DELTA_ROBOT, chunk, replace(warp, carried=-carried), merging)
    plain = accelerate(DELTA_ROBOT, chunk, warp, merging)
    assert np.array_equal(against.actions, plain.actions)  # never is room taken away
    assert np.array_equal(against.lost, plain.lost)


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 5))
def test_targets_that_are_read_ahead_are_answered_in_phase(seed, rate, lag):
    chunk = np.cumsum(np.random.default_rng(seed).normal(size=(24, ALOHA.action_size)), axis=0)
    warp = uniform_warp(24, float(rate))
    led = accelerate(ALOHA, chunk, replace(warp, delays={0: float(lag)})).actions
    assert np.array_equal(led[:, 1:], accelerate(ALOHA, chunk, warp).actions[:, 1:])
    # What answers exactly so late is, after command j, where command j - lag sends it. At rate 1 it would then, at
    # original time j * rate, be where command j * rate - lag sends it.
    for sent in range(1, len(led) + 1):
        meant = rate * (sent + lag) - lag
        assert led[sent - 1, 0] == chunk[min(meant, 24) - 1, 0]


@given(st.integers(0, 1000), st.floats(0.0, 5.0))
def test_an_orientation_is_read_ahead_as_one(seed, lag):
    names, limit = ("qx", "qy", "qz", "qw"), (1.0,) * 4
    group = ActionGroup(names, "absolute", "", (-1.0,) * 4, limit, (7, 8, 9, 10), rotation="quaternion_xyzw")
    robot = replace(DELTA_ROBOT, state_names=tuple("abcdefghijk"), actions=(*DELTA_ROBOT.actions, group))
    chunk = np.zeros((12, 11))
    chunk[:, 7:] = Rotation.random(12, rng=seed).as_quat()
    warp = uniform_warp(12, 2.0)
    led = accelerate(robot, chunk, replace(warp, delays=dict.fromkeys(range(7, 11), lag))).actions[:, 7:]
    for row, position in zip(led, read_ahead(warp.positions, lag, 12), strict=True):
        plain = accelerate(robot, chunk, Warp(np.array([position]), 12)).actions[0, 7:]
        np.testing.assert_allclose(row, plain, atol=1e-12)
        assert np.linalg.norm(row) == pytest.approx(1.0)
