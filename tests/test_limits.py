import dataclasses
import json

import numpy as np
import pytest

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.errors import InputError
from speedup_patch.limits import limits_from_json, read_limits
from speedup_patch.robots import ALOHA
from stand_ins import DELTA_ROBOT, START, smooth_demonstrations

STEPS = 240


def gripper_demonstrations(delay, top_speed, ramp, episodes=4):
    """ALOHA at rest whose left gripper closes and opens: fingers follow ``delay`` steps late, ``top_speed`` at most."""
    made = []
    for number in range(episodes):
        actions = np.tile(START, (STEPS, 1))
        told = np.interp(np.arange(STEPS), [60 + number, 60 + number + ramp, 150, 150 + ramp], [1.0, 0.0, 0.0, 1.0])
        actions[:, 6] = told
        states = actions.copy()
        opening = 1.0
        for t in range(STEPS):
            states[t, 6] = opening
            opening += np.clip(told[max(t - delay, 0)] - opening, -top_speed, top_speed)
        # The arm sways a little, so that it has a speed too.
        states[:, 0] += 0.1 * np.sin(np.arange(STEPS) / 20)
        made.append(Episode(states, actions, np.arange(STEPS) / 50.0))
    return Demonstrations(tuple(made), 50.0, "aloha")


@pytest.mark.parametrize(("delay", "top_speed", "ramp"), [(6, 0.5, 25), (3, 0.1, 1), (0, 0.08, 1)])
def test_a_grippers_delay_and_speed_are_found_again(delay, top_speed, ramp):
    limits = read_limits(ALOHA, gripper_demonstrations(delay, top_speed, ramp)).grippers[0]
    for stroke in (limits.closing, limits.opening):
        assert stroke.strokes == 4
        assert stroke.delay == pytest.approx(delay + 1, abs=0.6)  # a state shows its command one step later at best
        assert stroke.speed == pytest.approx(min(top_speed, 1 / ramp), rel=0.1)
        assert stroke.jumps == (ramp == 1)


def test_the_tolerance_is_what_the_arm_moves_in_a_moment_whatever_the_control_rate():
    limits = read_limits(ALOHA, gripper_demonstrations(3, 0.1, 1))
    arm = limits.arms[0]
    assert arm.brisk <= 0.5 * (arm.speed + arm.turn) + 1e-9
    assert arm.brisk > limits.arms[1].brisk == pytest.approx(0.0, abs=1e-9)  # the other one rests
    assert limits.tolerance(50.0) == pytest.approx(7.5 * arm.brisk)  # 0.15 s
    assert limits.tolerance(20.0) == pytest.approx(3 * arm.brisk)


def test_a_stroke_that_begins_while_something_is_held_is_left_out():
    demonstrations = gripper_demonstrations(3, 0.1, 1)
    held = [
        dataclasses.replace(
            episode, states=np.where(np.arange(14) == 6, np.maximum(episode.states, 0.5), episode.states)
        )
        for episode in demonstrations
    ]
    limits = read_limits(ALOHA, dataclasses.replace(demonstrations, episodes=tuple(held))).grippers[0]
    assert limits.opening.strokes == 0  # fingers stood at 0.5 although they were told 0
    assert limits.closing.strokes == 4
    assert limits.letting_go == 3 + 6  # 6 steps more at 0.1 until they are beyond 0.5, told to open from 0
    assert read_limits(ALOHA, demonstrations).grippers[0].letting_go == 0  # nothing was held


def test_letting_go_is_watched_only_until_the_gripper_is_told_to_close_again():
    demonstrations = gripper_demonstrations(3, 0.1, 1)
    never = []
    for episode in demonstrations:
        states, actions = episode.states.copy(), episode.actions.copy()
        states[:, 6] = np.where(np.arange(STEPS) < 155, np.maximum(states[:, 6], 0.5), 0.5)
        states[200:, 6], actions[180:, 6] = 1.0, 0.0  # what is held is closed upon again, and lost later
        never.append(dataclasses.replace(episode, states=states, actions=actions))
    assert read_limits(ALOHA, dataclasses.replace(demonstrations, episodes=tuple(never))).grippers[0].letting_go == 0


def with_jumps(demonstrations, column, by):
    """Every episode begins with a jump within its first half second, and one out of twelve has a spike."""
    jumpy = []
    for number, episode in enumerate(demonstrations):
        values = getattr(episode, column).copy()
        values[:5] += by
        if number == 0:
            values[60] += by
        jumpy.append(dataclasses.replace(episode, **{column: values}))
    return dataclasses.replace(demonstrations, episodes=tuple(jumpy))


def test_the_start_of_an_episode_and_single_outliers_do_not_count():
    calm = smooth_demonstrations(episodes=12)
    before, after = (read_limits(ALOHA, each) for each in (calm, with_jumps(calm, "states", 0.5)))
    for one, other in zip(before.arms, after.arms, strict=True):
        assert other.speed < 1.6 * one.speed  # the next fastest episode; the jumps are twenty times as fast


def test_the_arm_is_found_to_lag_behind_its_commands():
    limits = read_limits(ALOHA, smooth_demonstrations(episodes=12))
    assert all(1 <= arm.lag <= 3 for arm in limits.arms)  # the stand-in closes 40% of the gap at every step


def test_how_far_targets_run_ahead_is_read_without_the_start_and_single_outliers():
    calm = smooth_demonstrations(episodes=12)
    before, after = (np.array(read_limits(ALOHA, each).pulls) for each in (calm, with_jumps(calm, "actions", 2.0)))
    largest = np.max([np.abs(episode.actions - episode.states).max(axis=0) for episode in calm], axis=0)
    assert len(before) == len(ALOHA.drives)
    assert ((0.3 * largest < before) & (before <= largest)).all()
    assert (after <= largest).all()  # the jumps are twenty times as far


def test_every_joint_is_found_to_lag_behind_its_target():
    lags = read_limits(ALOHA, smooth_demonstrations(episodes=12)).lags
    assert len(lags) == len(ALOHA.drives)
    assert all(1.2 < lag < 1.6 for lag in lags)  # closing 40% of a gap at every step is a lag of 0.6 / 0.4 steps


def test_joints_that_do_not_follow_have_no_lag():
    calm = smooth_demonstrations(episodes=12)
    still = tuple(dataclasses.replace(episode, states=0 * episode.states) for episode in calm)
    assert set(read_limits(ALOHA, dataclasses.replace(calm, episodes=still)).lags) == {0.0}


def test_arms_that_are_told_motions_have_neither_pulls_nor_lags():
    limits = read_limits(DELTA_ROBOT, delta_demonstrations(np.array([0.004, 0.004, 0.002])))
    assert limits.pulls == limits.lags == ()


@pytest.mark.parametrize("name", ["pulls", "lags"])
def test_limits_from_before_they_were_read_have_none_and_others_must_fit(name):
    limits = read_limits(ALOHA, smooth_demonstrations())
    document = json.loads(json.dumps(dataclasses.asdict(limits)))
    with pytest.raises(InputError, match=f"3 {name} do not fit"):
        limits_from_json(document | {name: [0.1] * 3}, ALOHA)
    del document[name]
    assert limits_from_json(document, ALOHA) == dataclasses.replace(limits, **{name: ()})


def test_limits_survive_json_and_refuse_another_robot():
    limits = read_limits(ALOHA, smooth_demonstrations())
    document = json.loads(json.dumps(dataclasses.asdict(limits)))
    assert limits_from_json(document, ALOHA) == limits
    with pytest.raises(InputError, match="do not fit"):
        limits_from_json(document, DELTA_ROBOT)
    with pytest.raises(InputError, match="damaged"):
        limits_from_json({}, ALOHA)


def test_episodes_that_are_only_a_start_are_refused():
    with pytest.raises(InputError, match="limits cannot be read"):
        read_limits(ALOHA, smooth_demonstrations(steps=20))


def delta_demonstrations(response, episodes=6):
    """A stand-in arm that is told motions: its gripper closes at step 100, and by then it has slowed down."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(episodes):
        actions = np.zeros((STEPS, 7))
        pace = np.where(np.arange(STEPS) < 90, 0.6, 0.1)[:, None]
        actions[:, :3] = pace * np.sin(np.cumsum(rng.uniform(0.0, 0.2, (STEPS, 3)), axis=0))
        actions[:, 6] = np.where(np.arange(STEPS) < 100, -1.0, 1.0)
        motions = np.stack([np.convolve(axis, response)[:STEPS] for axis in actions[:, :3].T], axis=1)
        states = np.zeros((STEPS, 7))
        states[1:, :3] = np.cumsum(motions, axis=0)[:-1]
        states[:, 6] = np.clip((np.arange(STEPS) - 102) / 8, 0, 1)
        made.append(Episode(states, actions, np.arange(STEPS) / 20.0))
    return Demonstrations(tuple(made), 20.0, "stand_in_delta")


def test_how_an_arm_answers_motions_and_how_slowly_it_grasps_is_found_again():
    response = np.array([0.005, 0.004, 0.002, 0.001])
    limits = read_limits(DELTA_ROBOT, delta_demonstrations(response))
    arm, gripper = limits.arms[0], limits.grippers[0]
    assert arm.gain == pytest.approx(response.sum(), rel=1e-3)
    assert arm.lag == pytest.approx((response * np.arange(4)).sum() / response.sum(), rel=1e-2)
    np.testing.assert_allclose(arm.axis_lags, arm.lag, rtol=1e-2)
    np.testing.assert_allclose(arm.axis_gains, arm.gain, rtol=1e-2)
    assert 0 < gripper.closing.approach <= 0.1 * response.sum() * np.sqrt(3) < arm.speed
    assert all(arm.gain == 0 for arm in read_limits(ALOHA, gripper_demonstrations(3, 0.1, 1)).arms)


def test_axes_answer_each_in_its_own_way_and_what_holds_an_arm_for_a_while_does_not_count():
    responses = [np.array([0.002, 0.004, 0.004]), np.array([0.006, 0.004, 0.002]), np.array([0.01, 0.001, 0.0])]
    made = []
    for episode in delta_demonstrations(responses[0]):
        motions = np.stack(
            [np.convolve(episode.actions[:, axis], responses[axis])[:STEPS] for axis in range(3)], axis=1
        )
        motions[120:135] = 0.0  # held
        states = episode.states.copy()
        states[1:, :3] = np.cumsum(motions, axis=0)[:-1]
        made.append(dataclasses.replace(episode, states=states))
    arm = read_limits(DELTA_ROBOT, Demonstrations(tuple(made), 20.0, "stand_in_delta")).arms[0]
    lags = [response @ np.arange(3) / response.sum() for response in responses]
    np.testing.assert_allclose(arm.axis_lags, lags, rtol=1e-2)
    np.testing.assert_allclose(arm.axis_gains, [response.sum() for response in responses], rtol=1e-2)


def test_a_turn_that_is_too_short_to_show_its_speed_is_known_by_its_command():
    response = np.array([0.01, 0.02, 0.02, 0.01, 0.01])
    rng = np.random.default_rng(2)
    made = []
    for episode in delta_demonstrations(np.array([0.01])):
        actions, states = episode.actions.copy(), episode.states.copy()
        actions[:, 5] = 0.05 * np.sin(np.cumsum(rng.uniform(0.0, 0.5, STEPS)))
        actions[:2, 5] = 0.5  # at the start, where speeds do not count
        states[1:, 5] = np.cumsum(np.convolve(actions[:, 5], response)[:STEPS])[:-1]
        made.append(dataclasses.replace(episode, actions=actions, states=states))
    demonstrations = Demonstrations(tuple(made), 20.0, "stand_in_delta")
    assert read_limits(DELTA_ROBOT, demonstrations).arms[0].turn == pytest.approx(0.5 * response.sum(), rel=1e-2)
    unrelated = [dataclasses.replace(one, actions=rng.permutation(one.actions)) for one in made]
    shuffled = read_limits(DELTA_ROBOT, dataclasses.replace(demonstrations, episodes=tuple(unrelated)))
    assert shuffled.arms[0].turn < 0.3 * 0.5 * response.sum()


def test_commands_that_do_not_move_the_arm_have_no_gain():
    moved = delta_demonstrations(np.array([0.01]))
    rng = np.random.default_rng(1)
    shuffled = [
        dataclasses.replace(episode, actions=np.hstack([rng.uniform(-1, 1, (STEPS, 6)), episode.actions[:, 6:]]))
        for episode in moved
    ]
    arm = read_limits(DELTA_ROBOT, dataclasses.replace(moved, episodes=tuple(shuffled))).arms[0]
    assert arm.gain == arm.lag == 0
    assert arm.axis_lags == arm.axis_gains == ()
