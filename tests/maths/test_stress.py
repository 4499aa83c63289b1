import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.maths.stress import joint_accelerations, joint_jerks, joint_speeds, magnitude_quantile, peak_ratio

DT = 0.02
TIME = np.arange(40)[:, None] * DT


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_constant_velocity_has_that_speed_and_no_acceleration(first, second):
    joints = TIME * np.array([first, second])
    np.testing.assert_allclose(joint_speeds(joints, DT), np.broadcast_to([first, second], (39, 2)), atol=1e-9)
    np.testing.assert_allclose(joint_accelerations(joints, DT), 0.0, atol=1e-8)
    np.testing.assert_allclose(joint_jerks(joints, DT), 0.0, atol=1e-6)


@given(st.floats(0.1, 5))
def test_powers_of_time_have_the_derivatives_of_calculus(scale):
    np.testing.assert_allclose(joint_accelerations(scale * TIME**2 / 2, DT), scale, rtol=1e-6)
    np.testing.assert_allclose(joint_jerks(scale * TIME**3 / 6, DT), scale, rtol=1e-5)


@pytest.mark.parametrize("rate", [2.0, 4.0])
def test_a_path_run_faster_gains_speed_with_the_rate_and_acceleration_with_its_square(rate):
    time = np.arange(400)[:, None] * DT
    fast, slow = np.sin(rate * time), np.sin(time)
    ratios = [
        np.abs(find(fast, DT)).max() / np.abs(find(slow, DT)).max() for find in (joint_speeds, joint_accelerations)
    ]
    assert ratios == pytest.approx([rate, rate**2], rel=0.01)


def test_too_few_moments_have_no_quantile():
    assert magnitude_quantile(joint_accelerations(TIME[:2], DT)) is None
    assert magnitude_quantile(np.array([[-3.0, 1.0]]), 1.0) == 3.0


def test_the_joint_nearest_to_its_rating_decides():
    assert peak_ratio(np.array([[1.0, -1.0]]), np.array([10.0, 2.0])) == 0.5
