"""Demonstrations read from an `.npz` file, and the same frames normalised and resident on one device."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from lerobot_act import (
    ACTION,
    ACTION_IS_PAD,
    OBS_ENV_STATE,
    OBS_STATE,
    ACTConfig,
    Statistics,
    make_act_pre_post_processors,
)
from torch import Tensor

ENVIRONMENT_STATE_KEY = "extra/observation.environment_state"


@dataclass(frozen=True)
class Recording:
    """Frames of all episodes end to end; row t holds what was seen before action t was sent."""

    features: dict[str, np.ndarray]  # LeRobot name -> (N, D) float32
    episode_ends: np.ndarray  # (K,) int64, cumulative frame counts
    tasks: tuple[str, ...]
    robot: str
    control_hz: float
    fingerprint: str  # SHA-256 of the file, or of the hashes of several

    def __post_init__(self) -> None:
        lengths = {len(values) for values in self.features.values()} | {int(self.episode_ends[-1])}
        if len(lengths) != 1:
            raise ValueError(f"features and episode_ends[-1] must agree on the number of frames, got {sorted(lengths)}")
        if np.any(np.diff(self.episode_ends, prepend=0) <= 0):
            raise ValueError("episode_ends must be cumulative frame counts: positive and strictly increasing")
        for name, values in self.features.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name} holds values that are not finite")


def read_recording(path: Path) -> Recording:
    """The recording in an `.npz` file (keys in base_policies/README.md)."""
    with np.load(path, allow_pickle=False) as file:
        keys = {OBS_STATE: "states", OBS_ENV_STATE: ENVIRONMENT_STATE_KEY, ACTION: "actions"}
        missing = sorted({*keys.values(), "episode_ends", "tasks", "robot", "control_hz"} - set(file.files))
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; it has {', '.join(sorted(file.files))}")
        return Recording(
            features={name: file[key].astype(np.float32) for name, key in keys.items()},
            episode_ends=file["episode_ends"].astype(np.int64),
            tasks=tuple(str(task) for task in np.atleast_1d(file["tasks"])),
            robot=str(file["robot"]),
            control_hz=float(file["control_hz"]),
            fingerprint=hashlib.sha256(path.read_bytes()).hexdigest(),
        )


def read_recordings(paths: list[Path]) -> Recording:
    """The episodes of several files of the same robot and environment, one file after the other."""
    parts = [read_recording(path) for path in paths]
    if len({(part.robot, part.control_hz) for part in parts}) != 1:
        raise ValueError(f"{', '.join(map(str, paths))} are not of one robot at one control frequency")
    before = np.cumsum([0, *(part.episode_ends[-1] for part in parts[:-1])])
    digests = "".join(part.fingerprint for part in parts)
    return Recording(
        features={name: np.concatenate([part.features[name] for part in parts]) for name in parts[0].features},
        episode_ends=np.concatenate([part.episode_ends + start for part, start in zip(parts, before, strict=True)]),
        tasks=tuple(dict.fromkeys(task for part in parts for task in part.tasks)),
        robot=parts[0].robot,
        control_hz=parts[0].control_hz,
        fingerprint=digests if len(parts) == 1 else hashlib.sha256(digests.encode()).hexdigest(),
    )


def measure_statistics(features: dict[str, np.ndarray], smallest_std: float) -> Statistics:
    """Mean and standard deviation of each dimension, in its own unit.

    The floor keeps a dimension that hardly moved in the demonstrations from being magnified when it does move.
    """
    return {
        name: {
            "mean": torch.from_numpy(values.mean(axis=0, dtype=np.float64)).float(),
            "std": torch.from_numpy(values.std(axis=0, dtype=np.float64)).float().clamp(min=smallest_std),
        }
        for name, values in features.items()
    }


@dataclass(frozen=True)
class Frames:
    """Normalised frames on one device, from which batches of (observation, chunk) are gathered by row."""

    state: Tensor  # (N, S)
    environment_state: Tensor  # (N, E)
    action: Tensor  # (N, A)
    episode_end: Tensor  # (N,) int64: one past the last row of the row's episode

    def gather(self, rows: Tensor, chunk_length: int) -> dict[str, Tensor]:
        """The LeRobot batch at `rows` (B,); past its end an episode repeats its last action, marked as padding."""
        steps = rows[:, None] + torch.arange(chunk_length, device=rows.device)
        ends = self.episode_end[rows][:, None]
        return {
            OBS_STATE: self.state[rows],
            OBS_ENV_STATE: self.environment_state[rows],
            ACTION: self.action[torch.minimum(steps, ends - 1)],
            ACTION_IS_PAD: steps >= ends,
        }


def normalise(recording: Recording, statistics: Statistics, config: ACTConfig, device: torch.device) -> Frames:
    """All frames of a recording on the device, normalised by LeRobot's own pre-processor."""
    preprocessor, _ = make_act_pre_post_processors(config, statistics)
    normalised = preprocessor({name: torch.from_numpy(values) for name, values in recording.features.items()})
    lengths = np.diff(recording.episode_ends, prepend=0)
    episode_end = torch.from_numpy(np.repeat(recording.episode_ends, lengths))
    return Frames(
        state=normalised[OBS_STATE].to(device),
        environment_state=normalised[OBS_ENV_STATE].to(device),
        action=normalised[ACTION].to(device),
        episode_end=episode_end.to(device),
    )


def split_rows(episode_ends: np.ndarray, held_out_fraction: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Row numbers to train on and row numbers held out; whole episodes go one way or the other."""
    episodes = len(episode_ends)
    held_out_count = round(held_out_fraction * episodes)
    held_out_episodes = rng.permutation(episodes)[:held_out_count]
    episode_of_row = np.repeat(np.arange(episodes), np.diff(episode_ends, prepend=0))
    held_out = np.isin(episode_of_row, held_out_episodes)
    return torch.from_numpy(np.flatnonzero(~held_out)), torch.from_numpy(np.flatnonzero(held_out))
