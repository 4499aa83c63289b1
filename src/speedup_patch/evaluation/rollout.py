"""One closed-loop episode."""

from speedup_patch.data import Decision, EpisodeResult
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env
from speedup_patch.patch import ScheduledPolicy


def run_episode(env: Env, policy: ScheduledPolicy, seed: int) -> EpisodeResult:
    """Runs whole shortened chunks, asking the policy again after each, until success or the step limit."""
    if policy.robot != env.robot:
        raise InputError(f"the policy is for robot {policy.robot.name!r}, but {env.name} has {env.robot.name!r}")
    observation = env.reset(seed)
    policy.reset()
    decisions: list[Decision] = []
    steps = 0
    while steps < env.max_steps:
        actions = policy.infer(observation)
        assert policy.last is not None
        decisions.append(Decision(steps, policy.last.original, len(actions), policy.last.reason))
        for action in actions[: env.max_steps - steps]:
            observation, success = env.step(action)
            steps += 1
            if success:
                return EpisodeResult(seed, True, steps, tuple(decisions))
    return EpisodeResult(seed, False, steps, tuple(decisions))
