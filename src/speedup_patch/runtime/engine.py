"""What decides how fast a chunk runs; shared by every client, while an accelerator belongs to one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from speedup_patch.acceleration import PLAIN, Merging
from speedup_patch.baselines import GreedyMpc
from speedup_patch.candidates import Rates, Retimings
from speedup_patch.errors import InputError
from speedup_patch.guard import Guard
from speedup_patch.interfaces import Scheduler, WorldModel, require_world_model
from speedup_patch.keeping_up import KeepingUp, find_keeping_up
from speedup_patch.relabel import find_violations, predict_counterfactuals
from speedup_patch.robots import Robot
from speedup_patch.runtime.caution import Caution
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch
from speedup_patch.scheduler.chooser import LearnedScheduler


@dataclass(frozen=True, eq=False)
class Engine:
    """A robot, how its chunks are scheduled, and what watches over that."""

    robot: Robot
    new_scheduler: Callable[[], Scheduler]
    """Schedulers may remember the episode, so that every accelerator has its own."""
    chunk_length: int | None = None
    """The only length of chunk that is taken; None takes any."""
    merging: Merging = PLAIN
    guard: Guard | None = None
    world_model: WorldModel | None = None
    """Predicts the velocity at the end of a chunk, for callers that do not report it."""
    keep_up: KeepingUp | None = None
    """Keeps joints that are servos on their path at speed."""
    caution: Caution | None = None
    """Watches arms that are told motions; needs the world model."""
    refuses: "EveryOptionViolates | None" = None
    """A last look at a chunk: the reason to run it unchanged, or None."""

    def __post_init__(self) -> None:
        if not callable(self.new_scheduler):
            kind = type(self.new_scheduler).__name__
            raise InputError(
                f"new_scheduler must be a function that makes a scheduler, such as lambda: it, not a {kind}"
            )
        if self.world_model is not None:
            require_world_model(self.world_model)

    @property
    def memory(self) -> int:
        """How many of the commands sent last have to be remembered."""
        return 0 if self.world_model is None else self.world_model.memory


def patch_engine(patch: LoadedPatch, *, second_opinion: bool = True) -> Engine:
    """The engine that runs a trained patch.

    Where arms are told motions, a patch that retimes is cautious and, unless told otherwise, asks its world model about
    chunks that its critic would leave as they are.
    """
    # Rate 1 is the original chunk and never violates: only choices without it can leave no safe one.
    choices, caution = patch.choices, Caution(patch.robot, patch.limits)
    options = patch.candidates
    retimes_motions = isinstance(choices, Retimings) and bool(caution.watched)
    greedy = GreedyMpc(patch.world_model, options, patch.epsilon, patch.measure, patch.limits)
    second = greedy if retimes_motions and second_opinion else None
    may_have_none = patch.no_safe_rate == "original" and isinstance(choices, Rates) and choices.values[0] > 1
    return Engine(
        robot=patch.robot,
        new_scheduler=lambda: LearnedScheduler(patch.chooser, options, patch.world_model, second),
        chunk_length=patch.chunk_length,
        merging=choices.merging,
        guard=patch.guard,
        world_model=patch.world_model,
        keep_up=find_keeping_up(patch.world_model, patch.limits, choices),
        caution=caution if retimes_motions else None,
        refuses=EveryOptionViolates(patch) if may_have_none else None,
    )


def load_engine(path: Path, robot: Robot | None = None) -> Engine:
    """The engine of a patch folder; with ``robot``, a patch that was made for another one is refused."""
    return patch_engine(load_patch(path, robot))


@dataclass(frozen=True)
class EveryOptionViolates:
    """Refuses a chunk when the world model says that none of the options keeps within the tolerance."""

    patch: LoadedPatch

    def __call__(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"],
    ) -> str | None:
        patch = self.patch
        predicted = predict_counterfactuals(
            patch.world_model,
            observation[None],
            chunk[None],
            patch.candidates,
            patch.measure,
            patch.limits,
            before[None],
        )
        return "every rate violates" if find_violations(predicted.deviations, patch.epsilon).all() else None
