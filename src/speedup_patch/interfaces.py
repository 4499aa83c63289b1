"""The protocols the core asks for: what a policy, a scheduler, a world model and an environment must do."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.data import MachineState
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.warp import Warp

Observation = Mapping[str, np.ndarray]
"""What a policy sees, unbatched. ``state`` (S,) is always there. ``previous_state`` (S,), the state one control
step earlier, tells the velocity; at the first step it equals ``state``. Policies may ask for more keys, such as
``environment_state``."""


@runtime_checkable
class ChunkPolicy(Protocol):
    """A policy that answers an observation with a chunk of un-normalised actions."""

    def infer(self, observation: Observation) -> Float[np.ndarray, "n A"]:
        """The next n actions, first one first."""
        ...

    def reset(self) -> None:
        """Forgets the past: a new episode begins."""
        ...


@runtime_checkable
class Scheduler(Protocol):
    """Decides how fast a chunk runs."""

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The warp to run this chunk along; ``observation`` is the network input o_t (see observations.py), ``before``
        what the world model wants to know of the commands sent so far (see ``WorldModel``). A scheduler that does not
        need ``before`` may do without it: it is passed to those that take it."""
        ...

    def reset(self) -> None:
        """Forgets the past: a new episode begins."""
        ...


@runtime_checkable
class RateChooser(Protocol):
    """Picks one rate per chunk, many at a time and without memory: the paper's kind of scheduler."""

    def choose(
        self,
        observations: Float[np.ndarray, "B O"],
        chunks: Float[np.ndarray, "B n A"],
    ) -> Float[np.ndarray, " B"]:
        """A rate k >= 1 for every chunk."""
        ...


@runtime_checkable
class WorldModel(Protocol):
    """Predicts what the robot's own body does when actions are sent."""

    @property
    def robot(self) -> Robot: ...

    @property
    def memory(self) -> int:
        """M, how many of the commands sent last it takes into account."""
        ...

    def rollout(
        self,
        observations: Float[np.ndarray, "B O"],
        actions: Float[np.ndarray, "B L A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised. ``before`` are the last M
        commands sent, oldest first, NaN where there was none; None where nothing is known of them."""
        ...

    def save(self, directory: Path) -> None:
        """Writes the model into a patch folder."""
        ...


@runtime_checkable
class Env(Protocol):
    """A simulator in closed loop, one task."""

    name: str
    robot: Robot
    max_steps: int

    @property
    def task_name(self) -> str:
        """The task of the episode that runs; ``name`` where every seed has the same one."""
        ...

    def reset(self, seed: int) -> Observation:
        """Starts the episode that this seed names; the same seed gives the same start."""
        ...

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[Observation, bool]:
        """Sends one action and returns what is seen one control step later, and whether the task is solved."""
        ...

    def hold_action(self) -> Float[np.ndarray, " A"]:
        """What to send so that the robot stays where ``reset`` has put it; asked for before the first command."""
        ...

    def machine(self) -> MachineState | None:
        """Joints and forces after the last control step, read without changing anything; None where it cannot tell."""
        ...

    def save(self) -> object:
        """Everything needed to come back to this moment exactly."""
        ...

    def restore(self, snapshot: object) -> Observation:
        """Comes back to a saved moment; what follows repeats bit for bit."""
        ...

    def close(self) -> None: ...


def takes(method: Callable[..., object], *arguments: str) -> bool:
    """Whether a method can be called with these arguments, in this order."""
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # compiled code need not say
        return True
    return True


def require_method(thing: object, name: str, *arguments: str, optional: tuple[str, ...] = ()) -> None:
    """Raises an error that names what is expected when ``thing`` has no method ``name`` that takes these arguments, in
    this order, with the optional ones or without."""
    expected, kind = f"{name}({', '.join([*arguments, *optional])})", type(thing).__name__
    if isinstance(thing, type):
        raise InputError(f"an object with {expected} is expected here, not the class {thing.__name__} itself")
    method = getattr(thing, name, None)
    if not callable(method):
        raise InputError(f"an object with {expected} is expected here; {kind} has no {name}")
    if not takes(method, *arguments) and not takes(method, *arguments, *optional):
        hint = f"; {', '.join(optional)} may be left out" if optional else ""
        raise InputError(f"{kind}.{name}{inspect.signature(method)} must take {expected}{hint}")


Schedule = Callable[
    [Float[np.ndarray, " O"], Float[np.ndarray, "n A"], Float[np.ndarray, "M A"] | None],
    Warp,
]
"""``Scheduler.schedule`` with all its arguments."""


def find_schedule(scheduler: Scheduler) -> Schedule:
    """What to call to have a chunk scheduled. Something that is no scheduler is refused by name; to one whose method
    does not take the commands sent before, they are not passed."""
    require_method(scheduler, "schedule", "observation", "chunk", optional=("before",))
    require_method(scheduler, "reset")
    if takes(scheduler.schedule, "observation", "chunk", "before"):
        return scheduler.schedule
    return lambda observation, chunk, before: scheduler.schedule(observation, chunk)


def require_world_model(thing: object) -> None:
    """Raises an error unless this is a ``WorldModel``, as far as a running robot needs one."""
    require_method(thing, "rollout", "observations", "actions", "before")
    for name in ("robot", "memory"):
        if not hasattr(thing, name):
            raise InputError(f"a world model needs {name!r}, which {type(thing).__name__} does not have")
