"""Scripted demonstrations with injected disturbance, as in DART: the clean action is recorded, a disturbed one sent.

Corrections, as in DAgger, are demonstrations that begin where a policy has got to.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.envs import instruction, make_env, make_expert
from speedup_patch.envs.expert import Expert
from speedup_patch.envs.hand_motion import Shoves, SmoothNoise
from speedup_patch.envs.seeds import collection_seeds
from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy, Env, Observation
from speedup_patch.policies import load_policy
from speedup_patch.workers import worker_pool

DISTURBANCE_MEMORIES = (12.0, 50.0)
"""Control steps over which the two halves of the disturbance forget: pushes, and offsets that last for a while."""

SHOVE_GAP, SHOVE_STEPS = 40.0, (5, 10)
"""Control steps from one shove to the next, on average, and the fewest and most that one lasts."""

LONGEST_SHARE = 2 / 3
"""A demonstration may take this share of the environment's time limit; slower ones are dropped."""

TRIES_PER_CORRECTION = 50
"""Most tries need none: the policy is done before its time is up."""

LINGER_STEPS = 12
"""Control steps recorded after success, so that a policy learns to finish calmly."""


def collect_episode(
    env: Env,
    expert: Expert,
    rng: np.random.Generator,
    seed: int,
    policy: ChunkPolicy | None = None,
) -> Episode | None:
    """One successful demonstration from the start that ``seed`` names, or None where the expert fails within
    ``LONGEST_SHARE`` of the time limit.

    Where there is a policy, it acts first, for a random while; None, too, where it needs no help.
    """
    observation: Observation | None = env.reset(seed)
    if policy is not None:
        steps = np.random.default_rng([seed, 2]).integers(env.max_steps // 2)
        observation = follow(env, policy, observation, int(steps))
        if observation is None:
            return None
    noises = [SmoothNoise(env.robot.action_size, memory, rng) for memory in DISTURBANCE_MEMORIES]
    shoves = Shoves(env.robot.action_size, SHOVE_GAP, SHOVE_STEPS, np.random.default_rng([seed, 1]))
    strength = rng.uniform(0.3, 1.3) / np.sqrt(len(noises))
    states, actions, executed, scenes = [], [], [], []
    end = limit = int(LONGEST_SHARE * env.max_steps)
    while len(states) < end:
        action = expert.act(observation)
        wander = strength * expert.tolerance() * sum(noise.sample() for noise in noises)
        disturbed = action + wander + expert.shove() * shoves.sample()
        states.append(observation["state"])
        actions.append(action)
        executed.append(disturbed)
        scenes.append(observation["environment_state"])
        observation, solved = env.step(disturbed)
        if solved and end == limit:
            end = min(len(states) + LINGER_STEPS, limit)
    if end == limit:
        return None
    return Episode(
        states=np.array(states),
        actions=np.array(actions),
        timestamps=np.arange(end) / env.robot.control_hz,
        task=instruction(env),
        extras={"observation.environment_state": np.array(scenes), "executed_action": np.array(executed)},
    )


def follow(env: Env, policy: ChunkPolicy, observation: Observation, steps: int) -> Observation | None:
    """What is seen once a policy has acted for so many steps; None where it has solved the task by then."""
    policy.reset()
    while steps > 0:
        for action in policy.infer(observation)[:steps]:
            observation, solved = env.step(np.clip(action, env.robot.action_low, env.robot.action_high))
            steps -= 1
            if solved:
                return None
    return observation


def collect_demonstrations(
    env_name: str,
    episodes: int,
    seed: int,
    processes: int,
    report: Callable[[int, int], None],
    policy: str | None = None,
) -> Demonstrations:
    """``episodes`` successful demonstrations, the same ones for any number of processes; with ``policy`` (such as
    onnx:FILE), corrections of it. ``report`` is told how many of how many are done.
    """
    if episodes < 1 or processes < 1:
        raise InputError(f"collecting needs episodes >= 1 and processes >= 1, not {episodes} and {processes}")
    robot = make_env(env_name).robot
    tries = (3 if policy is None else TRIES_PER_CORRECTION) * episodes + 10
    seeds = collection_seeds(seed)[:tries]
    kept: list[Episode] = []
    for episode in _attempts(partial(_attempt, env_name, policy), seeds, processes):
        if episode is not None:
            kept.append(episode)
            report(len(kept), episodes)
        if len(kept) == episodes:
            return Demonstrations(tuple(kept), robot.control_hz, robot.name)
    raise RuntimeError(
        f"{env_name}: only {len(kept)} of {len(seeds)} tries gave a demonstration; {episodes} were asked"
    )


def _attempts(attempt: Callable[[int], Episode | None], seeds: range, processes: int) -> Iterator[Episode | None]:
    """What comes of every seed, in order."""
    if processes == 1:
        yield from map(attempt, seeds)
        return
    block = 4 * processes
    with worker_pool(processes) as pool:
        for start in range(0, len(seeds), block):
            yield from pool.map(attempt, seeds[start : start + block])


def _attempt(env_name: str, policy: str | None, seed: int) -> Episode | None:
    env, rng = _cached_env(env_name), np.random.default_rng(seed)
    return collect_episode(env, make_expert(env, rng), rng, seed, None if policy is None else _cached_policy(policy))


@cache
def _cached_env(env_name: str) -> Env:
    return make_env(env_name)


@cache
def _cached_policy(policy: str) -> ChunkPolicy:
    return load_policy(policy)
