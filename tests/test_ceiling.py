"""The floor of episodes whose least duration is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_arm import SMALL_ARM, demonstrate, follow, wandering_commands
from speedup_patch.ceiling import floor_steps
from speedup_patch.errors import InputError
from speedup_patch.inspect.limits import delta_shares
from speedup_patch.limits import ArmLimits, FingerScale, GripperLimits, Limits, StrokeLimits, read_limits
from stand_ins import DELTA_ROBOT

STROKE = 8
DELTA_LIMITS = Limits(
    arms=(ArmLimits(0.01, 0.02, 0.0, 0.01),),
    joints=(),
    grippers=(
        GripperLimits(
            FingerScale((1.0,), 0.0, 0.04), StrokeLimits(2.0, 1 / STROKE, 9), StrokeLimits(2.0, 1 / STROKE, 9)
        ),
    ),
)
SMALL_LIMITS = read_limits(SMALL_ARM, demonstrate())
seeds = st.integers(0, 2**32 - 1)


def delta_floor(actions, opening=None, limits=DELTA_LIMITS):
    """The floor of commands to a robot whose arm the state does not show; ``opening`` is where its fingers are."""
    states = np.zeros((len(actions) + 1, 7))
    states[:, 6] = 0.04 * (np.ones(len(states)) if opening is None else opening)
    return floor_steps(DELTA_ROBOT, limits, actions, states)


def moves(seed, steps=40, largest=1.0):
    """Random motions below ``largest`` of the action limits, the gripper told to stay open."""
    actions = np.random.default_rng(seed).uniform(-largest, largest, (steps, 7))
    actions[:, 6] = -1.0
    return actions


def still(steps):
    return moves(0, steps, largest=0.0)


def stroke(steps, begin, took, delay=0):
    """(actions, opening) of a gripper told to close at ``begin``, whose fingers then take ``took`` steps."""
    actions = still(steps)
    actions[begin:, 6] = 1.0
    return actions, 1.0 - np.clip((np.arange(steps + 1) - begin - delay) / took, 0.0, 1.0)


@given(seeds)
def test_no_episode_takes_more_than_it_took(seed):
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(50, 7))
    floor = floor_steps(DELTA_ROBOT, DELTA_LIMITS, actions, rng.normal(size=(51, 7)))
    assert 0 <= floor <= 50


@given(seeds)
@settings(max_examples=20)
def test_no_episode_of_targets_takes_more_than_it_took(seed):
    commands = wandering_commands(121, np.random.default_rng(seed))
    assert 0 < floor_steps(SMALL_ARM, SMALL_LIMITS, commands[:-1], follow(commands)) < 120


def test_an_episode_in_which_nothing_moves_takes_no_time():
    assert delta_floor(still(30)) == 0
    states = np.tile([0.3, -0.2, 1.0, 21.5], (31, 1))
    assert floor_steps(SMALL_ARM, SMALL_LIMITS, states[:-1, :3], states) == 0


@given(seeds, st.integers(0, 5), st.sampled_from([-1.0, 1.0]))
def test_motion_at_its_limit_is_not_compressed(seed, dimension, sign):
    actions = moves(seed)
    actions[:, dimension] = sign
    assert delta_floor(actions) == len(actions)


@given(seeds, st.floats(0.05, 1.0))
def test_smaller_motions_take_less_time_in_proportion(seed, share):
    actions = moves(seed)
    slower = np.where(np.arange(7) < 6, share * actions, actions)
    assert delta_floor(slower) == pytest.approx(share * delta_floor(actions))


@given(seeds, st.integers(2, 5))
def test_the_same_motion_done_slowly_has_the_same_floor(seed, times):
    actions = moves(seed)
    slowly = np.repeat(np.where(np.arange(7) < 6, actions / times, actions), times, axis=0)
    assert delta_floor(slowly) == pytest.approx(delta_floor(actions))


@given(st.integers(2, 5))
def test_the_same_path_of_targets_done_slowly_has_the_same_floor(times):
    def floor(steps):
        states = np.zeros((steps + 1, 4))
        states[:, 0] = np.linspace(0.0, 0.1, steps + 1)  # well below the speeds of the demonstrations
        return floor_steps(SMALL_ARM, SMALL_LIMITS, states[1:, :3], states)

    assert floor(50 * times) == pytest.approx(floor(50), rel=1e-3)


def test_targets_followed_at_the_demonstrated_speed_are_not_compressed():
    steps, arm = 20, SMALL_LIMITS.arms[0]
    states = np.zeros((steps + 1, 4))
    states[:, 1] = 1.01 * arm.turn * np.arange(steps + 1)
    assert floor_steps(SMALL_ARM, SMALL_LIMITS, states[1:, :3], states) == steps
    twice = replace(SMALL_LIMITS, arms=(ArmLimits(2 * arm.speed, 2 * arm.turn, arm.lag, arm.brisk),))
    assert floor_steps(SMALL_ARM, twice, states[1:, :3], states) == pytest.approx(1.01 * steps / 2, rel=0.01)


@given(st.integers(0, 4))
def test_a_flip_costs_its_stroke_in_full_and_waiting_costs_nothing(delay):
    for steps in (40, 80):
        assert delta_floor(*stroke(steps, 10, STROKE, delay)) == delay + STROKE


def test_a_flip_that_moves_no_fingers_costs_the_usual_stroke():
    actions, _ = stroke(40, 10, STROKE)
    assert delta_floor(actions) == 2 + STROKE
    unseen = replace(DELTA_LIMITS.grippers[0], closing=StrokeLimits(0.0, 1.0, 0))
    usual = DELTA_ROBOT.grippers[0].stroke_steps
    assert delta_floor(actions, limits=replace(DELTA_LIMITS, grippers=(unseen,))) == usual
    assert delta_floor(actions[:12]) == 2  # nothing is waited for after the episode's end


@given(st.integers(STROKE, 40))
def test_a_ramp_is_compressed_to_the_speed_of_the_fingers(took):
    states = np.zeros((61, 4))
    states[:, 2] = 1.0 - np.clip((np.arange(61) - 10) / took, 0.0, 1.0)
    limits = replace(SMALL_LIMITS, grippers=(replace(DELTA_LIMITS.grippers[0], scale=FingerScale((1.0,), 0.0, 1.0)),))
    assert floor_steps(SMALL_ARM, limits, states[1:, :3], states) == pytest.approx(STROKE)


def test_arm_and_fingers_that_move_together_are_not_counted_twice():
    actions, opening = stroke(40, 10, STROKE)
    actions[10 : 10 + STROKE, 0] = 0.5
    assert delta_floor(actions, opening) == STROKE
    actions[:10, 0] = 0.5
    assert delta_floor(actions, opening) == STROKE + 5


def test_limits_of_either_sign_count_apart():
    group = replace(DELTA_ROBOT.actions[0], low=(-0.5,) * 3)
    robot = replace(DELTA_ROBOT, actions=(group, *DELTA_ROBOT.actions[1:]))
    actions = np.zeros((2, 7))
    actions[:, 1] = 0.5, -0.5
    np.testing.assert_allclose(delta_shares(robot, actions), [[0.5, 0.0], [1.0, 0.0]])


def test_an_episode_without_its_last_state_or_of_another_robot_is_refused():
    with pytest.raises(InputError, match="one more state"):
        floor_steps(DELTA_ROBOT, DELTA_LIMITS, np.zeros((5, 7)), np.zeros((5, 7)))
    with pytest.raises(InputError, match="has 4 state and 3 action dimensions"):
        floor_steps(DELTA_ROBOT, DELTA_LIMITS, np.zeros((5, 3)), np.zeros((6, 4)))
