"""What in a data set is likely to be a mistake, or to surprise whoever trains on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.data import Demonstrations
from speedup_patch.inspect.report import Finding
from speedup_patch.robots import Robot, StatePose

JUMP = 10.0
"""A step this many times the usual fast step (p95 of the moving steps) is a jump."""


@dataclass(frozen=True, eq=False)
class Frames:
    """All frames of a data set, one episode after the other."""

    states: Float[np.ndarray, "N S"]
    actions: Float[np.ndarray, "N A"]
    timestamps: Float[np.ndarray, " N"]
    episode: Int[np.ndarray, " N"]
    row: Int[np.ndarray, " N"]
    """Each frame's place in its episode."""

    @property
    def joined(self) -> Bool[np.ndarray, " pairs"]:
        """Which pairs of neighbouring frames belong to one episode."""
        return self.row[1:] > 0

    def where(self, frame: int) -> str:
        return f"episode {self.episode[frame]}, row {self.row[frame]}"


def join_frames(demonstrations: Demonstrations) -> Frames:
    """The frames of every episode in one table, in float64."""
    lengths = [len(episode) for episode in demonstrations]
    return Frames(
        states=np.concatenate([episode.states for episode in demonstrations]).astype(np.float64),
        actions=np.concatenate([episode.actions for episode in demonstrations]).astype(np.float64),
        timestamps=np.concatenate([episode.timestamps for episode in demonstrations]).astype(np.float64),
        episode=np.repeat(np.arange(len(lengths)), lengths),
        row=np.concatenate([np.arange(length) for length in lengths]),
    )


def find_suspicions(
    demonstrations: Demonstrations,
    frames: Frames,
    robot: Robot | None,
    state_names: Sequence[str],
    action_names: Sequence[str],
    chunk_length: int,
) -> tuple[Finding, ...]:
    """Everything that looks wrong, each with its reason."""
    return (
        *_constant("state", frames.states, state_names),
        *_constant("action", frames.actions, action_names),
        *_jumps(frames, robot, state_names),
        *_copied_actions(frames, robot),
        *_timing(frames, demonstrations.control_hz),
        *_episodes(demonstrations, chunk_length),
        *(_against_robot(demonstrations, frames, robot) if robot else ()),
    )


def _constant(kind: str, table: Float[np.ndarray, "N D"], names: Sequence[str]) -> Iterator[Finding]:
    still = np.ptp(table, axis=0) <= 1e-6
    if still.any():
        listed = ", ".join(name for name, constant in zip(names, still, strict=True) if constant)
        yield Finding(f"constant_{kind}", f"{kind} dimensions that never change: {listed}")


def _jumps(frames: Frames, robot: Robot | None, names: Sequence[str]) -> Iterator[Finding]:
    """Joint angles and positions that leap; written-down rotations may wrap around, so they are left out."""
    wrapping: set[int] = set()
    if robot:
        wrapping = {i for arm in robot.arms if isinstance(arm.pose, StatePose) for i in arm.pose.rotation}
    steps = np.abs(np.diff(frames.states, axis=0)) * frames.joined[:, None]
    ranges = np.ptp(frames.states, axis=0)
    for i, name in enumerate(names):
        moving = steps[steps[:, i] > 1e-3 * ranges[i], i]
        if i in wrapping or len(moving) < 20:
            continue
        usual = float(np.quantile(moving, 0.95))
        jumps = np.flatnonzero(steps[:, i] > JUMP * usual)
        if len(jumps):
            worst = int(jumps[np.argmax(steps[jumps, i])])
            yield Finding(
                "jump",
                f"state {name} jumps {len(jumps)} times, most by {steps[worst, i]:.3g} into {frames.where(worst + 1)}, "
                f"where a fast step is {usual:.3g}: dropped frames, a faulty sensor, or a wrist singularity?",
            )


def _copied_actions(frames: Frames, robot: Robot | None) -> Iterator[Finding]:
    pairs: Mapping[int, int] = robot.drives if robot else {}
    if not robot and frames.states.shape == frames.actions.shape:
        pairs = {i: i for i in range(frames.states.shape[1])}
    if not pairs or not frames.joined.any():
        return
    actions, states = frames.actions[:, list(pairs)], frames.states[:, list(pairs.values())]
    following = (actions[:-1] == states[1:]).all(axis=1)[frames.joined].mean()
    if following > 0.95:
        yield Finding(
            "actions_are_next_states",
            "actions equal the next states exactly, so they are not what was sent: how the robot lags behind its "
            "commands cannot be learned from them",
        )
    if (actions == states).all(axis=1).mean() > 0.95:
        yield Finding(
            "actions_are_states", "actions equal the states of the same row exactly, so they command nothing new"
        )


def _timing(frames: Frames, control_hz: float) -> Iterator[Finding]:
    steps, period = np.diff(frames.timestamps)[frames.joined], 1.0 / control_hz
    if len(steps) == 0:
        return
    usual = float(np.median(steps))
    if abs(usual - period) > 0.01 * period:
        measured = f"{1 / usual:.2f} Hz" if usual > 0 else "no steady clock"
        yield Finding("timestamps", f"timestamps say {measured}, but the data set says {control_hz:g} Hz")
        return
    uneven = np.flatnonzero(np.abs(np.diff(frames.timestamps) - period) * frames.joined > 0.5 * period)
    if len(uneven):
        yield Finding(
            "timestamps",
            f"{len(uneven)} frames come early or late by more than half a control step, "
            f"first {frames.where(int(uneven[0]) + 1)}",
        )


def _episodes(demonstrations: Demonstrations, chunk_length: int) -> Iterator[Finding]:
    if len(demonstrations) == 1:
        yield Finding("one_episode", "there is only one episode, so none can be held out to check a patch on")
    short = [number for number, episode in enumerate(demonstrations) if len(episode) <= chunk_length]
    if short:
        yield Finding(
            "short_episodes",
            f"{len(short)} episodes are not longer than a chunk of {chunk_length} actions, first episode {short[0]}",
        )
    seen: dict[bytes, int] = {}
    repeats: list[str] = []
    for number, episode in enumerate(demonstrations):
        first = seen.setdefault(sha256(episode.states.tobytes() + episode.actions.tobytes()).digest(), number)
        if first != number:
            repeats.append(f"{number} repeats {first}")
    if repeats:
        yield Finding("repeated_episodes", f"{len(repeats)} episodes repeat another exactly, first {repeats[0]}")


def _against_robot(demonstrations: Demonstrations, frames: Frames, robot: Robot) -> Iterator[Finding]:
    if abs(demonstrations.control_hz / robot.control_hz - 1) > 0.01:
        yield Finding(
            "control_hz",
            f"the data set runs at {demonstrations.control_hz:g} Hz, but robot {robot.name} at {robot.control_hz:g} Hz",
        )
    slack = 1e-3 * (robot.action_high - robot.action_low)
    beyond = (frames.actions < robot.action_low - slack) | (frames.actions > robot.action_high + slack)
    for i in np.flatnonzero(beyond.any(axis=0)):
        yield Finding(
            "beyond_limits",
            f"action {robot.action_names[i]} leaves {robot.action_low[i]:g} .. {robot.action_high[i]:g} "
            f"in {beyond[:, i].mean():.2%} of the frames",
        )
