import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.guard import fit_guard, guard_from_arrays, guard_to_arrays
from speedup_patch.observations import observe, observe_episode
from speedup_patch.robots import ALOHA
from stand_ins import DELTA_ROBOT, smooth_demonstrations

N = 12


@pytest.fixture(scope="module")
def guard():
    return fit_guard(ALOHA, smooth_demonstrations(episodes=20), N, 4.0, np.random.default_rng(0))


def moments(demonstrations):
    for episode in demonstrations:
        o = observe_episode(ALOHA, episode)
        yield from ((o[t], episode.actions[t : t + N]) for t in range(0, len(episode) - N, 7))


def at_rest(state):
    return observe(ALOHA, state, state)


def test_its_own_demonstrations_are_familiar(guard):
    assert all(guard.reason(x, chunk) is None for x, chunk in moments(smooth_demonstrations(episodes=20)))


def test_a_far_state_is_unfamiliar(guard):
    state = smooth_demonstrations().episodes[0].states[0]
    chunk = smooth_demonstrations().episodes[0].actions[:N]
    assert guard.reason(at_rest(state + 1.5), chunk) == "unfamiliar state"


def test_a_chunk_that_jumps_is_unfamiliar(guard):
    episode = smooth_demonstrations().episodes[0]
    x = at_rest(episode.states[0])
    spike = episode.actions[:N].copy()
    spike[5, 2] += 1.0  # one row in between that no evenly spread look would see
    assert guard.reason(x, spike) == "unfamiliar chunk"
    assert guard.reason(x, episode.actions[:N] - 2.0) == "unfamiliar chunk"


def test_what_is_not_finite_is_unfamiliar(guard):
    x, chunk = next(moments(smooth_demonstrations()))
    assert guard.reason(np.full_like(x, np.nan), chunk) == "unfamiliar state"


def test_the_limit_lets_unseen_demonstrations_pass_more_often_than_not(guard):
    reasons = [guard.reason(x, chunk) for x, chunk in moments(smooth_demonstrations(episodes=20, seed=7))]
    assert np.mean([reason is None for reason in reasons]) > 0.9


def test_it_survives_its_file(guard):
    again = guard_from_arrays(guard_to_arrays(guard), ALOHA, "guard")
    for before, after in ((guard.states, again.states), (guard.chunks, again.chunks)):
        np.testing.assert_array_equal(after.rows, before.rows)
        assert after.limit == before.limit


def test_a_damaged_guard_is_refused(guard):
    arrays = guard_to_arrays(guard)
    for name in arrays:
        lacking = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(InputError, match="guard"):
            guard_from_arrays(lacking, ALOHA, "guard")
    with pytest.raises(InputError, match="guard"):
        guard_from_arrays({**arrays, "states.spread": np.zeros_like(arrays["states.spread"])}, ALOHA, "guard")
    with pytest.raises(InputError, match="guard"):
        guard_from_arrays(arrays, DELTA_ROBOT, "guard")


@pytest.mark.parametrize("dimension", range(14))
def test_one_dimension_far_outside_is_enough(guard, dimension):
    demonstrations = smooth_demonstrations(episodes=20)
    states = np.concatenate([episode.states for episode in demonstrations])
    state, chunk = demonstrations.episodes[0].states[0].copy(), demonstrations.episodes[0].actions[:N].copy()
    shift = states[:, dimension].max() + 3 * states[:, dimension].std() + 0.3 - state[dimension]
    state[dimension] += shift
    chunk[:, dimension] += shift
    assert guard.reason(at_rest(state), chunk) == "unfamiliar state"


def test_a_velocity_nobody_showed_is_unfamiliar(guard):
    episode = smooth_demonstrations(episodes=20).episodes[0]
    top = np.abs(np.diff(episode.states, axis=0)).max()
    jumped = observe(ALOHA, episode.states[30], episode.states[30] - 50 * top)
    assert guard.reason(jumped, episode.actions[30 : 30 + N]) == "unfamiliar velocity"


def test_one_episode_cannot_be_calibrated():
    with pytest.raises(InputError, match="two episodes"):
        fit_guard(ALOHA, smooth_demonstrations(episodes=1), N, 4.0, np.random.default_rng(0))
