"""The patch around a policy: a chunk policy around a chunk policy."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.interfaces import Observation
from speedup_patch.robots import Robot
from speedup_patch.runtime.accelerator import ChunkAccelerator, Shortened
from speedup_patch.runtime.decision_log import DecisionLog
from speedup_patch.runtime.engine import Engine, load_engine


@runtime_checkable
class Infers(Protocol):
    """A policy in the manner of openpi's."""

    def infer(self, observation: Any) -> Any:
        """The next actions."""
        ...


Policy = Infers | Callable[[Any], Any]
"""An object with ``infer(observation)``, or a function; the answer is a chunk (n, A), or a dictionary that holds one
under ``actions``, as openpi's policies give it."""


class ScheduledPolicy:
    """A ChunkPolicy: asks a policy for a chunk and an engine how fast to run it."""

    def __init__(
        self,
        policy: Policy,
        engine: Engine,
        *,
        max_rate: float | None = None,
        deadline: float | None = None,
        log: DecisionLog | None = None,
        state_key: str = "state",
    ) -> None:
        self.policy = policy
        self.accelerator = ChunkAccelerator(engine, max_rate=max_rate, deadline=deadline, log=log)
        self.state_key = state_key
        self.last: Shortened | None = None

    @property
    def robot(self) -> Robot:
        """The robot whose chunks are shortened."""
        return self.accelerator.engine.robot

    @property
    def fallbacks(self) -> Counter[str]:
        """How often the original chunk ran unchanged, by reason."""
        return self.accelerator.fallbacks

    @property
    def max_rate(self) -> float | None:
        """The fastest that is allowed now; may be set at any time."""
        return self.accelerator.max_rate

    @max_rate.setter
    def max_rate(self, rate: float | None) -> None:
        self.accelerator.max_rate = rate

    def infer(self, observation: Observation) -> Any:
        """The policy's answer with its chunk shortened; run all of it, then ask again."""
        answer = self.policy.infer(observation) if isinstance(self.policy, Infers) else self.policy(observation)
        if self.state_key not in observation:
            raise InputError(f"the observation has no {self.state_key!r}; it has {sorted(observation)}")
        if isinstance(answer, Mapping) and "actions" not in answer:
            raise InputError(f"the policy answered with {sorted(map(str, answer))}; 'actions' is missing")
        chunk = answer["actions"] if isinstance(answer, Mapping) else answer
        previous = observation.get("previous_state")
        self.last = self.accelerator.shorten(np.asarray(chunk), observation[self.state_key], previous)
        return {**answer, "actions": self.last.actions} if isinstance(answer, Mapping) else self.last.actions

    __call__ = infer

    def reset(self) -> None:
        """A new episode begins."""
        if hasattr(self.policy, "reset"):
            self.policy.reset()  # pyright: ignore
        self.accelerator.reset()
        self.last = None


class SpeedupPatch(ScheduledPolicy):
    """A policy made faster by a trained patch, given as its folder or as an engine already loaded.

    ``policy`` is anything with ``infer(observation)``, or a plain function. ``observation[state_key]`` is the robot's
    state; ``previous_state``, one control step earlier, tells its velocity where the caller knows it.
    """

    def __init__(
        self,
        policy: Policy,
        patch: Engine | Path | str,
        *,
        max_rate: float | None = None,
        deadline: float | None = None,
        log: DecisionLog | None = None,
        state_key: str = "state",
    ) -> None:
        engine = patch if isinstance(patch, Engine) else load_engine(Path(patch))
        super().__init__(policy, engine, max_rate=max_rate, deadline=deadline, log=log, state_key=state_key)


class ActionQueue:
    """One action at a time from a policy that answers with chunks, for control loops that run at a fixed frequency.

    Called at every control step, it sees every state, and so tells the patch the robot's true velocity.
    """

    def __init__(self, policy: ScheduledPolicy) -> None:
        self.policy = policy
        self._actions: list[Float[np.ndarray, " A"]] = []
        self._previous: Float[np.ndarray, " S"] | None = None

    def next(self, observation: Observation) -> Float[np.ndarray, " A"]:
        """The action to send now; the policy is asked only when the last chunk is used up."""
        state = observation.get(self.policy.state_key)
        before, self._previous = self._previous, None if state is None else np.array(state)  # drivers reuse buffers
        if not self._actions:
            previous = state if before is None else before
            known = {} if previous is None else {"previous_state": previous}
            answer = self.policy.infer({**known, **observation})
            self._actions = list(answer["actions"] if isinstance(answer, Mapping) else answer)
        return self._actions.pop(0)

    def __len__(self) -> int:
        """Actions left of the last chunk."""
        return len(self._actions)

    def reset(self) -> None:
        """A new episode begins."""
        self.policy.reset()
        self._actions, self._previous = [], None
