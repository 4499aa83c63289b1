"""Turns a chunk and a warp into the shorter chunk that the robot executes."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

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
    lost = np.zeros((*chunks.shape[:-2], chunks.shape[-1]))
    if len(warp) == warp.original:
        return Accelerated(chunks, lost)
    actions = np.empty((*chunks.shape[:-2], len(warp), chunks.shape[-1]), dtype=chunks.dtype)
    for group, columns in robot.resampled_together:
        part = list(columns)
        piece = _resample_group(group, chunks[..., part], warp.positions, rotations)
        if group.mode == "delta":
            piece, lost[..., part] = saturate(piece, robot.action_low[part], robot.action_high[part])
        actions[..., part] = piece
    for column, delays in warp.delays.items():
        actions[..., column] = _read_ahead(chunks[..., column], actions[..., column], warp, delays)
    return Accelerated(actions, lost)


def _read_ahead(
    commands: Float[np.ndarray, "*B n"], now: Float[np.ndarray, "*B l"], warp: Warp, delays: GripperDelays
) -> Float[np.ndarray, "*B l"]:
    """A gripper's commands, each early by as much as its answer comes late: closing ones, opening ones, or none."""

    def ahead(delay: float) -> Float[np.ndarray, "*B l"]:
        return resample_held(commands[..., None], read_ahead(warp.positions, delay, warp.original))[..., 0]

    closing, opening = ahead(delays.closing), ahead(delays.opening)
    closes = np.abs(closing - delays.closed) < np.abs(now - delays.closed)
    opens = np.abs(opening - delays.closed) > np.abs(now - delays.closed)
    return np.where(closes, closing, np.where(opens, opening, now))


def _resample_group(
    group: ActionGroup, actions: Float[np.ndarray, "*B n D"], positions: Float[np.ndarray, " l"], merge: RotationMerge
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
