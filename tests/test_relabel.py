import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.observations import observe_episode
from speedup_patch.relabel import Rates, find_starts, relabel
from speedup_patch.robots import ALOHA
from stand_ins import LaggingWorldModel, smooth_demonstrations

RATES = Rates((1.0, 2.0, 3.0))


def labelled(**changes):
    arguments = {"chunk_length": 12, "epsilon": 0.02, "penalty": 5.0, "rng": np.random.default_rng(0)} | changes
    return relabel(LaggingWorldModel(), smooth_demonstrations(), RATES, **arguments)


def test_starts_are_every_state_with_a_whole_chunk_ahead():
    demonstrations = smooth_demonstrations(episodes=2, steps=30)
    starts = find_starts(ALOHA, demonstrations, 12)
    assert len(starts.chunks) == 2 * (30 - 12 + 1)
    np.testing.assert_array_equal(starts.chunks[20], demonstrations.episodes[1].actions[1:13])
    np.testing.assert_array_equal(starts.observations[19], observe_episode(ALOHA, demonstrations.episodes[1])[0])
    assert starts.earlier[:13].tolist() == [-1] * 12 + [0]
    assert starts.earlier[19] == -1


def test_rate_one_never_deviates_and_deviation_grows_with_the_rate():
    transitions = labelled()
    np.testing.assert_allclose(transitions.deviations[:, 0], 0.0, atol=1e-6)
    assert transitions.deviations[:, 2].mean() > transitions.deviations[:, 1].mean() > 0


def test_rewards_are_the_rate_or_minus_omega():
    transitions = labelled()
    assert transitions.violations.any()
    assert (~transitions.violations[:, 1:]).any()
    np.testing.assert_array_equal(transitions.rewards[transitions.violations], -5.0)
    safe = np.where(transitions.violations, -5.0, transitions.rates)
    np.testing.assert_array_equal(transitions.rewards, safe)


def test_accelerated_starts_move_faster_than_demonstrated_ones():
    transitions = labelled()
    speed = np.abs(transitions.observations[:, transitions.observations.shape[1] // 2 :]).mean(axis=1)
    assert speed[transitions.accelerated].mean() > 1.2 * speed[~transitions.accelerated].mean()
    assert not labelled(accelerated_starts=False).accelerated.any()


def test_fewer_states_still_have_their_accelerated_twins():
    transitions = labelled(states=100)
    assert 50 <= (~transitions.accelerated).sum() <= 100
    assert transitions.accelerated.any()


def test_an_episode_shorter_than_a_chunk_is_named():
    with pytest.raises(InputError, match="episode 0 has 90 steps, fewer than a chunk of 120"):
        labelled(chunk_length=120)


@pytest.mark.parametrize("values", [(), (2.0, 1.0), (0.5, 1.0), (1.0, 1.0)])
def test_rates_must_increase_from_one(values):
    with pytest.raises(InputError, match="increasing"):
        Rates(values)
