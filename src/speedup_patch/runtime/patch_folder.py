"""The patch folder: its description, and how it is read for running, without torch."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from speedup_patch.array_files import load_arrays, save_arrays
from speedup_patch.artefacts import read_json, write_json
from speedup_patch.candidates import Candidates, Choices, bind
from speedup_patch.errors import InputError
from speedup_patch.guard import Guard, guard_from_arrays, guard_to_arrays
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import Limits, limits_from_json
from speedup_patch.relabel import Measure, NoSafeRate
from speedup_patch.robots import Robot
from speedup_patch.robots.files import robot_from_json
from speedup_patch.runtime.models import load_chooser, load_world_model
from speedup_patch.scheduler.chooser import LearnedChooser

FORMAT_VERSION = 4
DESCRIPTION, GUARD = "patch.json", "guard.safetensors"


@dataclass(frozen=True, eq=False)
class PatchDescription:
    """What a patch folder says of itself."""

    robot: Robot
    chunk_length: int
    epsilon: float
    measure: Measure
    """The largest deviation that counts as the same motion, and how it is measured."""
    speed_limit: float
    """The demonstrated end-effector speed, metres per control step."""
    limits: Limits
    """What the demonstrations show the robot to do, per control step."""
    no_safe_rate: NoSafeRate
    """What runs when every rate violates."""
    guard: Guard
    provenance: dict[str, Any]
    """Configuration, data fingerprint, versions and held-out figures: how this patch came to be."""

    def write(self, folder: Path) -> None:
        """Writes patch.json and the guard's file."""
        document = {
            "format_version": FORMAT_VERSION,
            "robot": asdict(self.robot),
            "chunk_length": self.chunk_length,
            "epsilon": self.epsilon,
            "measure": self.measure,
            "speed_limit": self.speed_limit,
            "limits": asdict(self.limits),
            "no_safe_rate": self.no_safe_rate,
            "provenance": self.provenance,
        }
        write_json(folder / DESCRIPTION, document)
        save_arrays(folder / GUARD, guard_to_arrays(self.guard))


@dataclass(frozen=True, eq=False)
class LoadedPatch(PatchDescription):
    """A patch ready to run."""

    chooser: LearnedChooser
    choices: Choices
    """What it chooses from."""
    world_model: WorldModel

    @cached_property
    def candidates(self) -> Candidates:
        """The choices, bound to this robot and its limits."""
        return bind(self.choices, self.robot, self.limits)


def read_description(path: Path, robot: Robot | None = None) -> PatchDescription:
    """Reads patch.json and the guard; with ``robot``, refuses a patch that was made for another one."""
    if not (path / DESCRIPTION).is_file():
        raise InputError(f"{path} is not a patch folder: it has no {DESCRIPTION} (make one with `sup train`)")
    document = read_json(path / DESCRIPTION)
    if document.get("format_version") != FORMAT_VERSION:
        found = document.get("format_version")
        raise InputError(f"{path} has format version {found}, this release reads {FORMAT_VERSION}: train it again")
    try:
        own = robot_from_json(document["robot"])
        chunk_length, epsilon = int(document["chunk_length"]), float(document["epsilon"])
        speed_limit, no_safe_rate, measure = (document[key] for key in ("speed_limit", "no_safe_rate", "measure"))
        provenance, limits = dict(document["provenance"]), limits_from_json(document["limits"], own)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path / DESCRIPTION} is damaged: {error}") from error
    if robot is not None and robot != own:
        raise InputError(f"patch {path} was made for robot {own.name!r}, not for {robot.name!r}; train one for it")
    for key, value, allowed in (("no_safe_rate", no_safe_rate, NoSafeRate), ("measure", measure, Measure)):
        if value not in get_args(allowed):
            raise InputError(f"{path / DESCRIPTION}: {key} must be one of {get_args(allowed)}, not {value!r}")
    guard = guard_from_arrays(load_arrays(path / GUARD), own, str(path / GUARD))
    return PatchDescription(
        own, chunk_length, epsilon, measure, float(speed_limit), limits, no_safe_rate, guard, provenance
    )


def load_patch(path: Path, robot: Robot | None = None) -> LoadedPatch:
    """Reads a patch folder for running; with ``robot``, refuses a patch that was made for another one."""
    description = read_description(path, robot)
    own = description.robot
    chooser, choices = load_chooser(path, own)
    known = vars(description)
    return LoadedPatch(**known, chooser=chooser, choices=choices, world_model=load_world_model(path, own))
