"""The paper's scheduler and its greedy MPC at every tolerance that the paper considers, as schedulers to be run.

A suite has one patch for each world model and tolerance: SUITE_paper.patch and SUITE_paper_velocity.patch have the
preset's own tolerance, SUITE_paper_eps0.01.patch and so on another; for ALOHA it is SUITE_real.patch, after the preset
of the paper's two-armed robot. Greedy MPC asks a world model only, so one patch serves it at every tolerance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Row
from speedup_patch.robots import find_robot
from speedup_patch.runtime.patch_folder import read_description

Kind = Literal["mpc", "SuP"]

EPSILONS: Mapping[str, tuple[float, ...]] = {"libero": (0.01, 0.015, 0.02), "aloha": (0.02, 0.03, 0.04)}
"""The tolerances of the paper's hyperparameter table: LIBERO's, and those of its real two-armed robot."""

WORLD_MODELS: Mapping[str, tuple[str, ...]] = {"libero": ("paper", "paper_velocity"), "aloha": ("real",)}
"""The patches' variants: the preset as it is and, for LIBERO, with a world model that sees velocity and predicts the
change."""

GRIPPERS: Mapping[str, tuple[str, ...]] = {"libero": ("+double_gripper", ""), "aloha": ("",)}
"""What is added to the environment's name; the paper doubles LIBERO's gripper."""

RULES = ("base", "fixed:2")


@dataclass(frozen=True)
class PaperScheduler:
    """One of the paper's schedulers at one tolerance."""

    kind: Kind
    world_model: str
    """The variant of the patch, one of ``WORLD_MODELS``."""
    epsilon: float

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.kind}@{self.epsilon:g}, {self.world_model}"

    @property
    def row(self) -> Row:
        """What a table says of it."""
        return {"kind": self.kind, "world_model": self.world_model, "epsilon": self.epsilon}


def paper_schedulers(config: BenchConfig) -> list[PaperScheduler]:
    """All of them: greedy MPC and SuP, with every world model, at every tolerance."""
    return [
        PaperScheduler(kind, world_model, epsilon)
        for world_model in WORLD_MODELS[config.family]
        for kind in ("mpc", "SuP")
        for epsilon in EPSILONS[config.family]
    ]


def paper_specs(
    config: BenchConfig, suite: str, schedulers: Iterable[PaperScheduler], notes: list[str]
) -> dict[PaperScheduler, str]:
    """What ``evaluate`` is to run for each; one without its patch is noted and left out."""
    trained = {model: _patches(config, suite, model) for model in WORLD_MODELS[config.family]}
    specs: dict[PaperScheduler, str] = {}
    for scheduler in schedulers:
        patches = trained[scheduler.world_model]
        if scheduler.kind == "mpc" and patches:
            specs[scheduler] = f"with-epsilon={scheduler.epsilon:g}+mpc:{next(iter(patches.values()))}"
        elif scheduler.kind == "SuP" and scheduler.epsilon in patches:
            specs[scheduler] = str(patches[scheduler.epsilon])
        else:
            wanted = config.patch(suite, scheduler.world_model)
            notes.append(f"{scheduler.label} left out: no {wanted.stem}*.patch in {config.work} fits it")
    return specs


def _patches(config: BenchConfig, suite: str, variant: str) -> dict[float, Path]:
    """The patches of this variant by their tolerance; the one with the preset's own comes first."""
    robot = find_robot(config.robot_name)
    plain = config.patch(suite, variant)
    found = [plain, *sorted(config.work.glob(f"{plain.stem}_eps*.patch"))]
    return {read_description(path, robot).epsilon: path for path in found if path.is_dir()}
