"""Turns a chunk and a warp into the shorter chunk that the robot executes."""

from collections.abc import Sequence
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
from speedup_patch.maths.retiming import read_ahead, warp_lengths
from speedup_patch.robots import ActionGroup, Robot
from speedup_patch.warp import Delays, GripperDelays, Warp

RotationMerge = Literal["exact", "sum"]
"""How delta rotations merge: composed on SO(3), or added up as in the paper."""


class Merging(NamedTuple):
    """How motions (delta actions) are added up."""

    rotations: RotationMerge = "exact"
    straight: bool = False
    """Whether what exceeds an action limit is cut off all motions alike, which keeps their direction; else each of them
    is cut by itself, as robots do."""


PLAIN = Merging()


class Accelerated(NamedTuple):
    """A shortened chunk, and what the robot's limits cut off its motions."""

    actions: Float[np.ndarray, "*B l A"]
    lost: Float[np.ndarray, "*B A"]
    """Commanded motion that was cut off each action dimension, in total."""
    kept: Float[np.ndarray, "*B l"]
    """Share of the motion of each command that was not: of its displacement or its turn, whichever lost more."""

    def done(self, positions: Float[np.ndarray, "*#B l"]) -> Float[np.ndarray, "*B"]:
        """Original actions really done: the sum over all commands of (s_j - s_(j-1)) * kept_j."""
        return np.asarray((np.diff(positions, axis=-1, prepend=0.0) * self.kept).sum(axis=-1))


def accelerate(robot: Robot, chunks: Float[np.ndarray, "*B n A"], warp: Warp, merging: Merging = PLAIN) -> Accelerated:
    """The commands that run ``chunks`` along ``warp``: every group of dimensions by its own rule.

    Motion that the arm's momentum makes anyway is taken off, and merged motions are cut to the robot's limits. The
    identity warp gives back the chunk bit for bit.
    """
    if len(warp) == warp.original:
        return Accelerated(chunks, np.zeros((*chunks.shape[:-2], chunks.shape[-1])), np.ones(chunks.shape[:-1]))
    return accelerate_along(robot, chunks, warp.positions, warp.delays, merging, warp.carried)


def accelerate_along(
    robot: Robot,
    chunks: Float[np.ndarray, "*B n A"],
    positions: Float[np.ndarray, "*#B l"],
    delays: Delays,
    merging: Merging = PLAIN,
    carried: Float[np.ndarray, "*#B A"] | None = None,
) -> Accelerated:
    """As ``accelerate`` for chunks that may each have positions of their own, padded by repeating the last."""
    lost = np.zeros((*chunks.shape[:-2], chunks.shape[-1]))
    actions = np.empty((*chunks.shape[:-2], positions.shape[-1], chunks.shape[-1]), dtype=chunks.dtype)
    kept = np.ones((*chunks.shape[:-2], positions.shape[-1]))
    motions: list[int] = []
    for group, columns in robot.resampled_together:
        part = list(columns)
        lags = [0.0 if isinstance(delay := delays.get(column, 0.0), GripperDelays) else delay for column in part]
        actions[..., part] = _resample_group(group, chunks[..., part], positions, merging.rotations, lags)
        motions += part if group.mode == "delta" else []
    if motions:
        low, high = robot.action_low[motions], robot.action_high[motions]
        # A chunk that is not shortened is left to the robot as it is.
        shortened = warp_lengths(positions) < chunks.shape[-2]
        straight = np.asarray(merging.straight & shortened)
        off = np.zeros(1) if carried is None else _spread(carried[..., motions], positions, chunks.shape[-2])
        # What is taken off leaves room at the limits for as much of the motion itself, and never takes any away.
        room = low + np.minimum(off, 0.0), high + np.maximum(off, 0.0)
        wanted = actions[..., motions]
        within, lost[..., motions] = saturate(wanted, *room, straight)
        kept = np.where(shortened[..., None], _kept_shares(robot, motions, wanted, within), 1.0)
        actions[..., motions] = np.clip(within - off, low, high)
    grippers = {column: delay for column, delay in delays.items() if isinstance(delay, GripperDelays)}
    if grippers:
        columns, measured = list(grippers), list(grippers.values())
        actions[..., columns] = _read_ahead(chunks[..., columns], actions[..., columns], positions, measured)
    return Accelerated(actions, lost, kept)


def _kept_shares(
    robot: Robot, motions: list[int], wanted: Float[np.ndarray, "*B l D"], kept: Float[np.ndarray, "*B l D"]
) -> Float[np.ndarray, "*B l"]:
    """How far each command goes along the motion that was wanted of it, as a share: that of the group of dimensions
    which is the furthest behind."""
    shares = np.ones(wanted.shape[:-1])
    for group, columns in robot.resampled_together:
        if group.mode == "delta":
            part = [motions.index(column) for column in columns]
            along, whole = (wanted[..., part] * kept[..., part]).sum(axis=-1), np.square(wanted[..., part]).sum(axis=-1)
            share = np.divide(along, whole, out=np.ones_like(shares), where=whole > 0)
            shares = np.minimum(shares, np.maximum(share, 0.0))
    return shares


def _spread(
    motion: Float[np.ndarray, "*#B D"], positions: Float[np.ndarray, "*#B l"], original: int
) -> Float[np.ndarray, "*#B l D"]:
    """A motion in equal parts over the commands of each shortened chunk; none of it where the chunk stays as it is."""
    lengths = warp_lengths(positions)[..., None]
    shares = (np.arange(positions.shape[-1]) < lengths) / np.where(lengths < original, lengths, np.inf)
    return shares[..., None] * motion[..., None, :]


def _read_ahead(
    commands: Float[np.ndarray, "*B n G"],
    now: Float[np.ndarray, "*B l G"],
    positions: Float[np.ndarray, "*#B l"],
    delays: Sequence[GripperDelays],
) -> Float[np.ndarray, "*B l G"]:
    """Grippers' commands, each early by as much as its answer comes late: closing ones, opening ones, or none.

    Of all commands that are passed by reading ahead the one that closes most counts, else the one that opens most; and
    a stroke that begins now is not taken back by one that lies ahead. So no stroke is skipped.
    """
    commands, now = np.swapaxes(commands, -1, -2), np.swapaxes(now, -1, -2)
    n, closed = commands.shape[-1], np.array([[delay.closed] for delay in delays])
    both = np.array([[delay.closing for delay in delays], [delay.opening for delay in delays]])
    first = _row_at(positions, n)[..., None, None, :]
    last = _row_at(read_ahead(positions, both, n), n)
    # Nothing lies ahead of a last, short window.
    rows, first, last = np.arange(n), first[..., None], np.maximum(first, last)[..., None]
    passed = (rows >= first) & (rows <= last)
    openness = np.abs(commands - closed)
    closing = np.where(passed[..., 0, :, :, :], openness[..., None, :], np.inf).argmin(axis=-1)
    opening = np.where(passed[..., 1, :, :, :], openness[..., None, :], -np.inf).argmax(axis=-1)
    most_closed, most_open = (np.take_along_axis(commands, row, axis=-1) for row in (closing, opening))
    here = np.abs(now - closed)
    before = np.concatenate([openness[..., :1], here[..., :-1]], axis=-1)
    closes = (np.abs(most_closed - closed) < here) & (here <= before)
    opens = (np.abs(most_open - closed) > here) & (here >= before)
    return np.swapaxes(np.where(closes, most_closed, np.where(opens, most_open, now)), -1, -2)


def _row_at(positions: Float[np.ndarray, "*B l"], n: int) -> Float[np.ndarray, "*B l"]:
    """The row of the command that is taken at each position."""
    return np.ceil(np.minimum(np.maximum(positions, 1.0), n) - 1e-9) - 1.0


def _resample_group(
    group: ActionGroup,
    actions: Float[np.ndarray, "*B n D"],
    positions: Float[np.ndarray, "*#B l"],
    merge: RotationMerge,
    lags: Sequence[float],
) -> Float[np.ndarray, "*B l D"]:
    """The group by its own rule; targets of what lags behind them are read ahead, an orientation's as one."""
    match group.mode:
        case "gripper":
            return resample_held(actions, positions)
        case "absolute" if any(lags):
            each = [float(np.mean(lags))] if group.rotation else lags
            ahead = [read_ahead(positions, lag, actions.shape[-2]) for lag in each]
            parts = [actions] if group.rotation else np.split(actions, len(lags), axis=-1)
            read = [_resample_group(group, part, at, merge, ()) for part, at in zip(parts, ahead, strict=True)]
            return np.concatenate(read, axis=-1)
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
