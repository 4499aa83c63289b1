"""The paper in ten lines: demonstrations -> world model -> counterfactuals -> scheduler -> patch."""

import platform
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from speedup_patch import __version__
from speedup_patch.baselines import demonstrated_speed
from speedup_patch.candidates import Choices, Retimings, bind
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.guard import fit_guard
from speedup_patch.limits import read_limits
from speedup_patch.maths.cmdp import satisfies_bound
from speedup_patch.relabel import Measure, NoSafeRate, relabel
from speedup_patch.reporting import Report, silent, together
from speedup_patch.robots import Robot
from speedup_patch.runtime.patch_folder import PatchDescription
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.scheduler.training import train_scheduler
from speedup_patch.starts import refuse_short_episodes
from speedup_patch.trained_patch import TrainedPatch
from speedup_patch.training import one_thread
from speedup_patch.training_log import open_log
from speedup_patch.tuning import Tuning
from speedup_patch.world_model.config import WorldModelConfig
from speedup_patch.world_model.servo import ServoWorldModel
from speedup_patch.world_model.training import train_world_model


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what patch comes out, apart from the demonstrations and the robot."""

    chunk_length: int = 24
    choices: Choices = field(default_factory=Retimings)
    """What the scheduler chooses from: retimings inside the chunk, or constant rates as in the paper."""
    epsilon: float | None = None
    """Largest deviation that still counts as the same motion (half metres + half angle in radians); None takes what the
    robot was seen to move in 0.15 seconds (see ``Limits.tolerance``)."""
    measure: Measure = "in_step"
    """What counts as deviation."""
    held_out: float = 0.1
    """Share of episodes kept for validation."""
    no_safe_rate: NoSafeRate = "original"
    """What runs when every rate violates."""
    accelerated_starts: bool = True
    """Also relabel states as they would be reached at speed (see relabel.py)."""
    states: int = 8000
    """About how many demonstrated states are relabelled, spread evenly; each may add one reached at speed."""
    seed: int = 0
    world_model: WorldModelConfig = field(default_factory=WorldModelConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    tuning: Tuning = field(default_factory=Tuning)
    """What was chosen by hand for labels and for the running patch."""

    def __post_init__(self) -> None:
        if self.chunk_length < 2:
            raise InputError(f"a chunk needs at least two actions, not {self.chunk_length}")
        if self.epsilon is not None and not self.epsilon > 0:
            raise InputError(f"epsilon must be positive, not {self.epsilon}")
        if not 0 < self.held_out < 1:
            raise InputError(f"the held-out share must lie between 0 and 1, not {self.held_out}")
        if self.states < 1:
            raise InputError(f"at least one state must be relabelled, not {self.states}")
        self.choices.check_fits(self.chunk_length)

    @property
    def penalty(self) -> float:
        """Omega."""
        return self.scheduler.resolved_penalty(self.choices.fastest)

    @property
    def penalty_is_safe(self) -> bool:
        """Whether Omega meets the bound under which the optimal scheduler never violates."""
        return satisfies_bound(self.penalty, self.scheduler.gamma, self.choices.fastest)


@one_thread()
def train_patch(
    demonstrations: Demonstrations,
    robot: Robot,
    config: TrainingConfig,
    *,
    device: torch.device,
    workspace: Path | None = None,
    resume: bool = False,
    report: Report = silent,
) -> TrainedPatch:
    """A patch from demonstrations alone; checkpoints go to ``workspace``, from which a killed run resumes."""
    robot.check_sizes(demonstrations.state_size, demonstrations.action_size, "the data set")
    refuse_short_episodes(demonstrations, config.chunk_length)
    log = open_log(workspace, resume)
    report = together(log, report)
    rng = np.random.default_rng(config.seed)
    held_out_episodes = demonstrations.draw_held_out(config.held_out, rng)
    training, held_out = demonstrations.split_at(held_out_episodes)
    world_model, model_figures = train_world_model(
        training,
        held_out,
        robot,
        config.world_model,
        device=device,
        chunk_length=config.chunk_length,
        checkpoint=workspace and workspace / "world_model.safetensors",
        resume=resume,
        report=report,
    )
    limits = read_limits(robot, training, config.tuning)
    if not isinstance(world_model, ServoWorldModel):  # nothing says then which targets keep joints on their path
        limits = replace(limits, pulls=())
    epsilon = config.epsilon or limits.tolerance(robot.control_hz)
    candidates = bind(config.choices, robot, limits)
    label = partial(
        relabel,
        world_model,
        candidates=candidates,
        limits=limits,
        chunk_length=config.chunk_length,
        epsilon=epsilon,
        measure=config.measure,
        penalty=config.penalty,
        accelerated_starts=config.accelerated_starts,
        rng=rng,
    )
    report("counterfactuals", 0, 2, {})
    transitions = label(training, states=config.states)
    report("counterfactuals", 1, 2, {})
    judged = label(held_out, states=max(config.states // 4, 1))
    report("counterfactuals", 2, 2, {})
    scheduler, choice_figures = train_scheduler(
        transitions,
        judged,
        robot,
        candidates.choices,
        config.scheduler,
        device=device,
        checkpoint=workspace and workspace / "scheduler.safetensors",
        resume=resume,
        report=report,
    )
    figures = {"world_model": model_figures, "scheduler": choice_figures}
    description = PatchDescription(
        robot=robot,
        chunk_length=config.chunk_length,
        epsilon=epsilon,
        speed_limit=demonstrated_speed(robot, training),
        measure=config.measure,
        limits=limits,
        no_safe_rate=config.no_safe_rate,
        guard=fit_guard(robot, demonstrations, config.chunk_length, config.choices.fastest, rng),
        provenance={
            "config": asdict(config),
            "penalty": config.penalty,
            "penalty_meets_bound": config.penalty_is_safe,
            "data": {
                "fingerprint": demonstrations.fingerprint(),
                "episodes": len(demonstrations),
                "frames": demonstrations.frames,
                "held_out_episodes": list(held_out_episodes),
            },
            "versions": {
                "speedup_patch": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "held_out": figures,
        },
    )
    return TrainedPatch(description, world_model, scheduler, log.document(figures))
