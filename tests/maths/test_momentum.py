"""An arm that is told motions runs on by its momentum; only what leaves the path counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from speedup_patch.maths.momentum import carried_motion, free_motion, impulse_response, response_lag
from speedup_patch.maths.paths import nearest_on_polyline

LAG, GAIN, BEYOND = 1.4, 0.0125, 3.0
numbers = st.floats(-1, 1)


def follow(commands, response):
    return np.stack([np.convolve(axis, response)[: len(axis)] for axis in commands.T], axis=1)


def test_an_impulse_response_is_found_again():
    rng = np.random.default_rng(0)
    response = np.array([0.005, 0.004, 0.002, 0.001, 0.0])
    commands = [rng.uniform(-1, 1, (60, 3)) for _ in range(4)]
    motions = [follow(command, response) for command in commands]
    found, explained = impulse_response(commands, motions, 5)
    np.testing.assert_allclose(found, response, atol=1e-12)
    assert explained == pytest.approx(1.0)
    unrelated = [rng.uniform(-1, 1, (60, 3)) for _ in range(4)]
    assert impulse_response(commands, unrelated, 5)[1] < 0.3


def test_no_motion_too_little_data_and_commands_that_never_change_explain_nothing():
    still, steady = [np.zeros((30, 3))], [np.ones((30, 3))]
    assert impulse_response(steady, steady, 5)[1] == 0.0
    assert impulse_response(still, still, 5)[1] == 0.0
    assert impulse_response([np.ones((3, 3))], [np.ones((3, 3))], 5)[1] == 0.0


def test_steps_that_something_held_are_left_out_on_demand():
    rng = np.random.default_rng(0)
    response = np.array([0.005, 0.004, 0.002, 0.001, 0.0])
    commands = [rng.uniform(-1, 1, (200, 1)) for _ in range(4)]
    motions = [follow(command, response) * (np.arange(200) % 100 >= 8)[:, None] for command in commands]
    np.testing.assert_allclose(impulse_response(commands, motions, 5, usual=0.9)[0], response, atol=1e-9)
    assert np.abs(impulse_response(commands, motions, 5)[0] - response).max() > 1e-4


def test_the_lag_of_an_answer_is_its_mean_delay():
    assert response_lag(np.array([0.0, 0.0, 2.0, 0.0])) == (2.0, 2.0)
    assert response_lag(np.array([1.0, 1.0])) == (0.5, 2.0)
    assert response_lag(np.array([-1.0, 0.5])) == (0.0, 0.0)  # no arm runs against what it is told


@given(st.floats(0.0, 3.0), numbers, numbers)
def test_an_arm_runs_on_by_its_lag_and_settles_at_its_gain(lag, velocity, command):
    lags, gains = np.array([lag]), np.array([GAIN])
    rest = free_motion(np.array([velocity]), np.zeros((400, 1)), lags, gains)
    assert rest == pytest.approx(lag * velocity, abs=1e-9)
    told = np.full((400, 1), command)
    further = free_motion(np.array([velocity]), told, lags, gains) - rest
    assert further == pytest.approx(GAIN * command * (400 - lag), abs=1e-9)


@given(hnp.arrays(np.float64, (2, 10, 3), elements=numbers))
def test_nothing_is_carried_at_the_pace_the_chunk_was_taught_at(chunks):
    carried = carried_motion(chunks, GAIN * chunks[:, 0], LAG, GAIN, BEYOND)
    np.testing.assert_allclose(carried, 0.0, atol=1e-9)


@given(st.floats(0.0, 3.0))
def test_being_ahead_on_a_path_that_goes_on_is_no_fault(rate):
    chunk = np.tile([0.3, -0.2, 0.1], (1, 10, 1))
    carried = carried_motion(chunk, rate * GAIN * chunk[:, 0], LAG, GAIN, BEYOND)
    np.testing.assert_allclose(carried, 0.0, atol=1e-9)  # also at rest, where the arm is behind


def test_what_runs_on_beyond_the_end_or_sideways_is_carried():
    stops = np.zeros((1, 10, 3))
    stops[0, :4, 0] = 0.4
    fast = GAIN * np.array([[1.2, 0.0, 0.0]])
    np.testing.assert_allclose(carried_motion(stops, fast, LAG, GAIN, BEYOND), [[LAG * 0.8, 0, 0]], atol=1e-9)
    across = GAIN * np.array([[0.4, 0.0, -1.0]])
    np.testing.assert_allclose(carried_motion(stops, across, LAG, GAIN, BEYOND), [[0, 0, -LAG]], atol=1e-9)


@given(
    hnp.arrays(np.float64, (3, 5, 2), elements=numbers),
    hnp.arrays(np.float64, (3, 2), elements=numbers),
)
def test_no_point_of_a_polyline_is_nearer(path, points):
    found = nearest_on_polyline(path, points)
    dense = (path[:, :-1, None] + np.linspace(0, 1, 51)[:, None] * np.diff(path, axis=1)[:, :, None]).reshape(3, -1, 2)
    nearest = np.linalg.norm(dense - points[:, None], axis=-1).min(axis=1)
    distance = np.linalg.norm(found - points, axis=-1)
    assert (distance <= nearest + 1e-9).all()
    assert (np.linalg.norm(dense - found[:, None], axis=-1).min(axis=1) <= 0.03).all()  # it is on the path
