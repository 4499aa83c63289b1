"""The ALOHA simulator: it is gym-aloha's physics and success, it repeats exactly, and it refuses bad actions."""

import sys

import numpy as np
import pytest
from gym_aloha.env import AlohaEnv as StockEnv
from gym_aloha.tasks.sim import BimanualViperXTask

from speedup_patch.envs import ALOHA_ENVS, make_env, make_expert
from speedup_patch.envs.aloha import AlohaEnv
from speedup_patch.envs.seeds import FIRST_SEEDS
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env
from speedup_patch.robots import ALOHA

STOCK_NAMES = {"aloha/transfer": "transfer_cube", "aloha/insertion": "insertion"}


@pytest.fixture(scope="module", params=ALOHA_ENVS)
def env(request: pytest.FixtureRequest) -> AlohaEnv:
    made = make_env(request.param)
    assert isinstance(made, AlohaEnv)
    return made


@pytest.fixture
def stock(env: AlohaEnv, monkeypatch: pytest.MonkeyPatch) -> StockEnv:
    """The stock environment with its three renderings left out."""

    def observe(task: BimanualViperXTask, physics: object) -> dict[str, np.ndarray]:
        return {"qpos": task.get_qpos(physics), "env_state": task.get_env_state(physics)}

    monkeypatch.setattr(BimanualViperXTask, "get_observation", observe)
    monkeypatch.setattr(StockEnv, "_format_raw_obs", lambda self, raw: raw)
    return StockEnv(STOCK_NAMES[env.name])


def test_no_scene_is_drawn_for_two_purposes(env: AlohaEnv) -> None:
    seeds = [first + number for first in FIRST_SEEDS.values() for number in range(20)]
    scenes = {tuple(env.reset(seed)["environment_state"]) for seed in seeds}
    assert len(scenes) == len(seeds)


def wander(start: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Targets that drift away from ``start`` and leave the actuators' ranges now and then."""
    return start + np.cumsum(rng.normal(0.0, 0.05, (steps, ALOHA.action_size)), axis=0)


def test_is_an_env(env: AlohaEnv) -> None:
    observation = env.reset(0)
    assert isinstance(env, Env)
    assert observation["state"].shape == observation["previous_state"].shape == (env.robot.state_size,)
    assert observation["environment_state"].shape == ((7,) if env.task == "transfer" else (14,))


def test_equals_the_stock_environment_step_by_step(env: AlohaEnv, stock: StockEnv) -> None:
    for seed in (0, 7):
        ours, (theirs, _) = env.reset(seed), stock.reset(seed=seed)
        np.testing.assert_array_equal(ours["environment_state"], theirs["env_state"])
        for action in wander(ours["state"], 60, np.random.default_rng(seed)):
            (ours, solved), (theirs, reward, *_) = env.step(action), stock.step(action)
            np.testing.assert_array_equal(ours["state"], theirs["qpos"])
            np.testing.assert_array_equal(ours["environment_state"], theirs["env_state"])
            assert solved == (reward == 4)


def stock_rewards(env: AlohaEnv, stock: StockEnv, seed: int) -> list[int]:
    """The stock rewards of an expert's episode, each compared with our success."""
    rewards: list[int] = []
    observation, _ = env.reset(seed), stock.reset(seed=seed)
    expert = make_expert(env, np.random.default_rng(seed))
    while len(rewards) < env.max_steps and 4 not in rewards:
        action = expert.act(observation)
        (observation, solved), (_, reward, *_) = env.step(action), stock.step(action)
        assert solved == (reward == 4)
        rewards.append(reward)
    return rewards


def test_success_is_the_stock_reward_of_four(env: AlohaEnv, stock: StockEnv) -> None:
    rewards = next(rewards for seed in range(3, 8) if 4 in (rewards := stock_rewards(env, stock, seed)))
    assert len(set(rewards)) >= 3, "the whole ladder of rewards should have been compared"


def test_the_seed_names_the_start(env: AlohaEnv) -> None:
    first = env.reset(5)["environment_state"]
    assert not np.array_equal(first, env.reset(6)["environment_state"])
    other = make_env(env.name)
    other.reset(8)
    np.testing.assert_array_equal(first, env.reset(5)["environment_state"])
    np.testing.assert_array_equal(first, make_env(env.name).reset(5)["environment_state"])


def test_previous_state_is_the_state_one_step_earlier(env: AlohaEnv) -> None:
    before = env.reset(1)
    np.testing.assert_array_equal(before["state"], before["previous_state"])
    for action in wander(before["state"], 5, np.random.default_rng(0)):
        after, _ = env.step(action)
        np.testing.assert_array_equal(after["previous_state"], before["state"])
        before = after


def test_restore_repeats_bit_for_bit(env: AlohaEnv) -> None:
    actions = wander(env.reset(2)["state"], 80, np.random.default_rng(1))
    for action in actions[:30]:
        env.step(action)
    snapshot = env.save()
    first = [env.step(action) for action in actions[30:]]
    for simulator in (env, make_env(env.name)):
        simulator.reset(9)
        simulator.restore(snapshot)
        for action, (expected, expected_solved) in zip(actions[30:], first, strict=True):
            seen, solved = simulator.step(action)
            assert solved == expected_solved
            for key, value in expected.items():
                np.testing.assert_array_equal(seen[key], value)


def test_restore_returns_the_saved_observation(env: AlohaEnv) -> None:
    observation = env.reset(2)
    for action in wander(observation["state"], 5, np.random.default_rng(1)):
        observation, _ = env.step(action)
    snapshot = env.save()
    env.reset(3)
    restored = env.restore(snapshot)
    for key, value in observation.items():
        np.testing.assert_array_equal(restored[key], value)


def test_refuses_a_snapshot_of_another_task() -> None:
    snapshot = make_env("aloha/transfer").save()
    with pytest.raises(InputError, match="aloha/insertion"):
        make_env("aloha/insertion").restore(snapshot)


def test_observations_do_not_change_afterwards(env: AlohaEnv) -> None:
    observation = env.reset(0)
    kept = {key: value.copy() for key, value in observation.items()}
    observation["state"][0] = 99.0
    after, _ = env.step(kept["state"])
    np.testing.assert_array_equal(after["previous_state"], kept["state"])


@pytest.mark.parametrize("shape", [(13,), (15,), (0,)])
def test_refuses_actions_of_another_shape(env: AlohaEnv, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="14"):
        env.step(np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_non_finite_actions_by_name(env: AlohaEnv, value: float) -> None:
    action = env.reset(0)["state"]
    action[13] = value
    with pytest.raises(InputError, match="right_gripper"):
        env.step(action)


def test_unknown_environment_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"aloha/transfer.*aloha/insertion"):
        make_env("aloha/juggling")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "speedup_patch.envs.aloha")
    monkeypatch.setitem(sys.modules, "gym_aloha.constants", None)
    with pytest.raises(InputError, match=r"gym_aloha.*speedup-patch\[aloha\]"):
        make_env("aloha/transfer")
