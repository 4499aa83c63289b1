"""The world models of a suite: whatever its patches were trained with."""

from dataclasses import dataclass
from pathlib import Path

from speedup_patch.artefacts import read_json
from speedup_patch.bench.config import BenchConfig
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import Limits
from speedup_patch.robots import Robot, find_robot
from speedup_patch.runtime.patch_folder import load_patch


@dataclass(frozen=True)
class NamedModel:
    """A world model and what it is called in our tables."""

    name: str
    """``default`` for SUITE.patch, else what stands after SUITE_, such as ``paper`` or ``mlp``."""
    kind: str
    """gru (any number of steps at once), mlp (one step at a time) or servo."""
    model: WorldModel
    limits: Limits
    """What the demonstrations showed the robot to do."""


def find_world_models(config: BenchConfig, suite: str, notes: list[str]) -> list[NamedModel]:
    """One for SUITE.patch and each of its variants; those trained with another epsilon have the same world model."""
    robot = find_robot(config.robot_name)
    variants = sorted(path for path in config.work.glob(f"{suite}_*.patch") if "_eps" not in path.name)
    folders = [path for path in (config.patch(suite), *variants) if path.is_dir()]
    if not folders:
        notes.append(f"no world model: there is no {config.patch(suite)}")
    return [_load(path, _name(path, suite), robot) for path in folders]


def _load(path: Path, name: str, robot: Robot) -> NamedModel:
    patch = load_patch(path, robot)
    return NamedModel(name, str(read_json(path / "world_model.json").get("kind")), patch.world_model, patch.limits)


def _name(path: Path, suite: str) -> str:
    return path.stem.removeprefix(suite).removeprefix("_") or "default"
