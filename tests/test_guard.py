import json

import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.guard import fit_guard, guard_from_json, guard_to_json
from speedup_patch.observations import feature_size, features
from speedup_patch.robots import ALOHA
from stand_ins import smooth_demonstrations


@pytest.fixture(scope="module")
def guard():
    return fit_guard(ALOHA, smooth_demonstrations(seed=0), smooth_demonstrations(seed=1))


def test_demonstrations_are_familiar(guard):
    for episode in smooth_demonstrations(seed=2):
        for x, action in zip(features(ALOHA, episode.states), episode.actions, strict=True):
            assert guard.reason(x, action[None]) is None


def test_a_far_state_or_chunk_is_not(guard):
    episode = smooth_demonstrations().episodes[0]
    x = features(ALOHA, episode.states[0])
    assert guard.reason(features(ALOHA, episode.states[0] + 1.5), episode.actions[:4]) == "unfamiliar state"
    assert guard.reason(x, episode.actions[:4] - 2.0) == "unfamiliar chunk"


def test_it_survives_json(guard):
    again = guard_from_json(json.loads(json.dumps(guard_to_json(guard))), feature_size(ALOHA), ALOHA.action_size)
    np.testing.assert_array_equal(again.features.low, guard.features.low)
    assert again.actions.tolerance == guard.actions.tolerance


@pytest.mark.parametrize("document", [{}, {"features": 3}, {"features": {"low": [0], "high": [1], "tolerance": 0}}])
def test_a_damaged_guard_is_refused(document):
    with pytest.raises(InputError, match="guard"):
        guard_from_json(document, feature_size(ALOHA), ALOHA.action_size)
