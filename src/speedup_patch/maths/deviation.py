"""How far an accelerated chunk strays from the original one, at the end-effectors.

All functions take the poses that a world model (or a simulator) predicts: ``start`` before the chunk, ``reference``
after each of its n actions, ``accelerated`` after each of the l executed actions; the j-th of those belongs to
original time ``positions[j]``. In between, positions are linear and rotations NLERP, from ``start`` at time 0.
After the last position (a dropped tail) the last pose is held, so that motion that never happens counts.
"""

import numpy as np
from jaxtyping import Float

from speedup_patch.maths.paths import nearest_on_path
from speedup_patch.maths.poses import interpolate_poses, pose_distance


def time_aligned_deviation(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "*B"]:
    """The paper's E: the largest distance d over the arms and the original times 1..n."""
    return np.asarray(time_aligned_distances(start, reference, accelerated, positions).max(axis=(-2, -1)))


def time_aligned_distances(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "*B n arms"]:
    """d between the two motions at each original time 1..n."""
    at = np.arange(1.0, reference.shape[-3] + 1)
    return pose_distance(reference, _poses_at(at, start, accelerated, positions))


def cross_track_deviation(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "*B"]:
    """How far the accelerated motion leaves the original path, wherever along it: the largest of
    ``cross_track_distances``. At whole-numbered positions it never exceeds the time-aligned deviation."""
    return np.asarray(cross_track_distances(start, reference, accelerated, positions).max(axis=(-2, -1)))


def cross_track_distances(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "*B q arms"]:
    """d from the accelerated motion to the nearest point of the original path, at each of ``comparison_times``."""
    return _follow(start, reference, accelerated, positions)[0]


def along_track_lag(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> Float[np.ndarray, "*B q arms"]:
    """How many original steps the accelerated motion is behind (negative: ahead) at each of ``comparison_times``:
    the time minus the time at which the original motion passes the nearest point."""
    return _follow(start, reference, accelerated, positions)[1]


def comparison_times(positions: Float[np.ndarray, " l"], n: int) -> Float[np.ndarray, " q"]:
    """The original times at which a path is compared: 1..n, and the positions between them (q = n without any)."""
    between = positions[np.abs(positions - np.rint(positions)) > 1e-9]
    return np.union1d(np.arange(1.0, n + 1), between)


def _poses_at(
    at: Float[np.ndarray, " q"],
    start: Float[np.ndarray, "*B arms 7"],
    poses: Float[np.ndarray, "*B m arms 7"],
    times: Float[np.ndarray, " m"],
) -> Float[np.ndarray, "*B q arms 7"]:
    """The motion that begins at ``start`` and passes ``poses`` at ``times``, read at the times ``at``."""
    knots = np.concatenate([start[..., None, :, :], poses], axis=-3)
    along = interpolate_poses(np.swapaxes(knots, -3, -2), np.concatenate([np.zeros(1), times]), at)
    return np.swapaxes(along, -3, -2)


def _follow(
    start: Float[np.ndarray, "*B arms 7"],
    reference: Float[np.ndarray, "*B n arms 7"],
    accelerated: Float[np.ndarray, "*B l arms 7"],
    positions: Float[np.ndarray, " l"],
) -> tuple[Float[np.ndarray, "*B q arms"], Float[np.ndarray, "*B q arms"]]:
    """(distance to the original path, lag in original steps) at each comparison time."""
    n = reference.shape[-3]
    at = comparison_times(positions, n)
    queries = _poses_at(at, start, accelerated, positions)
    path = np.swapaxes(np.concatenate([start[..., None, :, :], reference], axis=-3), -3, -2)
    rows = np.swapaxes(queries, -3, -2)
    nearest, places = nearest_on_path(path.reshape(-1, n + 1, 7), rows.reshape(-1, len(at), 7))
    nearest = np.swapaxes(nearest.reshape(rows.shape[:-1]), -2, -1)
    places = np.swapaxes(places.reshape(rows.shape[:-1]), -2, -1)
    # The point at the same time is on the path, too; with it the search can never do worse than time alignment.
    aligned = pose_distance(_poses_at(at, start, reference, np.arange(1.0, n + 1)), queries)
    in_step = aligned <= nearest
    return np.minimum(nearest, aligned), np.where(in_step, 0.0, at[:, None] - places)
