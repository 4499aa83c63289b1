import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.errors import InputError
from speedup_patch.warp import Warp, uniform_warp


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
