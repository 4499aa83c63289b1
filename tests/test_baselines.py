import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.baselines import (
    FixedRate,
    GreedyMpc,
    GripperDwell,
    OneRatePerChunk,
    SpeedCap,
    demonstrated_speed,
    slow_down,
)
from speedup_patch.candidates import Rates, Retimings, bind
from speedup_patch.errors import InputError
from speedup_patch.limits import read_limits
from speedup_patch.relabel import predict_counterfactuals
from speedup_patch.robots import ALOHA
from speedup_patch.starts import find_starts
from speedup_patch.warp import uniform_warp
from stand_ins import DELTA_ROBOT, LaggingWorldModel, RememberingWorldModel, smooth_demonstrations

RATES = Rates((1.0, 2.0, 3.0, 4.0))
LIMITS = read_limits(ALOHA, smooth_demonstrations())


@pytest.fixture(scope="module")
def starts():
    return find_starts(ALOHA, smooth_demonstrations(), 12, stride=5)


def greedy_lengths(starts, choices, epsilon):
    """How many commands greedy MPC runs each chunk with."""
    greedy = GreedyMpc(LaggingWorldModel(), bind(choices, ALOHA, LIMITS), epsilon, "in_step", LIMITS)
    return [len(greedy.schedule(o, chunk)) for o, chunk in zip(starts.observations, starts.chunks, strict=True)]


@pytest.mark.parametrize("choices", [RATES, Retimings()])
def test_greedy_mpc_takes_the_fastest_safe_option(starts, choices):
    epsilon = 0.02
    taken = greedy_lengths(starts, choices, epsilon)
    found = predict_counterfactuals(
        LaggingWorldModel(), starts.observations, starts.chunks, bind(choices, ALOHA, LIMITS), "in_step", LIMITS
    )
    safe = np.where(found.deviations <= epsilon, found.options.lengths, 99)
    assert taken == safe.min(axis=1).tolist()
    assert len(set(taken)) > 1


def test_greedy_mpc_with_a_huge_tolerance_is_the_fastest_rate(starts):
    assert set(greedy_lengths(starts, RATES, 1e9)) == {3}


def test_greedy_mpc_with_no_safe_option_takes_the_slowest(starts):
    assert set(greedy_lengths(starts, Rates((2.0, 3.0)), 0.0)) == {6}


def test_speed_cap_slows_down_as_the_limit_falls(starts):
    def mean(limit):
        return SpeedCap(LaggingWorldModel(), RATES, limit).choose(starts.observations, starts.chunks).mean()

    limit = demonstrated_speed(ALOHA, smooth_demonstrations())
    assert 4.0 >= mean(10 * limit) > mean(limit) > mean(limit / 10) == 1.0


def test_speed_cap_tells_its_world_model_what_was_sent_before(starts):
    model, before = RememberingWorldModel(), np.zeros((2, 14))
    cap = SpeedCap(model, RATES, 1e-9)
    assert cap.schedule(starts.observations[0], starts.chunks[0], before).rate == 1.0
    np.testing.assert_array_equal(model.told, [before[None]])


def test_demonstrated_speed_leaves_out_the_start_up_jump():
    calm = smooth_demonstrations(episodes=2)
    jump = [episode.states.copy() for episode in calm]
    for states in jump:
        states[3] += 0.5
    from speedup_patch.data import Demonstrations, Episode

    jumping = Demonstrations(tuple(Episode(s, e.actions, e.timestamps) for s, e in zip(jump, calm, strict=True)), 50.0)
    assert demonstrated_speed(ALOHA, jumping) == pytest.approx(demonstrated_speed(ALOHA, calm))


@pytest.mark.parametrize("rate", [0.5, float("nan"), float("inf")])
def test_a_fixed_rate_below_one_is_refused(rate):
    with pytest.raises(InputError, match="at least 1"):
        FixedRate(rate)


@given(st.integers(0, 2000), st.floats(1.0, 5.0))
def test_slowing_down_runs_every_marked_action_alone(seed, rate):
    slow = np.random.default_rng(seed).random(20) < 0.3
    warp = slow_down(uniform_warp(20, rate), slow)
    assert warp.positions[-1] == 20
    for index in np.flatnonzero(slow):
        assert index + 1 in warp.positions
        assert index == 0 or index in warp.positions
    assert (np.diff(warp.positions, prepend=0.0) <= rate + 1e-9).all()


def flip_chunk(flip_at, n=10):
    chunk = np.zeros((n, 7))
    chunk[:, 6] = -1.0
    chunk[flip_at:, 6] = 1.0
    return chunk


def test_dwell_does_not_merge_after_a_flip_and_remembers_it_in_the_next_chunk():
    dwell = GripperDwell(OneRatePerChunk(FixedRate(5.0)), DELTA_ROBOT)
    first = dwell.schedule(np.zeros(2), flip_chunk(8))
    assert first.positions.tolist() == [5.0, 8.0, 9.0, 10.0]
    second = dwell.schedule(np.zeros(2), flip_chunk(0))
    assert second.positions.tolist() == [1.0, 2.0, 7.0, 10.0]
    dwell.reset()
    assert len(dwell.schedule(np.zeros(2), flip_chunk(0))) == 2
