"""Reading a chunk of actions along a warp: at rate k, one executed command stands for k original ones.

Positions 0 < s_1 < ... < s_l: the j-th executed command covers the window (s_(j-1), s_j] of the chunk, where position i
means "after the i-th original action". Positions within 1e-9 of a whole number count as that number. A chunk has at
least one action. Every chunk of a batch may have positions of its own, padded by repeating the last one: a window of no
width moves nothing.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.maths.poses import (
    axis_angle_to_quaternion,
    nlerp,
    quaternion_multiply,
    quaternion_to_axis_angle,
    take_rows,
)


def merge_weights(positions: Float[np.ndarray, "*B l"], n: int) -> Float[np.ndarray, "*B l n"]:
    """W[j, i]: the share of action i that falls into window j; the identity at rate 1."""
    ends = _snap(positions)
    starts = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=-1)
    action = np.arange(n)
    overlap = np.minimum(ends[..., None], action + 1) - np.maximum(starts[..., None], action)
    return np.maximum(overlap, 0.0)


def resample_absolute(
    actions: Float[np.ndarray, "*B n D"], positions: Float[np.ndarray, "*#B l"]
) -> Float[np.ndarray, "*B l D"]:
    """The target at each position: the i-th target at position i, linear in between, held before the first and after
    the last; at whole positions the original row bit for bit."""
    before, after, fraction = _neighbours(positions, actions.shape[-2])
    share = fraction.astype(actions.dtype)[..., None]
    return (1 - share) * take_rows(actions, before) + share * take_rows(actions, after)


def resample_absolute_rotation(
    quaternions: Float[np.ndarray, "*B n 4"], positions: Float[np.ndarray, "*#B l"]
) -> Float[np.ndarray, "*B l 4"]:
    """As ``resample_absolute`` for unit quaternions, by NLERP on the shorter arc."""
    before, after, fraction = _neighbours(positions, quaternions.shape[-2])
    return nlerp(take_rows(quaternions, before), take_rows(quaternions, after), fraction.astype(quaternions.dtype))


def resample_held(
    actions: Float[np.ndarray, "*B n D"], positions: Float[np.ndarray, "*#B l"]
) -> Float[np.ndarray, "*B l D"]:
    """The last command that each window touches, which is what a gripper is told; held beyond both ends."""
    row = np.ceil(_snap(positions)).astype(np.int64) - 1
    return take_rows(actions, np.clip(row, 0, actions.shape[-2] - 1))


def merge_delta(
    actions: Float[np.ndarray, "*B n D"], positions: Float[np.ndarray, "*#B l"]
) -> Float[np.ndarray, "*B l D"]:
    """The motions of each window added up, the paper's merging function m; a cut action gives its share to both."""
    return merge_weights(positions, actions.shape[-2]).astype(actions.dtype) @ actions


def merge_delta_rotation(
    turns: Float[np.ndarray, "*B n 3"], positions: Float[np.ndarray, "*#B l"], radians_per_unit: float = 1.0
) -> Float[np.ndarray, "*B l 3"]:
    """The axis-angle turns of each window composed on SO(3), later turns on the left (about the world's axes), a cut
    turn with its share of the angle; a window that is one whole action returns it bit for bit.

    ``radians_per_unit`` is how far an action of length 1 turns. Turns about one axis add up beyond pi, too.
    """
    weights = merge_weights(positions, turns.shape[-2])
    radians = turns * radians_per_unit
    touched = weights > 0
    first, count = touched.argmax(axis=-1), touched.sum(axis=-1)
    composed = np.zeros((*turns.shape[:-2], positions.shape[-1], 4), dtype=turns.dtype)
    composed[..., 3] = 1.0
    for offset in range(int(count.max(initial=0))):
        action = np.minimum(first + offset, turns.shape[-2] - 1)
        weight = np.take_along_axis(weights, action[..., None], axis=-1)
        share = np.where((offset < count)[..., None], weight, 0.0).astype(turns.dtype)
        composed = quaternion_multiply(axis_angle_to_quaternion(share * take_rows(radians, action)), composed)
    merged = _unwind(quaternion_to_axis_angle(composed), merge_delta(radians, positions)) / radians_per_unit
    whole = (count == 1) & (weights.max(axis=-1, initial=0) == 1)
    return np.where(whole[..., None], take_rows(turns, first), merged)


def saturate(
    actions: Float[np.ndarray, "*B l D"],
    low: Float[np.ndarray, "*L D"],
    high: Float[np.ndarray, "*L D"],
    straight: bool | Bool[np.ndarray, "*#B"] = False,
) -> tuple[Float[np.ndarray, "*B l D"], Float[np.ndarray, "*B D"]]:
    """(actions cut to their limits, how much was cut off each dimension in total over the l actions).

    Limits may differ from action to action. Where ``straight``, all dimensions of an action are cut by the same share,
    for limits around zero.
    """
    kept = actions
    if np.any(straight):
        spans = np.where(actions >= 0, high, -low)
        shares = np.divide(np.abs(actions), spans, out=np.zeros_like(spans), where=spans > 0)
        over = np.maximum(shares.max(axis=-1, keepdims=True), 1.0)
        kept = actions / np.where(np.asarray(straight)[..., None, None], over, 1.0)
    clipped = np.clip(kept, low, high).astype(actions.dtype)
    return clipped, np.abs(actions - clipped).sum(axis=-2)


def _snap(positions: Float[np.ndarray, "*B l"]) -> Float[np.ndarray, "*B l"]:
    whole = np.rint(positions)
    return np.where(np.abs(positions - whole) < 1e-9, whole, positions)


def _neighbours(
    positions: Float[np.ndarray, "*B l"], n: int
) -> tuple[Int[np.ndarray, "*B l"], Int[np.ndarray, "*B l"], Float[np.ndarray, "*B l"]]:
    """Rows before and after each position, and how far in between it lies: in [0, 1)."""
    row = np.clip(_snap(positions) - 1, 0, n - 1)
    before = np.floor(row).astype(np.int64)
    return before, np.minimum(before + 1, n - 1), row - before


def _unwind(turns: Float[np.ndarray, "*B 3"], near: Float[np.ndarray, "*B 3"]) -> Float[np.ndarray, "*B 3"]:
    """The same rotations, full turns added so that each lies as near as possible to ``near``.

    A command is clipped and then followed, so its direction matters: 4 rad one way is not 2.3 rad the other way.
    """
    angle = np.linalg.norm(turns, axis=-1, keepdims=True)
    reach = np.linalg.norm(near, axis=-1, keepdims=True)
    still = angle < 1e-9
    axis = np.where(still, near / np.maximum(reach, 1e-9), turns / np.maximum(angle, 1e-9))
    along = (near * axis).sum(axis=-1, keepdims=True)
    windings = np.rint((along - angle) / (2 * np.pi))
    return turns + 2 * np.pi * windings * axis
