"""Scripted LIBERO demonstrations: every expert solves its task at human pace, and collections cover a suite."""

from itertools import islice

import numpy as np
import pytest

pytest.importorskip("robosuite", reason="needs the LIBERO environment")

from speedup_patch.envs import make_env, make_expert
from speedup_patch.envs.collect import LONGEST_SHARE, collect_demonstrations
from speedup_patch.envs.expert import Expert
from speedup_patch.envs.libero import LiberoEnv
from speedup_patch.envs.libero_hand import Hand
from speedup_patch.envs.libero_scripts import SCRIPTS, shut_drawer
from speedup_patch.envs.seeds import DEMONSTRATIONS
from speedup_patch.errors import InputError

pytestmark = pytest.mark.libero


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_expert_solves_its_task_in_a_persons_time(name: str) -> None:
    env = make_env(name)
    observation = env.reset(0)
    expert = make_expert(env, np.random.default_rng(0))
    assert isinstance(expert, Expert)
    limit = int(LONGEST_SHARE * env.max_steps)
    for step in range(limit):
        action = expert.act(observation)
        assert (np.abs(action) <= 1.0).all()
        assert abs(action[6]) == 1.0, "the gripper's command is open or closed"
        assert (expert.tolerance() >= 0.0).all()
        assert (expert.shove() >= 0.0).all()
        observation, solved = env.step(action)
        if solved:
            assert step > 60, "faster than a person"
            env.close()
            return
    pytest.fail(f"not solved within {limit} steps")


def test_a_suites_demonstrations_take_turns_over_its_tasks() -> None:
    collected = collect_demonstrations("libero/object", 3, seed=0, processes=1, report=lambda done, total: None)
    assert [episode.task for episode in collected] == [
        "pick up the alphabet soup and place it in the basket",
        "pick up the cream cheese and place it in the basket",
        "pick up the salad dressing and place it in the basket",
    ]
    env = make_env("libero/object")
    for number, episode in enumerate(collected):
        start = env.reset(DEMONSTRATIONS + number)
        np.testing.assert_array_equal(episode.states[0], start["state"])
        np.testing.assert_array_equal(episode.extras["observation.environment_state"][0], start["environment_state"])
        strayed = np.abs(episode.extras["executed_action"] - episode.actions)
        assert strayed[:, :6].max() > 0.02
        assert not strayed[:, 6].any(), "the gripper's command is never disturbed"


def test_tasks_without_an_expert_are_refused_by_name() -> None:
    env = make_env("libero/long/9")
    observation = env.reset(0)
    with pytest.raises(InputError, match=r"libero/long/9.*microwave.*there is one for: spatial/0"):
        make_expert(env, np.random.default_rng(0)).act(observation)


def test_shuts_a_drawer_that_stands_open() -> None:
    env = make_env("libero/long/3")
    assert isinstance(env, LiberoEnv)
    env.reset(0)
    hand = Hand(env.simulator, np.random.default_rng(0))
    joint = "white_cabinet_1_bottom_level"
    assert hand.joint(joint) < -0.1
    for goal in islice(shut_drawer("white_cabinet_1", "bottom")(hand), 300):
        env.step(hand.command(goal))
    assert hand.joint(joint) > 0.0


def test_leaves_out_what_is_done_and_goes_on_with_what_is_in_the_hand() -> None:
    env = make_env("libero/long/4")
    assert isinstance(env, LiberoEnv)
    observation = env.reset(0)
    expert = make_expert(env, np.random.default_rng(0))
    while not env.simulator.achieved()[0] or env.simulator.pose("white_yellow_mug_1")[2] < 0.5:
        observation, solved = env.step(expert.act(observation))
        assert not solved
    another = make_expert(env, np.random.default_rng(1))
    for _ in range(120):
        action = another.act(observation)
        observation, solved = env.step(action)
        if solved:
            return
        assert action[6] > 0 or env.simulator.pose("white_yellow_mug_1")[2] < 0.47, "dropped what was in the hand"
    pytest.fail("the second mug was in the hand, but it was not put on its plate")
