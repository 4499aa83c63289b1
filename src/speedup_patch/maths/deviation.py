"""How far an accelerated chunk strays from the original one, at the end-effectors.

All functions take the poses that a world model (or a simulator) predicts: ``start`` before the chunk, ``reference``
after each of its n actions, ``accelerated`` after each of the l executed actions; the j-th of those belongs to
original time ``positions[j]``. In between, positions are linear and rotations NLERP, from ``start`` at time 0.
After the last position (a dropped tail) the last pose is held, so that motion that never happens counts. A pose has 7
numbers, or 8 where something else must keep in step, such as a gripper's opening; every chunk of a batch may have
positions of its own, padded by repeating the last one.
"""

import numpy as np
from jaxtyping import Float

from speedup_patch.maths.paths import nearest_on_path
from speedup_patch.maths.poses import interpolate_poses, pose_distance

STROKE_REACH = 0.005
"""Places this far apart (d; a centimetre) are told apart as if a whole stroke lay between them."""


def time_aligned_deviation(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> Float[np.ndarray, "*B"]:
    """The paper's E: the largest distance d over the arms and the original times 1..n."""
    return np.asarray(time_aligned_distances(start, reference, accelerated, positions).max(axis=(-2, -1)))


def time_aligned_distances(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> Float[np.ndarray, "*B n arms"]:
    """d between the two motions at each original time 1..n."""
    at = np.arange(1.0, reference.shape[-3] + 1)
    return pose_distance(reference, _poses_at(at, start, accelerated, positions))


def cross_track_deviation(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> Float[np.ndarray, "*B"]:
    """How far the accelerated motion leaves the original path, wherever along it: the largest of
    ``cross_track_distances``. At whole-numbered positions it never exceeds the time-aligned deviation."""
    return np.asarray(cross_track_distances(start, reference, accelerated, positions).max(axis=(-2, -1)))


def cross_track_distances(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> Float[np.ndarray, "*B l arms"]:
    """d from the accelerated motion to the nearest point of the original path, after each executed action."""
    return _follow(start, reference, accelerated, positions)[0]


def in_step_deviation(
    start: Float[np.ndarray, "*B arms 8"],
    reference: Float[np.ndarray, "*B n arms 8"],
    accelerated: Float[np.ndarray, "*B l arms 8"],
    positions: Float[np.ndarray, "*#B l"],
    stroke: float,
    reach: float = STROKE_REACH,
) -> Float[np.ndarray, "*B"]:
    """The largest of ``cross_track_distances`` plus ``stroke`` times how far fingers and arm are out of step:
    the difference between the fingers' opening (the eighth number, 0 closed .. 1 open) and what it was where the
    original motion passed the place that the arm has reached. Where an arm rests or passes twice, every such place will
    do: going to another place costs a whole stroke per ``reach``."""
    across = cross_track_distances(start[..., :7], reference[..., :7], accelerated[..., :7], positions)
    scale = np.append(np.ones(7), reach)
    both = cross_track_distances(start * scale, reference * scale, accelerated * scale, positions)
    out_of_step = np.maximum(both - across, 0.0) / reach
    return np.asarray((across + stroke * out_of_step).max(axis=(-2, -1)))


def along_track_lag(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> Float[np.ndarray, "*B l arms"]:
    """How many original steps the accelerated motion is behind (negative: ahead) after each executed action:
    the time minus the time at which the original motion passes the nearest point."""
    return _follow(start, reference, accelerated, positions)[1]


def _poses_at(
    at: Float[np.ndarray, "*#B q"],
    start: Float[np.ndarray, "*B arms P"],
    poses: Float[np.ndarray, "*B m arms P"],
    times: Float[np.ndarray, "*#B m"],
) -> Float[np.ndarray, "*B q arms P"]:
    """The motion that begins at ``start`` and passes ``poses`` at ``times``, read at the times ``at``."""
    knots = np.concatenate([start[..., None, :, :], poses], axis=-3)
    moments = np.concatenate([np.zeros_like(times[..., :1]), times], axis=-1)
    along = interpolate_poses(np.swapaxes(knots, -3, -2), moments[..., None, :], at[..., None, :])
    return np.swapaxes(along, -3, -2)


def _follow(
    start: Float[np.ndarray, "*B arms P"],
    reference: Float[np.ndarray, "*B n arms P"],
    accelerated: Float[np.ndarray, "*B l arms P"],
    positions: Float[np.ndarray, "*#B l"],
) -> tuple[Float[np.ndarray, "*B l arms"], Float[np.ndarray, "*B l arms"]]:
    """(distance to the original path, lag in original steps) after each executed action."""
    n, numbers = reference.shape[-3], reference.shape[-1]
    queries = _poses_at(positions, start, accelerated, positions)
    path = np.swapaxes(np.concatenate([start[..., None, :, :], reference], axis=-3), -3, -2)
    rows = np.swapaxes(queries, -3, -2)
    nearest, places = nearest_on_path(path.reshape(-1, n + 1, numbers), rows.reshape(-1, positions.shape[-1], numbers))
    nearest = np.swapaxes(nearest.reshape(rows.shape[:-1]), -2, -1)
    places = np.swapaxes(places.reshape(rows.shape[:-1]), -2, -1)
    # The point at the same time is on the path, too; with it the search can never do worse than time alignment.
    aligned = pose_distance(_poses_at(positions, start, reference, np.arange(1.0, n + 1)), queries)
    in_step = aligned <= nearest
    return np.minimum(nearest, aligned), np.where(in_step, 0.0, positions[..., None] - places)
