"""One closed-loop episode."""

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Decision, EpisodeResult
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.evaluation.traces import Trace, pad_rows
from speedup_patch.interfaces import Env, Observation
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.runtime.accelerator import Shortened


def run_episode(env: Env, policy: ScheduledPolicy, seed: int) -> EpisodeResult:
    """Runs whole shortened chunks, asking the policy again after each, until success or the step limit."""
    return trace_episode(env, policy, seed)[0]


def trace_episode(env: Env, policy: ScheduledPolicy, seed: int) -> tuple[EpisodeResult, Trace]:
    """The same, with everything that was seen, decided and sent on the way."""
    if policy.robot != env.robot:
        raise InputError(f"the policy is for robot {policy.robot.name!r}, but {env.name} has {env.robot.name!r}")
    observation = env.reset(seed)
    policy.reset()
    recording = _Recording(observation)
    decisions: list[Decision] = []
    success = False
    while not success and len(recording.actions) < env.max_steps:
        steps = len(recording.actions)
        actions = policy.infer(observation)
        assert policy.last is not None
        _refuse_failure(policy.last, steps)
        recording.decide(policy.last)
        for action in actions[: env.max_steps - steps]:
            observation, success = env.step(action)
            recording.step(action, observation)
            if success:
                break
        sent = len(recording.actions) - steps
        done = policy.last.done_after(sent)
        decisions.append(Decision(steps, policy.last.original, sent, done, policy.last.reason))
    return EpisodeResult(seed, success, len(recording.actions), tuple(decisions)), recording.finish()


def _refuse_failure(shortened: Shortened, step: int) -> None:
    """A decision that failed is an error here: an evaluation of fallbacks is none of the scheduler."""
    if shortened.error is not None:
        raise DecisionError(
            f"the decision before step {step} failed, {type(shortened.error).__name__}: {shortened.error}"
        ) from shortened.error


class _Recording:
    """Gathers a trace while an episode runs."""

    def __init__(self, first: Observation) -> None:
        self.actions: list[Float[np.ndarray, " A"]] = []
        self._states = [first["state"]]
        self._environment = [first["environment_state"]] if "environment_state" in first else []
        self._steps: list[int] = []
        self._chunks: list[Float[np.ndarray, "n A"]] = []
        self._positions: list[Float[np.ndarray, " l"]] = []

    def decide(self, shortened: Shortened) -> None:
        self._steps.append(len(self.actions))
        self._chunks.append(shortened.chunk)
        self._positions.append(shortened.positions)

    def step(self, action: Float[np.ndarray, " A"], observation: Observation) -> None:
        self.actions.append(action)
        self._states.append(observation["state"])
        if self._environment:
            self._environment.append(observation["environment_state"])

    def finish(self) -> Trace:
        return Trace(
            states=np.stack(self._states).astype(np.float32),
            actions=np.stack(self.actions),
            decision_steps=np.array(self._steps),
            chunks=pad_rows(self._chunks),
            positions=pad_rows(self._positions),
            environment_state=np.stack(self._environment).astype(np.float32) if self._environment else None,
        )
