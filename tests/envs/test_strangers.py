"""Robots that nobody tuned for: each is valid, repeats exactly, obeys its physics and is solved by its operator."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from speedup_patch.data import SENT
from speedup_patch.envs import make_env
from speedup_patch.envs.seeds import DEMONSTRATIONS
from speedup_patch.envs.strangers import STRANGERS, StrangerEnv, draw_stranger
from speedup_patch.envs.strangers.bodies import JointArm
from speedup_patch.envs.strangers.collecting import demonstrate
from speedup_patch.envs.strangers.machine import FINGER_COMMANDS, write_finger_command
from speedup_patch.envs.strangers.physics import FingerLaw, Hand, ServoLaw, move_axes, move_fingers, servo_law
from speedup_patch.envs.strangers.spec import GROUP, LONGEST_CHUNK, SHORTEST_CHUNK
from speedup_patch.envs.strangers.tasks import Layout, Thing, advance, solved
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env

NUMBERS = range(STRANGERS)
HALVES = (range(GROUP), range(GROUP, 2 * GROUP))


def wander(env: StrangerEnv, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Commands that stay near where the robot is, and open and shut the fingers."""
    robot, state = env.robot, env.reset(0)["state"]
    actions = np.zeros((steps, robot.action_size))
    targets = robot.drives | {
        column: robot.state_names.index(name)
        for group, part in zip(robot.actions, robot.action_slices, strict=True)
        for column, name in enumerate(group.names, start=part.start)
        if group.mode == "absolute"
    }
    for column in range(robot.action_size):
        low, high = robot.action_low[column], robot.action_high[column]
        if column in targets:
            swing = 0.02 * (high - low) * np.sin(np.arange(steps) / 7 + column)
            actions[:, column] = state[targets[column]] + swing
        else:
            actions[:, column] = rng.uniform(low, high, steps)
    return np.clip(actions, robot.action_low, robot.action_high)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_stranger_is_an_env_whose_robot_shows_where_its_hands_are(number: int) -> None:
    env = make_env(f"strangers/{number}")
    assert isinstance(env, Env)
    assert isinstance(env, StrangerEnv)
    observation = env.reset(3)
    assert observation["state"].shape == observation["previous_state"].shape == (env.robot.state_size,)
    for action in wander(env, 5, np.random.default_rng(number)):
        observation, _ = env.step(action)
    poses = env.robot.poses(observation["state"])
    np.testing.assert_allclose(poses[:, :3], env.save().places[-1], atol=1e-9)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_same_seed_gives_the_same_episode_and_another_seed_another(number: int) -> None:
    first, second = StrangerEnv(number), StrangerEnv(number)
    actions = wander(first, 20, np.random.default_rng(1))
    second.reset(9)
    for env in (first, second):
        env.reset(5)
    for action in actions:
        (one, one_solved), (other, other_solved) = first.step(action), second.step(action)
        assert one_solved == other_solved
        for key, value in one.items():
            np.testing.assert_array_equal(other[key], value)
    assert not np.array_equal(first.reset(5)["environment_state"], first.reset(6)["environment_state"])


@pytest.mark.parametrize("number", NUMBERS)
def test_a_robot_that_is_sent_what_holds_it_stays(number: int) -> None:
    env = StrangerEnv(number)
    before = env.reset(4)["state"]
    for _ in range(5):
        after, done = env.step(env.hold_action())
    np.testing.assert_allclose(after["state"], before, atol=1e-6)
    assert not done


@pytest.mark.parametrize("number", NUMBERS)
def test_restore_repeats_bit_for_bit(number: int) -> None:
    env = StrangerEnv(number)
    actions = wander(env, 30, np.random.default_rng(2))
    for action in actions[:10]:
        env.step(action)
    snapshot = env.save()
    first = [env.step(action)[0] for action in actions[10:]]
    other = StrangerEnv(number)
    other.reset(8)
    other.restore(snapshot)
    for action, expected in zip(actions[10:], first, strict=True):
        seen, _ = other.step(action)
        for key, value in expected.items():
            np.testing.assert_array_equal(seen[key], value)


def test_a_snapshot_of_another_stranger_is_refused() -> None:
    with pytest.raises(InputError, match="strangers/4"):
        StrangerEnv(4).restore(StrangerEnv(5).save())


@pytest.mark.parametrize("half", HALVES)
def test_each_half_holds_every_kind(half: range) -> None:
    robots = [draw_stranger(number) for number in half]
    assert Counter(robot.control for robot in robots) == {
        "joints_rad": 4,
        "joints_deg": 3,
        "velocity": 3,
        "pose": 3,
        "delta": 3,
    }
    assert {robot.joints for robot in robots} == {0, 2, 3, 4, 5, 6, 7}
    assert {robot.task for robot in robots} == {"place", "slot", "gate", "push", "handover"}
    assert sum(robot.arms == 2 for robot in robots) == 3
    assert sum(robot.fingers.ramp_seconds == 0 for robot in robots) == GROUP // 2
    assert sum(robot.fingers.slip_ratio is not None for robot in robots) == GROUP // 2
    assert {robot.fingers.units for robot in robots} == set(FINGER_COMMANDS)
    assert min(robot.control_hz for robot in robots) == 10
    assert max(robot.control_hz for robot in robots) == 50
    assert {robot.integrates for robot in robots if robot.control == "delta"} == {True, False}
    assert all(SHORTEST_CHUNK <= robot.chunk <= LONGEST_CHUNK for robot in robots)


def test_the_halves_share_their_values_but_not_their_robots() -> None:
    first, second = ([draw_stranger(number) for number in half] for half in HALVES)
    for value in (lambda robot: robot.servo.bandwidth_hz, lambda robot: robot.operator.pace, lambda robot: robot.size):
        assert sorted(map(value, first)) == sorted(map(value, second))
    assert not {replace(robot, number=0) for robot in first} & {replace(robot, number=0) for robot in second}


@pytest.mark.parametrize("number", NUMBERS)
def test_the_operator_solves_the_task_within_the_robots_limits(number: int) -> None:
    env = StrangerEnv(number)
    episode = demonstrate(env, DEMONSTRATIONS)
    assert episode is not None
    assert SENT not in episode.extras
    assert (episode.actions >= env.robot.action_low).all()
    assert (episode.actions <= env.robot.action_high).all()
    assert len(episode) < env.max_steps


@pytest.mark.parametrize("control", ["joints_deg", "velocity", "pose", "delta"])
def test_sending_a_demonstration_again_repeats_it(control: str) -> None:
    env = StrangerEnv(next(number for number in NUMBERS if draw_stranger(number).control == control))
    episode = demonstrate(env, DEMONSTRATIONS)
    assert episode is not None
    observation, done = env.reset(DEMONSTRATIONS), False
    for state, action in zip(episode.states, episode.actions, strict=True):
        np.testing.assert_array_equal(observation["state"], state)
        observation, done = env.step(action)
    assert done


def free_law(**changes: object) -> ServoLaw:
    """One axis without friction or delay."""
    law = ServoLaw(
        moves=False,
        stiffness=400.0,
        speed=np.array([1.0]),
        acceleration=np.array([20.0]),
        friction=np.array([0.0]),
        tick=0.02,
        ticks=1,
        delay=0,
    )
    return replace(law, **changes)


def run_axis(law: ServoLaw, command: float, ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """(places, speeds) of one axis that starts at rest."""
    q, v = np.zeros(1), np.zeros(1)
    places, speeds = [], []
    for _ in range(ticks):
        q, v = move_axes(law, q, v, np.array([command]))
        places.append(q[0])
        speeds.append(v[0])
    return np.array(places), np.array(speeds)


def test_a_free_axis_comes_to_its_target_within_its_greatest_speed_and_acceleration() -> None:
    places, speeds = run_axis(free_law(), 0.8, 150)
    assert places[-1] == pytest.approx(0.8, abs=1e-4)
    assert np.abs(speeds).max() == pytest.approx(1.0)
    assert np.abs(np.diff(speeds, prepend=0.0)).max() <= 20.0 * 0.02 + 1e-9


def test_an_axis_that_is_sent_a_speed_takes_it_on() -> None:
    _, speeds = run_axis(free_law(moves=True), -0.4, 100)
    assert speeds[-1] == pytest.approx(-0.4, abs=1e-6)
    _, speeds = run_axis(free_law(moves=True), 3.0, 100)
    assert speeds[-1] == pytest.approx(1.0)


def test_friction_holds_an_axis_beside_its_target_by_as_much_as_it_says() -> None:
    law = free_law(friction=400.0 * np.array([0.02]))
    places, speeds = run_axis(law, 0.5, 300)
    assert speeds[-1] == pytest.approx(0.0, abs=1e-9)
    assert 0 < 0.5 - places[-1] <= 0.02 + 1e-6
    assert run_axis(law, 0.019, 50)[0][-1] == 0.0


def test_dead_time_passes_before_an_arm_answers() -> None:
    number = max(NUMBERS, key=lambda each: draw_stranger(each).servo.dead_seconds)
    env, law = StrangerEnv(number), servo_law(draw_stranger(number))
    start = env.save().q
    actions = wander(env, 30, np.random.default_rng(0))
    moved = [not np.array_equal((env.step(action), env.save().q)[1], start) for action in actions]
    assert moved.index(True) == law.delay // law.ticks


FINGERS = FingerLaw(delay=0, step=0.1, grip=0.05, release=0.1, tick=0.02)


def test_fingers_stop_on_the_object_and_hold_it_only_after_pressing_it_for_a_while() -> None:
    hand, history = Hand(), []
    for _ in range(12):
        hand = move_fingers(FINGERS, hand, 0.0, 0.4)
        history.append(hand)
    assert min(each.opening for each in history) == pytest.approx(0.4)
    first = next(index for index, each in enumerate(history) if each.opening <= 0.4 + 1e-9)
    held = [each.holds for each in history].index(True)
    assert held == first + 2
    for opening, holds in ((0.5, True), (0.6, False)):
        hand = move_fingers(FINGERS, hand, 1.0, 0.4)
        assert (round(hand.opening, 6), hand.holds) == (opening, holds)


def test_fingers_that_shut_on_nothing_hold_nothing() -> None:
    hand = Hand()
    for _ in range(20):
        hand = move_fingers(FINGERS, hand, 0.0, None)
    assert hand == Hand(0.0)


def advance_place(thing: Thing, layout: Layout, hand: Hand, before: tuple, now: tuple, number: int = 0) -> Thing:
    return advance(draw_stranger(number), layout, thing, (now,), (before,), (0.0,), (hand,), (False,), 0.02)


def stranger_with(task: str, **wanted: object) -> int:
    """A robot with this task."""
    robots = map(draw_stranger, NUMBERS)
    return next(
        robot.number
        for robot in robots
        if robot.task == task and all(getattr(robot, key) == value for key, value in wanted.items())
    )


def test_an_object_stays_behind_unless_the_fingers_hold_it() -> None:
    number = stranger_with("place", planar=False)
    layout = Layout((0.4, 0.1, 0.0), 0.0, (0.4, -0.1, 0.0), 0.0, 0.4)
    thing, start, away = Thing(layout.object, 0.0, (None,)), (0.4, 0.1, 0.0), (0.45, 0.1, 0.1)
    left = advance_place(thing, layout, Hand(0.4, 0.02), start, away, number)
    assert left.place == layout.object
    held = advance_place(thing, layout, Hand(0.4, 0.1, True), start, start, number)
    taken = advance_place(held, layout, Hand(0.4, 0.1, True), start, away, number)
    np.testing.assert_allclose(taken.place, away)


def test_an_object_that_is_let_go_too_high_is_lost_and_one_that_is_put_down_is_not() -> None:
    number = stranger_with("place", planar=False)
    size = draw_stranger(number).size
    layout = Layout((0.4, 0.1, 0.0), 0.0, (0.4, -0.1, 0.0), 0.0, 0.4)
    for height, lost in ((0.2 * size, "dropped"), (0.01 * size, None)):
        place = (0.4, -0.1, height)
        thing = Thing(place, 0.0, ((0.0, 0.0, 0.0),))
        assert advance_place(thing, layout, Hand(0.6), place, place, number).lost == lost


def test_a_released_object_counts_only_once_the_hand_has_left_it() -> None:
    number = stranger_with("place", planar=False)
    robot = draw_stranger(number)
    layout = Layout((0.4, 0.1, 0.0), 0.0, (0.4, -0.1, 0.0), 0.0, 0.4)
    thing = Thing(layout.goal, 0.0, (None,))
    assert not solved(robot, layout, thing, (layout.goal,), (Hand(),))
    assert solved(robot, layout, thing, ((0.4, -0.1, 0.2),), (Hand(),))
    assert not solved(robot, layout, replace(thing, place=layout.object), ((0.0, 0.0, 0.2),), (Hand(),))


@pytest.mark.parametrize(("aside", "lost"), [(0.0, None), (0.04, "gate")])
def test_an_object_is_knocked_off_beside_the_gate(aside: float, lost: str | None) -> None:
    number = stranger_with("gate")
    size = draw_stranger(number).size
    layout = Layout((0.4 * size, 0.1, 0.0), 0.0, (0.4 * size, -0.1, 0.0), 0.37 * size, 0.4)
    before, now = (((0.37 + aside) * size, y, 0.05) for y in (0.01, -0.01))
    thing = Thing(before, 0.0, ((0.0, 0.0, 0.0),))
    assert advance_place(thing, layout, Hand(0.4, 1.0, True), before, now, number).lost == lost


def test_a_pushed_object_slides_on_the_further_the_faster_it_was_pushed() -> None:
    number = stranger_with("push")
    size = draw_stranger(number).size
    layout = Layout((0.3, 0.0, 0.0), 0.0, (0.5, 0.0, 0.0), 0.0, 0.4)

    def rests(speed: float, opening: float = 0.0) -> float:
        thing, place = Thing((0.3, 0.0, 0.0), 0.0, (None,)), 0.3 - 0.05 * size
        for step in range(200):
            ahead = place + (speed * 0.02 if step < 20 else 0.0)
            thing = advance_place(thing, layout, Hand(opening), (place, 0.0, 0.0), (ahead, 0.0, 0.0), number)
            place = ahead
        return thing.place[0] - place

    assert rests(0.3) > rests(0.15) > 0.03 * size
    assert rests(0.3, opening=1.0) < 0, "fingers that are open let it pass"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_commands_that_are_no_numbers_are_refused_by_name(value: float) -> None:
    env = StrangerEnv(0)
    action = np.zeros(env.robot.action_size)
    action[-1] = value
    with pytest.raises(InputError, match="fingers"):
        env.step(action)


def test_another_shape_or_name_is_refused() -> None:
    env = StrangerEnv(0)
    with pytest.raises(InputError, match=str(env.robot.action_size)):
        env.step(np.zeros(env.robot.action_size + 1))
    for name in ("strangers/", "strangers/x", "strangers/-1"):
        with pytest.raises(InputError, match="strangers"):
            make_env(name)


@pytest.mark.parametrize("number", [each for each in NUMBERS if draw_stranger(each).joints])
def test_an_arm_moves_as_its_jacobian_says(number: int) -> None:
    arm = StrangerEnv(number).arms[0]
    assert isinstance(arm, JointArm)
    q = arm.home + 0.1
    place, jacobian = arm.jacobian(q)
    for joint in range(arm.axes):
        small = 1e-6 * np.eye(arm.axes)[joint]
        np.testing.assert_allclose((np.array(arm.locate(q + small)) - place) / 1e-6, jacobian[:, joint], atol=1e-5)


def test_finger_commands_are_written_in_the_robots_units() -> None:
    assert [write_finger_command("percent", share) for share in (0.0, 1.0)] == [0.0, 100.0]
    assert [write_finger_command("sign", share) for share in (0.0, 1.0)] == [1.0, -1.0]
