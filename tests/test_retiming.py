from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from speedup_patch.acceleration import accelerate
from speedup_patch.limits import ArmLimits, FingerScale, GripperLimits, Limits, StrokeLimits, read_limits
from speedup_patch.maths.retiming import warp_lengths
from speedup_patch.observations import feature_poses, observe
from speedup_patch.retiming import Boldness, PlainLimits, Retiming, RetimingConfig, gripper_delays, joint_delays
from speedup_patch.robots import ALOHA
from speedup_patch.warp import GripperDelays, Warp
from stand_ins import DELTA_ROBOT, LaggingWorldModel, smooth_demonstrations

EPISODES = smooth_demonstrations(episodes=12)
LIMITS = read_limits(ALOHA, EPISODES)
N = 24
STRICT = RetimingConfig(slack=0.0, leave_rest=False)


def moment(t=30, episode=0):
    chosen = EPISODES.episodes[episode]
    return observe(ALOHA, chosen.states[t], chosen.states[t - 1]), chosen.actions[t : t + N]


def plain(*boldness):
    return PlainLimits(LaggingWorldModel(), Retiming(ALOHA, LIMITS, STRICT), Boldness(*boldness))


def positions_of(retiming, path, chunk, level):
    """The warp of one chunk at one level."""
    padded = retiming.positions(path[None], chunk[None], [level])[0, 0]
    return padded[: warp_lengths(padded)]


@settings(max_examples=25, deadline=None)
@given(t=st.integers(1, 60), episode=st.integers(0, 11), fastest=st.floats(1.0, 6.0), scale=st.floats(0.3, 3.0))
def test_no_moment_runs_beyond_the_limits(t, episode, fastest, scale):
    o, chunk = moment(t, episode)
    warp = plain(fastest, scale).schedule(o, chunk)
    windows = np.diff(warp.positions, prepend=0.0)
    assert (windows <= fastest + 1e-6).all()
    assert warp.positions[-1] == N
    path = np.concatenate([o[None, : len(o) // 2], LaggingWorldModel().rollout(o[None], chunk[None])[0]])
    along = feature_poses(ALOHA, path)[..., :3]
    places = np.stack(
        [np.interp(np.r_[0, warp.positions], np.arange(N + 1), along[:, 0, axis]) for axis in range(3)], 1
    )
    moved = np.linalg.norm(np.diff(places, axis=0), axis=1)
    slowest = np.linalg.norm(np.diff(along[:, 0], axis=0), axis=1).max()
    assert (moved <= max(scale * LIMITS.arms[0].speed, slowest) + 1e-9).all()


def test_rate_one_is_the_identity():
    o, chunk = moment()
    warp = plain(1.0).schedule(o, chunk)
    assert np.array_equal(accelerate(ALOHA, chunk, warp).actions, chunk)


def test_wider_limits_are_never_slower():
    o, chunk = moment()
    lengths = [len(plain(6.0, scale).schedule(o, chunk)) for scale in (0.5, 1.0, 2.0, 10.0)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < N


def test_a_full_speed_stroke_is_not_compressed_but_a_slow_one_is():
    o, chunk = moment()
    still = np.tile(chunk[:1], (N, 1))
    x = o[: len(o) // 2]
    path = np.tile(x, (N + 2, 1))
    limits = Limits(LIMITS.arms, LIMITS.joints, tuple(_gripper(0.1) for _ in range(2)))
    limited, unlimited = (Retiming(ALOHA, limits, replace(STRICT, gripper_limit=on)) for on in (True, False))
    for speed, stroke, expected in ((0.1, 1.0, 1.0), (0.05, 1.0, 2.0), (0.0, 1.0, 4.0), (0.1, 3.0, 3.0)):
        moving = path.copy()
        moving[:, 6] += speed * np.arange(N + 2)
        level = Boldness(4.0, stroke=stroke)
        for retiming, pace in ((limited, expected), (unlimited, 4.0)):
            steps = np.diff(positions_of(retiming, moving, still, level), prepend=0.0)
            assert np.median(steps) == pytest.approx(pace)


def test_fingers_that_go_as_fast_as_they_can_are_given_time_to_grip_however_bold_the_level():
    grip, stop = Boldness(4.0, stroke=4.0), 6
    path = np.tile(np.r_[1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (N + 2, 1))
    path[:, 0] -= 0.1 * np.minimum(np.arange(N + 2), stop + 1)  # at full speed already before the chunk begins
    chunk = np.zeros((N, 7))
    chunk[:, 6] = 1.0
    wide = ArmLimits(1.0, 1.0, 0.0, 0.1)
    for jumps, held_until in ((True, stop + 4), (False, 0)):
        limits = Limits((wide,), (), (_gripper(0.1, jumps),))
        steps = np.diff(positions_of(Retiming(DELTA_ROBOT, limits, STRICT), path, chunk, grip), prepend=0.0)
        assert (steps[np.cumsum(steps) <= held_until] <= 1.0 + 1e-9).all()
        assert bool(steps[0] > 2.0) is not jumps
        assert steps.max() > 2.0


def _gripper(speed, jumps=False):
    stroke = StrokeLimits(delay=4.0, speed=speed, strokes=5, jumps=jumps)
    return GripperLimits(FingerScale((1.0,), 0.0, 1.0), stroke, stroke)


@given(st.integers(1, N - 1), st.floats(1.0, 4.0), st.floats(0.0, 10.0), st.booleans())
@example(flip=1, rate=1.6875, delay=1.0, closes=False)
def test_no_gripper_event_is_skipped_and_none_comes_late(flip, rate, delay, closes):
    chunk = np.zeros((N, 7))
    chunk[:, 6] = -1.0 if closes else 1.0
    chunk[flip:, 6] = -chunk[0, 6]
    positions = np.append(np.arange(rate, N, rate), float(N))
    plain = accelerate(DELTA_ROBOT, chunk, Warp(positions, N)).actions[:, 6]
    led = accelerate(DELTA_ROBOT, chunk, Warp(positions, N, {6: GripperDelays(delay, delay, closed=1.0)})).actions[:, 6]
    assert led[-1] == chunk[-1, 6]
    assert np.count_nonzero(np.diff(np.r_[chunk[0, 6], led])) == 1
    assert np.argmax(led == chunk[-1, 6]) <= np.argmax(plain == chunk[-1, 6])


def test_motions_that_would_be_cut_off_are_not_merged_further():
    limits = Limits((ArmLimits(1.0, 1.0, 0.0, 0.1),), (), (_gripper(0.1),))
    retiming = Retiming(DELTA_ROBOT, limits, replace(STRICT, overdrive=1.25))
    chunk = np.zeros((10, 7))
    chunk[:, 0] = 0.5
    still = np.tile(np.r_[0.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (12, 1))
    steps = np.diff(positions_of(retiming, still, chunk, Boldness(4.0)), prepend=0.0)
    assert steps.max() == pytest.approx(2.5)


@pytest.mark.parametrize(("flip", "ends_at"), [(None, 8.0), (3, 8.0), (8, 10.0), (9, 10.0)])
def test_a_chunk_that_fills_no_whole_commands_is_run_on_only_where_the_gripper_is_told_something_new(flip, ends_at):
    limits = Limits((ArmLimits(1.0, 1.0, 0.0, 0.1),), (), (_gripper(1.0),))
    chunk = np.zeros((10, 7))
    chunk[:, 6] = -1.0
    if flip is not None:
        chunk[flip:, 6] = 1.0
    still = np.tile(np.r_[0.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (12, 1))
    retiming = Retiming(DELTA_ROBOT, limits, RetimingConfig())
    assert positions_of(retiming, still, chunk, Boldness(4.0))[-1] == ends_at


def test_a_gripper_is_led_by_what_it_is_later_than_its_arm():
    stroke = StrokeLimits(delay=5.0, speed=0.1, strokes=3), StrokeLimits(delay=1.0, speed=0.1, strokes=3)
    limits = Limits((ArmLimits(1.0, 1.0, 2.0, 0.1),), (), (GripperLimits(FingerScale((1.0,), 0.0, 1.0), *stroke),))
    assert gripper_delays(DELTA_ROBOT, limits) == {6: GripperDelays(opening=3.0, closing=0.0, closed=1.0)}
    assert Retiming(DELTA_ROBOT, limits, RetimingConfig(gripper_lead=False)).delays == {}


def test_joints_that_are_servos_have_a_largest_rate_and_other_arms_and_older_patches_do_not():
    o, chunk = moment()
    still = np.tile(chunk[:1], (N, 1))
    path = np.tile(o[: len(o) // 2], (N + 2, 1))
    older = replace(LIMITS, pulls=())
    slower = replace(STRICT, joint_rate=2.0)
    for limits, config, largest in ((LIMITS, STRICT, 4.0), (LIMITS, slower, 2.0), (older, STRICT, 6.0)):
        windows = np.diff(positions_of(Retiming(ALOHA, limits, config), path, still, Boldness(6.0)), prepend=0.0)
        assert windows.max() == pytest.approx(largest)
    told_motions = Limits((ArmLimits(1.0, 1.0, 0.0, 0.1),), (), (_gripper(1.0),))
    path = np.tile(np.r_[0.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (N + 2, 1))
    windows = np.diff(positions_of(Retiming(DELTA_ROBOT, told_motions, STRICT), path, np.zeros((N, 7)), Boldness(6.0)))
    assert windows.max() == pytest.approx(6.0)


def test_the_gripper_of_an_arm_that_is_kept_up_is_led_by_all_of_its_delay():
    stroke = StrokeLimits(delay=5.0, speed=0.1, strokes=3)
    limits = replace(LIMITS, grippers=(GripperLimits(FingerScale((1.0,), 0.0, 1.0), stroke, stroke),) * 2)
    kept_up = gripper_delays(ALOHA, limits, in_time=True)
    assert [delay.opening for delay in kept_up.values()] == [5.0, 5.0]
    assert all(delay.opening < 5.0 for delay in gripper_delays(ALOHA, limits).values())


def test_joints_are_led_by_their_own_lags_only_where_that_is_wanted_and_they_are_not_kept_up():
    joints = {action: lag for action, lag in zip(ALOHA.drives, LIMITS.lags, strict=True) if action not in (6, 13)}
    assert joint_delays(ALOHA, LIMITS) == joints
    assert joint_delays(ALOHA, replace(LIMITS, lags=())) == {}
    wanted = RetimingConfig(joint_lead=True, keep_up=False)
    for config, led in ((wanted, joints), (RetimingConfig(joint_lead=True), {}), (RetimingConfig(keep_up=False), {})):
        delays = Retiming(ALOHA, LIMITS, config).delays
        assert {action: delay for action, delay in delays.items() if isinstance(delay, float)} == led
        # What is led or kept up is in time, so its fingers have all of their own delay to make up for.
        assert ({6: delays[6], 13: delays[13]} == gripper_delays(ALOHA, LIMITS, in_time=False)) is not (
            bool(led) or config.keep_up
        )
