"""A look at demonstrations before training on them: what is in them, what the robot does, what seems wrong."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Demonstrations
from speedup_patch.inspect.report import (
    ArmSpeed,
    Dimension,
    GripperUse,
    Inspection,
    Profile,
    Spread,
    TaskCount,
)
from speedup_patch.inspect.report import render_inspection as render_inspection
from speedup_patch.inspect.strokes import find_flips, stroke_steps
from speedup_patch.inspect.suspicions import Frames, find_suspicions, join_frames
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.robots import ROBOTS, Arm, Gripper, Robot

STROKE_SECONDS = 2.0
"""How long a gripper's fingers are watched after a flip."""


def inspect_demonstrations(
    demonstrations: Demonstrations,
    robot: Robot | None = None,
    *,
    dataset: str = "DATASET",
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    chunk_length: int = 24,
) -> Inspection:
    """The data set at a glance; without ``robot`` it is recognised by its name or by the names of its dimensions."""
    alike = [known for known in ROBOTS.values() if _same_sizes(known, demonstrations)]
    if robot is None:
        robot = _recognise(alike, demonstrations.robot_name, state_names)
    else:
        robot.check_sizes(demonstrations.state_size, demonstrations.action_size, dataset)
    state_names = _names(robot.state_names if robot else state_names, "state", demonstrations.state_size)
    action_names = _names(robot.action_names if robot else action_names, "action", demonstrations.action_size)
    frames = join_frames(demonstrations)
    counts = Counter(episode.task for episode in demonstrations)
    return Inspection(
        dataset=dataset,
        episodes=len(demonstrations),
        frames=demonstrations.frames,
        control_hz=float(demonstrations.control_hz),
        lengths=_spread(np.array([len(episode) for episode in demonstrations], dtype=np.float64)),
        tasks=tuple(TaskCount(task, episodes) for task, episodes in counts.most_common()),
        state=_dimensions(frames.states, state_names),
        action=_dimensions(frames.actions, action_names),
        robot=robot.name if robot else None,
        looks_like=tuple(known.name for known in alike),
        arms=_arm_speeds(frames, robot, demonstrations.control_hz) if robot else (),
        grippers=_gripper_uses(demonstrations, frames, robot) if robot else (),
        pause_share=_pause_share(frames, robot) if robot else None,
        findings=find_suspicions(demonstrations, frames, robot, state_names, action_names, chunk_length),
        train_command=_train_command(dataset, robot),
    )


def _same_sizes(robot: Robot, demonstrations: Demonstrations) -> bool:
    sizes = (demonstrations.state_size, demonstrations.action_size)
    return sizes == (robot.state_size, robot.action_size)


def _recognise(alike: Sequence[Robot], name: str, state_names: Sequence[str]) -> Robot | None:
    """Equal sizes alone are not enough: other two-armed robots have 14 joints too."""
    for robot in alike:
        if robot.name == name or robot.state_names == tuple(state_names):
            return robot
    return None


def _names(given: Sequence[str], kind: str, size: int) -> tuple[str, ...]:
    return tuple(given) if len(given) == size else tuple(f"{kind}_{i}" for i in range(size))


def _spread(values: Float[np.ndarray, " n"]) -> Spread:
    return Spread(*(float(value) for value in np.quantile(values, [0.0, 0.1, 0.5, 0.9, 1.0])))


def _profile(values: Float[np.ndarray, " n"]) -> Profile:
    p50, p95, largest = (float(value) for value in np.quantile(values, [0.5, 0.95, 1.0]))
    return Profile(float(values.mean()), p50, p95, largest)


def _dimensions(table: Float[np.ndarray, "N D"], names: Sequence[str]) -> tuple[Dimension, ...]:
    figures = zip(names, table.min(axis=0), table.max(axis=0), table.std(axis=0), strict=True)
    return tuple(Dimension(name, float(low), float(high), float(std)) for name, low, high, std in figures)


def _arm_speeds(frames: Frames, robot: Robot, control_hz: float) -> tuple[ArmSpeed, ...]:
    if not frames.joined.any():
        return ()
    poses = robot.poses(frames.states)
    before, after = poses[:-1][frames.joined], poses[1:][frames.joined]
    metres = np.linalg.norm(after[..., :3] - before[..., :3], axis=-1) * control_hz
    radians = 2.0 * rotation_distance(before[..., 3:], after[..., 3:]) * control_hz
    return tuple(
        ArmSpeed(arm.name, _profile(metres[:, i]), _profile(radians[:, i])) for i, arm in enumerate(robot.arms)
    )


def _gripper_uses(demonstrations: Demonstrations, frames: Frames, robot: Robot) -> tuple[GripperUse, ...]:
    return tuple(
        _gripper_use(demonstrations, frames, arm, arm.gripper) for arm in robot.arms if arm.gripper is not None
    )


def _gripper_use(demonstrations: Demonstrations, frames: Frames, arm: Arm, gripper: Gripper) -> GripperUse:
    ranges = np.ptp(frames.states[:, list(gripper.state)], axis=0)
    horizon = round(STROKE_SECONDS * demonstrations.control_hz)
    flips = 0
    strokes: list[int] = []
    for episode in demonstrations:
        found = find_flips(episode.actions[:, gripper.action], (gripper.closed + gripper.open) / 2)
        flips += len(found)
        strokes += stroke_steps(episode.states[:, list(gripper.state)], found, ranges, horizon)
    p50, p90 = (float(steps) for steps in np.quantile(strokes, [0.5, 0.9])) if strokes else (None, None)
    return GripperUse(arm.name, flips / len(demonstrations), len(strokes), p50, p90, gripper.stroke_steps)


def _pause_share(frames: Frames, robot: Robot) -> float:
    """A target moves when it changes by 0.1% of its range; a delta when it exceeds 2% of its largest."""
    changes = np.abs(np.diff(frames.actions, axis=0, prepend=frames.actions[:1])) * (frames.row > 0)[:, None]
    moving = changes > 1e-3 * np.ptp(frames.actions, axis=0)
    deltas = np.abs(frames.actions) > 0.02 * np.abs(frames.actions).max(axis=0)
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "delta":
            moving[:, part] = deltas[:, part]
    return float(1.0 - moving.any(axis=1).mean())


def _train_command(dataset: str, robot: Robot | None) -> str:
    out = f"{Path(dataset).stem or 'my'}.patch"
    return f"sup train {shlex.quote(dataset)} --robot {robot.name if robot else 'ROBOT'} --out {shlex.quote(out)}"
