import numpy as np
import pytest

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.errors import InputError
from stand_ins import smooth_demonstrations


def episode(rows=5, **changes):
    columns = {"states": np.zeros((rows, 3)), "actions": np.zeros((rows, 2)), "timestamps": np.arange(rows) / 50.0}
    return Episode(**columns | changes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", ["states", "actions"])
def test_values_that_are_not_finite_are_named(value, column):
    bad = np.zeros((5, 3 if column == "states" else 2))
    bad[2, 1] = value
    with pytest.raises(InputError, match="row 2, dimension 1"):
        episode(**{column: bad})


def test_episodes_of_different_size_are_refused():
    with pytest.raises(InputError, match="differ in their"):
        Demonstrations((episode(), episode(states=np.zeros((5, 4)))), 50.0)


def test_no_episodes_is_an_error():
    with pytest.raises(InputError, match="no episodes"):
        Demonstrations((), 50.0)


def test_a_split_keeps_every_episode_once_and_follows_the_rng():
    demonstrations = smooth_demonstrations(episodes=7)
    training, held_out = demonstrations.split(0.3, np.random.default_rng(0))
    again, _ = demonstrations.split(0.3, np.random.default_rng(0))
    assert {id(e) for e in training} | {id(e) for e in held_out} == {id(e) for e in demonstrations}
    assert len(held_out) == 2
    assert [id(e) for e in again] == [id(e) for e in training]


def test_one_episode_cannot_be_split():
    with pytest.raises(InputError, match="at least two"):
        smooth_demonstrations(episodes=1).split(0.1, np.random.default_rng(0))


def test_the_fingerprint_changes_with_the_data():
    assert smooth_demonstrations(seed=0).fingerprint() == smooth_demonstrations(seed=0).fingerprint()
    assert smooth_demonstrations(seed=0).fingerprint() != smooth_demonstrations(seed=1).fingerprint()
