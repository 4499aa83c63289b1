"""Dimensions that never change, values that leap, and robots that stand still."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from speedup_patch.inspect.frames import Frames, View
from speedup_patch.inspect.report import Finding
from speedup_patch.inspect.wording import list_few, name_episodes
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.robots import Robot, StatePose

JUMP = 10.0
"""A step this many times the usual fast step (p95 of the moving steps) is a jump."""
CONSTANT = 1e-6
STILL_METRES, STILL_RADIANS = 2e-3, 1e-2
STILL_STATE = 1e-3
"""An arm that stays within this never moves; the last is for states whose meaning is not known."""


def find_value_faults(view: View) -> Iterator[Finding]:
    """Constant dimensions, jumps, and episodes in which the robot never moves."""
    frames, robot = view.frames, view.robot
    yield from _constant("state", frames.states, view.state_names)
    yield from _constant("action", frames.actions, view.action_names)
    yield from _jumps("state", frames.states, frames, view.state_names, _wrapping_states(robot))
    yield from _jumps("action", frames.actions, frames, view.action_names, _no_targets(robot))
    yield from _standing_still(view)


def _constant(kind: str, table: Float[np.ndarray, "N D"], names: Sequence[str]) -> Iterator[Finding]:
    still = [name for name, span in zip(names, np.ptp(table, axis=0), strict=True) if span <= CONSTANT]
    if still:
        yield Finding(
            f"constant_{kind}",
            f"{len(still)} of {len(names)} {kind} dimensions never change: {list_few(still, 8)}",
            "nothing can be learned about them; harmless if the task does not need them",
            "check that the column is the right one and that the recorder wrote it"
            if kind == "state"
            else "check that these commands were recorded; a policy that moves them leaves the patch's data",
        )


def _wrapping_states(robot: Robot | None) -> set[int]:
    """Written-down rotations may wrap around, so their leaps say nothing."""
    if robot is None:
        return set()
    return {i for arm in robot.arms if isinstance(arm.pose, StatePose) for i in arm.pose.rotation}


def _no_targets(robot: Robot | None) -> set[int]:
    """Motions and gripper commands may change at once, and absolute rotations may wrap around."""
    if robot is None:
        return set()
    parts = zip(robot.actions, robot.action_slices, strict=True)
    spared = [part for group, part in parts if group.mode != "absolute" or group.rotation]
    return {i for part in spared for i in range(part.start, part.stop)}


def _jumps(
    kind: str, table: Float[np.ndarray, "N D"], frames: Frames, names: Sequence[str], ignored: set[int]
) -> Iterator[Finding]:
    """One finding for all dimensions that leap."""
    steps = np.abs(np.diff(table, axis=0)) * frames.joined[:, None]
    ranges = np.ptp(table, axis=0)
    leaping: list[str] = []
    episodes: set[int] = set()
    worst = (0.0, "")
    for i in (i for i in range(len(names)) if i not in ignored):
        moving = steps[steps[:, i] > 1e-3 * ranges[i], i]
        if len(moving) < 20:
            continue
        usual = float(np.quantile(moving, 0.95))
        jumps = np.flatnonzero(steps[:, i] > JUMP * usual)
        if len(jumps):
            leaping.append(f"{names[i]} ({len(jumps)} times)")
            episodes |= set(frames.episode[jumps].tolist())
            largest = int(jumps[np.argmax(steps[jumps, i])])
            times = float(steps[largest, i]) / usual
            where = frames.where(largest + 1)
            worst = max(worst, (times, f"{names[i]} by {steps[largest, i]:.3g} into {where}, {times:.0f} fast steps"))
    if leaping:
        yield Finding(
            "jump" if kind == "state" else "action_jump",
            f"{kind} {list_few(leaping)} jumps in {name_episodes(sorted(episodes), frames.sampled)}, "
            f"most: {worst[1]}",
            "it is far from all other motion, so a world model cannot learn it" if kind == "state"
            else "no robot follows such a step at once, so what comes after it is not what was asked for",
            "look for dropped frames, a faulty sensor, an arm near a singularity, an angle that wraps around, or "
            "episodes glued together; if the robot did not really do this, leave those episodes out with --episodes",
        )  # fmt: skip


def _standing_still(view: View) -> Iterator[Finding]:
    verdicts = [(episode, _stands_still(view, rows)) for episode, rows in view.frames.stretches]
    moved = {episode for episode, still in verdicts if not still}
    still = sorted({episode for episode, _ in verdicts} - moved)
    if still:
        yield Finding(
            "never_moves",
            f"the robot never moves in {name_episodes(still, view.frames.sampled)}",
            "they teach that commands have no effect",
            "leave them out with --episodes, or choose another state column with --state",
        )


def _stands_still(view: View, rows: slice) -> bool:
    if rows.stop - rows.start < 2:
        return False
    if view.robot is None:
        return bool((np.ptp(view.frames.states[rows], axis=0) < STILL_STATE).all())
    poses = view.poses[rows]
    turned = 2.0 * rotation_distance(poses[..., 3:], np.broadcast_to(poses[:1, :, 3:], poses[..., 3:].shape))
    return bool((np.ptp(poses[..., :3], axis=0) < STILL_METRES).all() and (turned < STILL_RADIANS).all())
