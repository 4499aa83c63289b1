"""Windows show what happened in one episode and never look into the next."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from small_arm import SMALL_ARM, demonstrate
from speedup_patch.data import Demonstrations, sent_actions
from speedup_patch.errors import InputError
from speedup_patch.observations import commands_before, features, observe_episode
from speedup_patch.world_model.windows import Windows

CPU = torch.device("cpu")


def test_a_window_holds_the_commands_and_where_they_led() -> None:
    demonstrations = demonstrate(episodes=3, steps=20)
    windows = Windows(SMALL_ARM, demonstrations, horizon=6, device=CPU)
    assert len(windows) == 3 * 19
    everything = windows.gather(torch.arange(len(windows)))
    for index in range(len(windows)):
        episode, start = divmod(index, 19)
        source = demonstrations.episodes[episode]
        length = min(6, 19 - start)
        assert everything.valid[index].tolist() == [True] * length + [False] * (6 - length)
        np.testing.assert_allclose(everything.observations[index], observe_episode(SMALL_ARM, source)[start], atol=1e-6)
        np.testing.assert_allclose(
            everything.actions[index, :length], source.actions[start : start + length], atol=1e-6
        )
        np.testing.assert_allclose(
            everything.targets[index, :length],
            features(SMALL_ARM, source.states[start + 1 : start + 1 + length]),
            atol=1e-6,
        )


def test_a_window_remembers_the_commands_of_its_own_episode() -> None:
    demonstrations = demonstrate(episodes=3, steps=20, disturbance=0.05)
    windows = Windows(SMALL_ARM, demonstrations, horizon=6, device=CPU, memory=3)
    before = windows.gather(torch.arange(len(windows))).before.numpy().reshape(3, 19, 3, 3)
    for remembered, episode in zip(before, demonstrations, strict=True):
        sent = sent_actions(episode)
        np.testing.assert_allclose(remembered, commands_before(sent, np.arange(19), 3), atol=1e-6)
        np.testing.assert_allclose(remembered[5], sent[2:5], atol=1e-6)
        assert np.isnan(remembered[0]).all()
        assert np.isnan(remembered[2, 0]).all()
        np.testing.assert_allclose(remembered[2, 1:], sent[:2], atol=1e-6)


def test_what_was_sent_counts_not_what_is_called_the_action() -> None:
    episode = demonstrate(episodes=1, steps=20, disturbance=0.05).episodes[0]
    assert np.array_equal(sent_actions(episode), episode.extras["executed_action"])
    assert np.array_equal(sent_actions(replace(episode, extras={})), episode.actions)
    with pytest.raises(InputError, match="'executed_action' has 2 numbers a row, but actions have 3"):
        sent_actions(replace(episode, extras={"executed_action": episode.actions[:, :2]}))


def test_data_that_cannot_be_windowed_is_refused() -> None:
    demonstrations = demonstrate(episodes=1, steps=20)
    short = Demonstrations((demonstrate(episodes=1, steps=1).episodes[0],), 50.0)
    with pytest.raises(InputError, match="at least two control steps"):
        Windows(SMALL_ARM, short, horizon=6, device=CPU)
    other = replace(SMALL_ARM, state_names=("shoulder", "elbow", "gripper"))
    with pytest.raises(InputError, match="4 state"):
        Windows(other, demonstrations, horizon=6, device=CPU)
