import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.maths.seconds import reckoned_seconds, throughput_per_hour, waiting_steps


@pytest.mark.parametrize(
    ("latency", "dt", "steps"), [(0.0, 0.02, 0), (0.1, 0.02, 5), (0.05, 0.02, 3), (0.3, 0.1, 3), (0.001, 0.05, 1)]
)
def test_the_world_goes_on_in_whole_control_steps(latency, dt, steps):
    assert waiting_steps(latency, dt) == steps


@given(st.integers(0, 200), st.sampled_from([0.02, 0.05, 1 / 15, 1 / 30]))
def test_whole_steps_are_not_rounded_up(steps, dt):
    assert waiting_steps(steps * dt, dt) == steps


def test_every_call_takes_its_time():
    np.testing.assert_allclose(reckoned_seconds(np.array([100, 50]), np.array([4, 8]), 0.02, 0.1), [2.4, 1.8])


def test_throughput_charges_failures_with_the_whole_limit():
    seconds = np.array([10.0, 20.0, 5.0])
    assert throughput_per_hour(seconds, np.zeros(3, dtype=bool), 30.0) == 0.0
    assert throughput_per_hour(seconds, np.ones(3, dtype=bool), 30.0) == pytest.approx(3 * 3600 / 35)
    assert throughput_per_hour(seconds, np.array([True, True, False]), 30.0) == pytest.approx(2 * 3600 / 60)
