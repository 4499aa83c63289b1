"""Demonstrations of strangers as people give them: what is recorded is what was sent, and nothing is disturbed."""

import numpy as np

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.envs.strangers.env import StrangerEnv
from speedup_patch.envs.strangers.teleoperation import Teleoperator
from speedup_patch.reporting import Report, silent

LINGER_SECONDS = 0.4
"""Recorded after success, so that a policy learns to finish calmly."""
LONGEST_SHARE = 0.8
"""A demonstration may take this share of the time limit; slower ones are dropped."""


def demonstrate(env: StrangerEnv, seed: int) -> Episode | None:
    """The demonstration that starts where ``seed`` says; None where it fails."""
    observation = env.reset(seed)
    person = Teleoperator(env, np.random.default_rng([env.stranger.number, seed, 1]))
    states, actions, scenes = [], [], []
    end = limit = int(LONGEST_SHARE * env.max_steps)
    while len(states) < end:
        action = person.act(observation)
        states.append(observation["state"])
        actions.append(action)
        scenes.append(observation["environment_state"])
        observation, done = env.step(action)
        if done and end == limit:
            end = min(limit, len(states) + round(LINGER_SECONDS * env.robot.control_hz))
    if end == limit:
        return None
    return Episode(
        states=np.array(states),
        actions=np.array(actions),
        timestamps=np.arange(end) / env.robot.control_hz,
        task=env.instruction,
        extras={"observation.environment_state": np.array(scenes)},
    )


def collect(env: StrangerEnv, episodes: int, first_seed: int, report: Report = silent) -> Demonstrations:
    """``episodes`` demonstrations from this seed on; the few that fail are left out, as a person would do."""
    kept: list[Episode] = []
    for seed in range(first_seed, first_seed + 2 * episodes + 10):
        episode = demonstrate(env, seed)
        if episode is not None:
            kept.append(episode)
            report("demonstrations", len(kept), episodes, {})
        if len(kept) == episodes:
            return Demonstrations(tuple(kept), env.robot.control_hz, env.robot.name)
    raise RuntimeError(f"{env.name}: only {len(kept)} of {2 * episodes + 10} demonstrations succeeded")
