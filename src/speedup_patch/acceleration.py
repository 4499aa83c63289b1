"""Turns a chunk and a warp into the shorter chunk that the robot executes."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.maths.poses import nearest_writing, quaternion_to_rotation, rotation_to_quaternion
from speedup_patch.maths.resampling import (
    merge_delta,
    merge_delta_rotation,
    resample_absolute,
    resample_absolute_rotation,
    resample_held,
    saturate,
)
from speedup_patch.maths.retiming import read_ahead
from speedup_patch.robots import ActionGroup, Robot
from speedup_patch.warp import GripperDelays, Warp

RotationMerge = Literal["exact", "sum"]
"""How delta rotations merge: composed on SO(3), or added up as in the paper."""


class Accelerated(NamedTuple):
    """A shortened chunk, and per action dimension how much commanded motion the robot's limits cut off."""

    actions: Float[np.ndarray, "*B l A"]
    lost: Float[np.ndarray, "*B A"]


def accelerate(
    robot: Robot, chunks: Float[np.ndarray, "*B n A"], warp: Warp, rotations: RotationMerge = "exact"
) -> Accelerated:
    """The commands that run ``chunks`` along ``warp``: every group of dimensions by its own rule.

    Merged motions are cut to the robot's limits. The identity warp gives back the chunk bit for bit.
    """
    if len(warp) == warp.original:
        return Accelerated(chunks, np.zeros((*chunks.shape[:-2], chunks.shape[-1])))
    return accelerate_along(robot, chunks, warp.positions, warp.delays, rotations)


def accelerate_along(
    robot: Robot,
    chunks: Float[np.ndarray, "*B n A"],
    positions: Float[np.ndarray, "*#B l"],
    delays: Mapping[int, GripperDelays],
    rotations: RotationMerge = "exact",
) -> Accelerated:
    """As ``accelerate`` for chunks that may each have positions of their own, padded by repeating the last."""
    lost = np.zeros((*chunks.shape[:-2], chunks.shape[-1]))
    actions = np.empty((*chunks.shape[:-2], positions.shape[-1], chunks.shape[-1]), dtype=chunks.dtype)
    for group, columns in robot.resampled_together:
        part = list(columns)
        piece = _resample_group(group, chunks[..., part], positions, rotations)
        if group.mode == "delta":
            piece, lost[..., part] = saturate(piece, robot.action_low[part], robot.action_high[part])
        actions[..., part] = piece
    for column, delay in delays.items():
        actions[..., column] = _read_ahead(chunks[..., column], actions[..., column], positions, delay)
    return Accelerated(actions, lost)


def _read_ahead(
    commands: Float[np.ndarray, "*B n"],
    now: Float[np.ndarray, "*B l"],
    positions: Float[np.ndarray, "*#B l"],
    delays: GripperDelays,
) -> Float[np.ndarray, "*B l"]:
    """A gripper's commands, each early by as much as its answer comes late: closing ones, opening ones, or none.

    Of all commands that are passed by reading ahead the one that closes most counts, else the one that opens most; and
    a stroke that begins now is not taken back by one that lies ahead. So no stroke is skipped.
    """
    n = commands.shape[-1]
    rows = np.arange(n)

    def passed(delay: float) -> Bool[np.ndarray, "*B l n"]:
        first, last = (np.ceil(np.clip(at, 1, n) - 1e-9)[..., None] - 1 for at in (positions, ahead(delay)))
        return (rows >= first) & (rows <= np.maximum(first, last))  # nothing lies ahead of a last, short window

    def ahead(delay: float) -> Float[np.ndarray, "*#B l"]:
        return read_ahead(positions, delay, n)

    openness = np.abs(commands - delays.closed)[..., None, :]
    closing = np.where(passed(delays.closing), openness, np.inf).argmin(axis=-1)
    opening = np.where(passed(delays.opening), openness, -np.inf).argmax(axis=-1)
    most_closed, most_open = (np.take_along_axis(commands, row, axis=-1) for row in (closing, opening))
    here = np.abs(now - delays.closed)
    before = np.concatenate([openness[..., 0, :1], here[..., :-1]], axis=-1)
    closes = (np.abs(most_closed - delays.closed) < here) & (here <= before)
    opens = (np.abs(most_open - delays.closed) > here) & (here >= before)
    return np.where(closes, most_closed, np.where(opens, most_open, now))


def _resample_group(
    group: ActionGroup,
    actions: Float[np.ndarray, "*B n D"],
    positions: Float[np.ndarray, "*#B l"],
    merge: RotationMerge,
) -> Float[np.ndarray, "*B l D"]:
    match group.mode:
        case "gripper":
            return resample_held(actions, positions)
        case "absolute" if group.rotation:
            quaternions = rotation_to_quaternion(actions, group.rotation)
            turned = quaternion_to_rotation(resample_absolute_rotation(quaternions, positions), group.rotation)
            return nearest_writing(turned, resample_absolute(actions, positions), group.rotation)
        case "absolute":
            return resample_absolute(actions, positions)
        case "delta" if group.rotation == "axis_angle" and merge == "exact":
            return merge_delta_rotation(actions, positions, group.scale)
        case "delta":
            return merge_delta(actions, positions)
