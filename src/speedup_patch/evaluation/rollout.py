"""One closed-loop episode."""

from collections.abc import Iterable
from itertools import repeat

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Decision, EpisodeResult, MachineState
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.evaluation.stress import measure_stress
from speedup_patch.evaluation.traces import Trace, pad_rows
from speedup_patch.interfaces import Env, Observation
from speedup_patch.maths.seconds import waiting_steps
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.runtime.accelerator import Shortened


def run_episode(env: Env, policy: ScheduledPolicy, seed: int, latency: float = 0.0) -> EpisodeResult:
    """Runs whole shortened chunks, asking the policy again after each, until success or the step limit.

    Every call of the policy, the first one too, takes ``latency`` seconds of the simulated world (nothing sleeps): for
    ceil(L / dt) control steps the robot holds still, and the answer belongs to what was seen when the policy was asked.
    """
    return _run(env, policy, seed, latency)[0]


def trace_episode(env: Env, policy: ScheduledPolicy, seed: int) -> tuple[EpisodeResult, Trace]:
    """The same without latency, with everything that was seen, decided and sent on the way."""
    result, recording = _run(env, policy, seed, 0.0)
    return result, recording.finish()


def _run(env: Env, policy: ScheduledPolicy, seed: int, latency: float) -> "tuple[EpisodeResult, _Recording]":
    if policy.robot != env.robot:
        raise InputError(f"the policy is for robot {policy.robot.name!r}, but {env.name} has {env.robot.name!r}")
    waits = waiting_steps(latency, 1.0 / env.robot.control_hz)
    world = _World(env, seed)
    policy.reset()
    decisions: list[Decision] = []
    stalled = 0
    while world.goes_on:
        step = world.steps
        actions = policy.infer(world.observation)
        assert policy.last is not None
        _refuse_failure(policy.last, step)
        world.recording.decide(policy.last)
        if waits:
            stalled += world.send(repeat(world.holding(), waits))
        sent = world.send(actions)
        decisions.append(Decision(step, policy.last.original, sent, policy.last.done_after(sent), policy.last.reason))
    result = EpisodeResult(
        seed,
        world.success,
        world.steps,
        tuple(decisions),
        task=env.task_name,
        latency=latency,
        stalled=stalled,
        stress=measure_stress(env.robot, world.moments),
    )
    return result, world.recording


class _World:
    """The environment during one episode, with everything that is noted on the way."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env = env
        self.observation = env.reset(seed)
        self.success = False
        self.recording = _Recording(self.observation)
        self.moments: list[MachineState] = []
        self._note_machine()

    @property
    def steps(self) -> int:
        return len(self.recording.actions)

    @property
    def goes_on(self) -> bool:
        return not self.success and self.steps < self.env.max_steps

    def send(self, actions: Iterable[Float[np.ndarray, " A"]]) -> int:
        """Sends actions until the task is solved or the time is over; returns how many were sent."""
        before = self.steps
        for action in actions:
            if not self.goes_on:
                break
            self.observation, self.success = self.env.step(action)
            self.recording.step(action, self.observation)
            self._note_machine()
        return self.steps - before

    def holding(self) -> Float[np.ndarray, " A"]:
        """What keeps the robot where it has been sent."""
        sent = self.recording.actions
        return self.env.robot.hold(sent[-1]) if sent else self.env.hold_action()

    def _note_machine(self) -> None:
        if (moment := self.env.machine()) is not None:
            self.moments.append(moment)


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
