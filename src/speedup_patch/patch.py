"""The patch: a chunk policy around a chunk policy, and the folder it is saved in."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.acceleration import RotationMerge, accelerate
from speedup_patch.artefacts import read_json, write_folder_atomically, write_json
from speedup_patch.baselines import OneRatePerChunk
from speedup_patch.errors import InputError
from speedup_patch.guard import Guard, guard_from_json, guard_to_json
from speedup_patch.interfaces import ChunkPolicy, Observation, Scheduler, WorldModel
from speedup_patch.observations import feature_size, features, observe
from speedup_patch.robot_files import robot_from_json
from speedup_patch.robots import Robot
from speedup_patch.scheduler.model import LearnedRates, load_scheduler
from speedup_patch.warp import uniform_warp
from speedup_patch.world_model.model import load_world_model

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Patch:
    """Everything that a patch folder holds."""

    robot: Robot
    chunk_length: int
    epsilon: float
    speed_limit: float
    """The demonstrated end-effector speed, metres per control step."""
    world_model: WorldModel
    rates: LearnedRates
    guard: Guard
    provenance: dict[str, Any] = field(default_factory=dict[str, Any])
    """Configuration, data fingerprint, versions and held-out figures: how this patch came to be."""

    def save(self, path: Path, overwrite: bool = False) -> None:
        """Writes the folder whole or not at all."""
        with write_folder_atomically(path, overwrite) as folder:
            write_json(
                folder / "patch.json",
                {
                    "format_version": FORMAT_VERSION,
                    "robot": asdict(self.robot),
                    "chunk_length": self.chunk_length,
                    "epsilon": self.epsilon,
                    "speed_limit": self.speed_limit,
                    "guard": guard_to_json(self.guard),
                    "provenance": self.provenance,
                },
            )
            self.world_model.save(folder)
            self.rates.save(folder)


def load_patch(path: Path, robot: Robot | None = None) -> Patch:
    """Reads a patch folder; with ``robot``, refuses a patch that was made for another one."""
    if not (path / "patch.json").is_file():
        raise InputError(f"{path} is not a patch folder: it has no patch.json (make one with `sup train`)")
    document = read_json(path / "patch.json")
    if document.get("format_version") != FORMAT_VERSION:
        found = document.get("format_version")
        raise InputError(f"{path} has format version {found}, this release reads {FORMAT_VERSION}: train it again")
    try:
        own = robot_from_json(document["robot"])
        chunk_length, epsilon = int(document["chunk_length"]), float(document["epsilon"])
        speed_limit, provenance = float(document["speed_limit"]), dict(document["provenance"])
        guard = guard_from_json(document["guard"], feature_size(own), own.action_size)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path / 'patch.json'} is damaged: {error}") from error
    if robot is not None and robot != own:
        raise InputError(f"patch {path} was made for robot {own.name!r}, not for {robot.name!r}; train one for it")
    world_model = load_world_model(path, own)
    return Patch(own, chunk_length, epsilon, speed_limit, world_model, load_scheduler(path, own), guard, provenance)


@dataclass(frozen=True)
class ExecutedChunk:
    """What became of one chunk: ``reason`` tells why it ran unchanged when the guard stepped in."""

    original: int
    executed: int
    reason: str | None


class ScheduledPolicy:
    """A ChunkPolicy: asks a policy for a chunk and a scheduler how fast to run it."""

    def __init__(
        self,
        policy: ChunkPolicy,
        robot: Robot,
        scheduler: Scheduler,
        *,
        rotations: RotationMerge = "exact",
        guard: Guard | None = None,
        world_model: WorldModel | None = None,
        chunk_length: int | None = None,
    ) -> None:
        self.policy = policy
        self.robot = robot
        self.scheduler = scheduler
        self.rotations: RotationMerge = rotations
        self.guard = guard
        self.world_model = world_model
        self.chunk_length = chunk_length
        self.last: ExecutedChunk | None = None
        self.fallbacks: Counter[str] = Counter()
        self._expected_velocity: Float[np.ndarray, " X"] | None = None

    def infer(self, observation: Observation) -> Float[np.ndarray, "l A"]:
        """The shortened chunk; run all of it, then ask again."""
        chunk = self._checked_chunk(self.policy.infer(observation))
        o = self._observe(observation)
        reason = self.guard.reason(o[: len(o) // 2], chunk) if self.guard else None
        warp = uniform_warp(len(chunk), 1.0) if reason else self.scheduler.schedule(o, chunk)
        executed = accelerate(self.robot, chunk, warp, self.rotations).actions
        if not np.isfinite(executed).all():
            reason, executed = "resampling failed", chunk
        if reason:
            self.fallbacks[reason] += 1
        self.last = ExecutedChunk(len(chunk), len(executed), reason)
        if "previous_state" not in observation:
            self._expect(o, executed)
        return executed

    def reset(self) -> None:
        """A new episode begins."""
        self.policy.reset()
        self.scheduler.reset()
        self.last = self._expected_velocity = None

    def _checked_chunk(self, chunk: Float[np.ndarray, "..."]) -> Float[np.ndarray, "n A"]:
        chunk = np.asarray(chunk, dtype=np.float64)
        if chunk.ndim != 2 or chunk.shape[1] != self.robot.action_size or len(chunk) == 0:
            raise InputError(
                f"the policy returned a chunk of shape {chunk.shape}; robot {self.robot.name!r} takes "
                f"(n, {self.robot.action_size})"
            )
        if self.chunk_length is not None and len(chunk) != self.chunk_length:
            raise InputError(
                f"the policy returned {len(chunk)} actions, but the patch was trained for chunks of "
                f"{self.chunk_length}; train it with --chunk {len(chunk)}"
            )
        if not np.isfinite(chunk).all():
            row, dimension = np.argwhere(~np.isfinite(chunk))[0]
            name = self.robot.action_names[dimension]
            raise InputError(f"the policy returned {chunk[row, dimension]} for {name!r} in row {row}; nothing was sent")
        return chunk

    def _observe(self, observation: Observation) -> Float[np.ndarray, " O"]:
        if "state" not in observation:
            raise InputError(f"the observation has no 'state'; it has {sorted(observation)}")
        state = np.asarray(observation["state"], dtype=np.float64)
        if state.shape != (self.robot.state_size,):
            raise InputError(
                f"'state' has shape {state.shape}; robot {self.robot.name!r} has {self.robot.state_size} dimensions"
            )
        if not np.isfinite(state).all():
            raise InputError(f"'state' holds NaN or infinity in {self._names_of(~np.isfinite(state))}")
        if "previous_state" in observation:
            return observe(self.robot, state, np.asarray(observation["previous_state"], dtype=np.float64))
        x = features(self.robot, state)
        return np.concatenate([x, np.zeros_like(x) if self._expected_velocity is None else self._expected_velocity])

    def _expect(self, o: Float[np.ndarray, " O"], executed: Float[np.ndarray, "l A"]) -> None:
        """Remembers the velocity at the chunk's end, for callers that report no ``previous_state``."""
        if self.world_model is not None:
            path = self.world_model.rollout(o[None], executed[None])[0]
            self._expected_velocity = path[-1] - (path[-2] if len(path) > 1 else o[: len(o) // 2])

    def _names_of(self, mask: np.ndarray) -> list[str]:
        return [self.robot.state_names[i] for i in np.flatnonzero(mask)]


class SpeedupPatch(ScheduledPolicy):
    """A ChunkPolicy that makes ``policy`` faster with a trained patch, given as a folder or already loaded."""

    def __init__(self, policy: ChunkPolicy, patch: Patch | Path | str) -> None:
        self.patch = patch if isinstance(patch, Patch) else load_patch(Path(patch))
        super().__init__(
            policy,
            self.patch.robot,
            OneRatePerChunk(self.patch.rates, self.patch.rates.rates.tail),
            rotations=self.patch.rates.rates.rotations,
            guard=self.patch.guard,
            world_model=self.patch.world_model,
            chunk_length=self.patch.chunk_length,
        )
