"""The servo law, and what its fit recovers from demonstrations at 1x."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_arm import LAW, SMALL_ARM, demonstrate, follow, wandering_commands
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.observations import features, observe
from speedup_patch.robots import ALOHA, Arm, StatePose
from speedup_patch.world_model.servo import Servo, ServoWorldModel, simulate, why_no_servo
from speedup_patch.world_model.servo_fit import fit_servo_world_model

UNLIMITED = np.full(3, np.inf)


def law(**values: float) -> Servo:
    given_values = {"stiffness": 1.0, "damping": 2.0, "share": 0.0, "grip": 0.0, "limit": 0.0, "offset": 0.0} | values
    return Servo(**{name: np.array(value) for name, value in given_values.items()})


def true_model() -> ServoWorldModel:
    return ServoWorldModel(SMALL_ARM, LAW, -UNLIMITED, UNLIMITED)


@given(st.floats(0.01, 20), st.floats(0.0, 10), st.floats(0, 0.99), st.floats(0, 4), st.floats(0, 1), st.floats(-2, 2))
def test_a_joint_at_its_command_stays_there(
    stiffness: float, damping: float, share: float, grip: float, limit: float, place: float
) -> None:
    servo = law(stiffness=stiffness, damping=damping, share=share, grip=grip, limit=limit)
    path = simulate(servo, np.array(place), np.array(0.0), np.full(30, place))
    np.testing.assert_array_equal(path, place)


@given(st.floats(0.02, 20), st.floats(0.5, 10), st.floats(-1, 1), st.floats(-0.2, 0.2), st.floats(-3, 3))
def test_motion_does_not_depend_on_where_the_joint_is_mounted(
    stiffness: float, damping: float, start: float, velocity: float, shift: float
) -> None:
    servo = law(stiffness=stiffness, damping=damping, share=0.9, grip=2.0, limit=0.2)
    commands = np.sin(np.arange(20) / 5)
    path = simulate(servo, np.array(start), np.array(velocity), commands)
    moved = simulate(servo, np.array(start + shift), np.array(velocity), commands + shift)
    np.testing.assert_allclose(moved - shift, path, atol=1e-9)


def test_a_slow_joint_creeps_and_a_fast_one_breaks_away() -> None:
    servo = law(stiffness=5.0, damping=0.5, share=0.95, grip=2.0, limit=0.2)
    lag = {}
    for speed in (0.0005, 0.001, 0.02, 0.04):
        commands = speed * np.arange(1, 2000)
        lags = commands - simulate(servo, np.array(0.0), np.array(0.0), commands)
        lag[speed] = lags[-200:].mean()
    assert lag[0.0005] < 0.01
    np.testing.assert_allclose(lag[0.001], 2 * lag[0.0005], rtol=0.01)
    assert lag[0.04] < lag[0.02] < 0.2 / 5.0


def test_many_joints_at_once_are_each_on_their_own() -> None:
    rng = np.random.default_rng(0)
    start, velocity, commands = rng.normal(size=(7, 3)), 0.01 * rng.normal(size=(7, 3)), rng.normal(size=(12, 7, 3))
    together = simulate(LAW, start, velocity, commands)
    for joint in range(3):
        alone = Servo(*(values[joint] for values in LAW))
        np.testing.assert_array_equal(
            together[..., joint], simulate(alone, start[:, joint], velocity[:, joint], commands[..., joint])
        )


def test_a_gripper_that_holds_something_closes_no_further_but_opens() -> None:
    state = np.array([[0.0, 0.0, 0.5, 21.5]])
    o = observe(SMALL_ARM, state, state)
    closing, opening = np.zeros((1, 30, 3)), np.tile([0.0, 0.0, 1.0], (1, 30, 1))
    assert (true_model().rollout(o, closing)[0, :, 2] == 0.5).all()
    assert true_model().rollout(o, opening)[0, -1, 2] > 0.9
    moving = observe(SMALL_ARM, state, state + np.array([0, 0, 0.05, 0]))
    assert true_model().rollout(moving, closing)[0, -1, 2] < 0.1


def test_poses_follow_from_the_joints_and_the_rest_of_the_state_is_kept() -> None:
    states = follow(wandering_commands(10, np.random.default_rng(1)))
    x = true_model().rollout(observe(SMALL_ARM, states, states), np.zeros((10, 5, 3)))
    np.testing.assert_allclose(x, features(SMALL_ARM, x[..., :4].astype(np.float64)), atol=1e-6)
    assert (x[..., 3] == 21.5).all()


def joint_error(model: ServoWorldModel, speed: float) -> float:
    """Root mean squared error (rad) on fresh chunks that move ``speed`` times as fast as the demonstrations."""
    commands = wandering_commands(480, np.random.default_rng(99), speed)
    states = follow(commands)
    starts = np.arange(24, 450, 24)
    o = observe(SMALL_ARM, states[starts], states[starts - 1])
    chunks = np.stack([commands[start : start + 24] for start in starts])
    reached = np.stack([states[start + 1 : start + 25] for start in starts[:-1]])
    return float(np.sqrt(np.mean((model.rollout(o, chunks)[:-1, :, :2] - reached[..., :2]) ** 2)))


@pytest.mark.parametrize(
    ("disturbance", "recorded", "excess"), [(0.0, True, 0.0002), (0.03, True, 0.0002), (0.02, False, 0.01)]
)
def test_a_fit_to_slow_motion_foretells_fast_motion(disturbance: float, recorded: bool, excess: float) -> None:
    """Even the true law errs, for the velocity it starts from is only the last difference; the lag is 0.05 rad."""
    data = demonstrate(episodes=20, steps=240, disturbance=disturbance, record_sent=recorded)
    model = fit_servo_world_model(data, SMALL_ARM, horizon=24)
    assert joint_error(model, speed=3.0) < joint_error(true_model(), speed=3.0) + excess


def test_a_joint_that_never_moves_can_be_fitted() -> None:
    still = demonstrate(episodes=1, steps=60).episodes[0]
    still = replace(still, states=np.tile(still.states[:1], (60, 1)), actions=np.tile(still.actions[:1], (60, 1)))
    model = fit_servo_world_model(Demonstrations((still,), 50.0), SMALL_ARM, horizon=12)
    o = observe(SMALL_ARM, still.states[:1], still.states[:1])
    np.testing.assert_allclose(model.rollout(o, still.actions[None, :12])[0, :, :3], still.states[:12, :3], atol=1e-3)


def test_robots_without_servos_are_refused_with_the_reason() -> None:
    assert why_no_servo(ALOHA) is None
    undriven = tuple(replace(group, drives=()) for group in SMALL_ARM.actions)
    posed = replace(SMALL_ARM, actions=undriven, arms=(Arm("arm", StatePose((0, 1, 2), (0, 1, 2), "axis_angle")),))
    assert why_no_servo(posed) == "the pose of arm 'arm' is read from the state, not computed from its joints"
    free = replace(SMALL_ARM, actions=(replace(SMALL_ARM.actions[0], drives=()), SMALL_ARM.actions[1]))
    assert why_no_servo(free) == "no action is the target of shoulder, elbow"
    with pytest.raises(InputError, match="'small_arm' cannot have a servo world model: no action is the target"):
        fit_servo_world_model(demonstrate(episodes=1), free, horizon=12)


def test_episodes_too_short_to_fit_are_refused() -> None:
    with pytest.raises(InputError, match="more than 8 steps"):
        fit_servo_world_model(demonstrate(episodes=2, steps=6), SMALL_ARM, horizon=24)
