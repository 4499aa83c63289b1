import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from speedup_patch.maths.retiming import rates_within, read_ahead, smooth_rates, warp_lengths, warp_positions
from speedup_patch.warp import uniform_warp

RATES = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(1.0, 6.0))


@given(st.integers(1, 60), st.floats(1.0, 8.0))
def test_a_constant_rate_is_the_uniform_warp_of_as_many_commands(n, rate):
    rate = min(rate, float(n))
    commands = len(uniform_warp(n, rate))
    np.testing.assert_allclose(warp_positions(np.full(n, rate)), np.arange(1, commands + 1) * (n / commands), atol=1e-7)


@given(st.integers(1, 8), st.integers(1, 8))
def test_a_constant_rate_that_divides_the_chunk_is_the_uniform_warp(rate, commands):
    n = rate * commands
    np.testing.assert_array_equal(warp_positions(np.full(n, float(rate))), uniform_warp(n, float(rate)).positions)


@given(st.integers(1, 40), st.floats(0.0, 0.5))
def test_no_slack_hurries_what_runs_at_rate_one(n, slack):
    np.testing.assert_array_equal(warp_positions(np.ones(n), slack), np.arange(1, n + 1))


@given(RATES)
def test_a_warp_never_reorders_and_reaches_the_end(rates):
    positions = warp_positions(rates)
    steps = np.diff(positions, prepend=0.0)
    assert (steps > 0).all()
    assert positions[-1] == len(rates)
    assert (steps <= rates.max() + 1e-9).all()


@given(RATES, st.floats(0.0, 0.3), st.floats(0.0, 1.0))
def test_only_what_fills_no_command_is_left_to_the_next_chunk_and_nothing_that_is_needed(rates, slack, share):
    n, needed = len(rates), share * len(rates)
    whole = warp_positions(rates, slack)
    positions = warp_positions(rates, slack, np.array(needed))
    assert (np.diff(positions, prepend=0.0) > 0).all()
    assert positions[-1] == n or positions[-1] >= needed
    assert len(whole) - len(positions) == (positions[-1] < n)
    if positions[-1] < n:
        time = np.r_[0.0, np.cumsum(1.0 / rates)]
        at = np.interp(positions, np.arange(n + 1.0), time)
        np.testing.assert_allclose(at, np.arange(1, len(positions) + 1), atol=1e-9)  # as fast as allowed
        assert time[-1] - at[-1] < 1.0


@given(st.integers(1, 40))
def test_rate_one_is_the_identity(n):
    np.testing.assert_array_equal(warp_positions(np.ones(n)), np.arange(1, n + 1))
    np.testing.assert_allclose(read_ahead(np.arange(1.0, n + 1), 7.5, n), np.arange(1, n + 1))


@given(RATES, st.floats(0.05, 2.0))
def test_smoothed_rates_are_lower_and_change_slowly(rates, change):
    smooth = smooth_rates(rates, change)
    assert (smooth <= rates).all()
    assert (smooth >= 1.0).all()
    allowed = change / np.minimum(smooth[1:], smooth[:-1])
    assert (np.abs(np.diff(smooth)) <= allowed + 1e-9).all()
    if np.ptp(rates) == 0:
        np.testing.assert_array_equal(smooth, rates)


@given(hnp.arrays(np.float64, (12, 3), elements=st.floats(0, 10)), st.floats(1.0, 6.0))
def test_rates_keep_every_limit_that_can_be_kept(speeds, fastest):
    limits = np.array([1.0, 2.0, 0.5])
    rates = rates_within(speeds, limits, fastest)
    assert (rates >= 1).all()
    assert (rates <= fastest).all()
    keeps = (speeds <= limits).all(axis=1)
    assert (rates[keeps, None] * speeds[keeps] <= limits + 1e-9).all()
    assert (rates[~keeps] == 1).all()


def test_what_does_not_move_runs_as_fast_as_allowed():
    assert rates_within(np.zeros((3, 2)), np.array([1.0, 0.0]), 4.0).tolist() == [4.0, 4.0, 4.0]


@given(RATES, st.floats(0.0, 12.0))
def test_reading_ahead_never_goes_back_and_holds_the_last_command(rates, delay):
    positions = warp_positions(rates)
    ahead = read_ahead(positions, delay, len(rates))
    assert (np.diff(ahead) >= -1e-9).all()
    assert (ahead <= len(rates)).all()


def test_a_late_actuator_reads_ahead_by_its_delay_times_the_rate_above_one():
    ahead = read_ahead(np.arange(3.0, 40.0, 3.0), 4.0, 39)
    np.testing.assert_allclose(ahead[:5], [3 * j + (3 - 1) * 4 for j in range(1, 6)])
    assert read_ahead(np.array([2.0, 4.0]), 10.0, 4).tolist() == [pytest.approx(4.0)] * 2


def test_a_speed_that_is_not_known_is_not_hurried():
    assert rates_within(np.array([[np.nan, 0.0], [0.0, 0.0]]), np.ones(2), 4.0).tolist() == [1.0, 4.0]


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 30)), elements=st.floats(1.0, 6.0)),
    st.floats(0.05, 2.0),
    st.floats(0.0, 12.0),
)
def test_a_batch_is_its_warps_one_by_one_and_then_their_ends(rates, change, delay):
    n = rates.shape[1]
    smooth = smooth_rates(rates, change)
    positions = warp_positions(smooth)
    ahead = read_ahead(positions, delay, n)
    lengths = warp_lengths(positions)
    assert lengths.max() == positions.shape[1]
    for row, length in enumerate(lengths):
        np.testing.assert_array_equal(smooth[row], smooth_rates(rates[row], change))
        alone = warp_positions(smooth[row])
        np.testing.assert_array_equal(positions[row, :length], alone)
        assert (positions[row, length:] == n).all()
        np.testing.assert_allclose(ahead[row, :length], read_ahead(alone, delay, n), atol=1e-12)
