import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.errors import InputError
from speedup_patch.warp import Warp, cap_rate, uniform_warp


@given(st.integers(1, 60), st.floats(1.0, 8.0))
def test_keeping_the_tail_reaches_the_end(n, rate):
    rate = min(rate, float(n))
    warp = uniform_warp(n, rate, "keep")
    assert warp.positions[-1] == n
    assert (np.diff(warp.positions, prepend=0.0) <= rate + 1e-9).all()


@given(st.integers(1, 60), st.integers(1, 8))
def test_dropping_the_tail_leaves_whole_windows(n, rate):
    rate = min(rate, n)
    assert uniform_warp(n, float(rate), "drop").positions.tolist() == [rate * (j + 1) for j in range(n // rate)]


@pytest.mark.parametrize("positions", [[], [0.0, 1.0], [2.0, 1.0], [1.0, 5.0]])
def test_a_warp_that_reorders_or_leaves_the_chunk_is_refused(positions):
    with pytest.raises(InputError, match="increasing positions"):
        Warp(np.array(positions), 4)


@pytest.mark.parametrize("rate", [0.5, 5.0, float("nan")])
def test_a_rate_outside_the_chunk_is_refused(rate):
    with pytest.raises(InputError, match="between 1 and the chunk length"):
        uniform_warp(4, rate)


@given(st.integers(2, 60), st.floats(1.0, 8.0), st.floats(1.0, 8.0))
def test_a_cap_binds_every_moment_and_reaches_the_same_end(n, rate, fastest):
    warp = uniform_warp(n, min(rate, float(n)))
    capped = cap_rate(warp, fastest)
    windows = np.diff(capped.positions, prepend=0.0)
    assert (windows <= fastest + 1e-6).all()
    assert capped.positions[-1] == pytest.approx(n)
    assert len(capped) >= len(warp)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
def test_a_cap_on_one_rate_is_the_slower_rate(windows, rate, times):
    n = windows * rate * times
    capped = cap_rate(uniform_warp(n, float(rate * times)), float(rate))
    np.testing.assert_allclose(capped.positions, uniform_warp(n, float(rate)).positions)


def test_a_cap_leaves_slower_moments_alone():
    warp = Warp(np.array([1.0, 2.0, 6.0, 7.0]), 7)
    np.testing.assert_allclose(cap_rate(warp, 2.0).positions, [1, 2, 4, 6, 7])
