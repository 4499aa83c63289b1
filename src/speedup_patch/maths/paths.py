"""Where a path of poses passes nearest to a pose, in the paper's distance d."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.maths.poses import nlerp, pose_distance

_BLOCK = 128  # paths handled at once, so that the pairwise tables fit a processor's cache
_BLENDS = np.linspace(0.0, 1.0, 9)


def nearest_on_path(
    path: Float[np.ndarray, "N m P"], queries: Float[np.ndarray, "N q P"]
) -> tuple[Float[np.ndarray, "N q"], Float[np.ndarray, "N q"]]:
    """(d to the path's nearest point, where that is: i + f lies a fraction f of the way from pose i to pose i + 1).

    Between its poses a path is linear in position and NLERP in rotation. Where position and rotation are nearest at
    different points of a segment, the best of nine points between those two is taken. A path of one pose is a point.
    An eighth number, such as a gripper's opening, is linear and adds its difference to d.
    """
    distances = np.empty(queries.shape[:2], dtype=queries.dtype)
    places = np.zeros(queries.shape[:2], dtype=queries.dtype)
    if path.shape[1] == 1:
        return pose_distance(path, queries), places
    for first in range(0, len(queries), _BLOCK):
        rows = slice(first, first + _BLOCK)
        segment, fraction = _nearest_point(path[rows].astype(np.float64), queries[rows].astype(np.float64))
        start = np.take_along_axis(path[rows], segment[..., None], axis=1)
        end = np.take_along_axis(path[rows], segment[..., None] + 1, axis=1)
        share = fraction.astype(path.dtype)
        mixed = (1 - share[..., None]) * start + share[..., None] * end
        turned = nlerp(start[..., 3:7], end[..., 3:7], share)
        point = np.concatenate([mixed[..., :3], turned, mixed[..., 7:]], axis=-1)
        distances[rows] = pose_distance(point, queries[rows])
        places[rows] = segment + fraction
    return distances, places


def nearest_on_polyline(path: Float[np.ndarray, "N m D"], points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """The point of each path, straight between its corners, that lies nearest to a point."""
    begin, along = path[:, :-1], np.diff(path, axis=1)
    share = ((points[:, None] - begin) * along).sum(axis=-1) / np.maximum(np.square(along).sum(axis=-1), 1e-18)
    candidates = begin + np.clip(share, 0.0, 1.0)[..., None] * along
    nearest = np.square(candidates - points[:, None]).sum(axis=-1).argmin(axis=1)
    return np.take_along_axis(candidates, nearest[:, None, None], axis=1)[:, 0]


class _Offsets(NamedTuple):
    """Where queries lie relative to segments, enough to tell d to any point of a segment."""

    squared: np.ndarray
    """Squared distance from the segment's start, in position."""
    along: np.ndarray
    """Inner product of the offset from the start and the segment."""
    length: np.ndarray
    """Squared length of the segment."""
    first: np.ndarray
    last: np.ndarray
    """Inner products of the query's quaternion with those of the two ends, signs chosen for the shorter arcs."""
    chord: np.ndarray
    """Inner product of the quaternions of the two ends."""
    beyond: np.ndarray
    climb: np.ndarray
    """The eighth number of the query minus that of the segment's start, and how much it grows along the segment."""

    def distance(self, fraction: np.ndarray) -> np.ndarray:
        """d to the point at ``fraction``, good to about 1e-8."""
        offset = np.sqrt(np.maximum(self.squared + fraction * (fraction * self.length - 2 * self.along), 0.0))
        cosine = self.first + fraction * (self.last - self.first)
        cosine /= np.sqrt(1 - 2 * (1 - self.chord) * fraction * (1 - fraction))
        return 0.5 * offset + np.arccos(np.minimum(np.abs(cosine), 1.0)) + np.abs(self.beyond - fraction * self.climb)


def _nearest_point(
    path: Float[np.ndarray, "N m P"], queries: Float[np.ndarray, "N q P"]
) -> tuple[Int[np.ndarray, "N q"], Float[np.ndarray, "N q"]]:
    """(the segment that passes nearest, the fraction of it that lies before the nearest point)."""
    offsets = _measure(path, queries)
    by_position, by_rotation = _nearest_fractions(offsets)
    nearest = np.minimum(offsets.distance(by_position), offsets.distance(by_rotation))
    blends = [(by_position, by_rotation)]
    if path.shape[-1] > 7:
        by_further = np.clip(offsets.beyond / np.where(np.abs(offsets.climb) < 1e-12, np.inf, offsets.climb), 0, 1)
        nearest = np.minimum(nearest, offsets.distance(by_further))
        blends.append((by_position, by_further))
    # Two segments that meet at the nearest pose tie here, so that the neighbours have to be asked as well.
    around = nearest.argmin(axis=-1)[..., None] + np.arange(-1, 2)
    segments = np.clip(around, 0, nearest.shape[-1] - 1)

    def take(table: np.ndarray) -> np.ndarray:
        return np.take_along_axis(np.broadcast_to(table, nearest.shape), segments, axis=-1)[..., None]

    fractions = np.concatenate([(1 - _BLENDS) * take(one) + _BLENDS * take(other) for one, other in blends], axis=-1)
    distances = _Offsets(*map(take, offsets)).distance(fractions)
    best = distances.reshape(*distances.shape[:2], -1).argmin(axis=-1)[..., None]
    fraction = np.take_along_axis(fractions.reshape(*fractions.shape[:2], -1), best, axis=-1)
    return np.take_along_axis(segments, best // fractions.shape[-1], axis=-1)[..., 0], fraction[..., 0]


def _nearest_fractions(offsets: _Offsets) -> tuple[Float[np.ndarray, "N q s"], Float[np.ndarray, "N q s"]]:
    """How far along every segment the position is nearest to every query, and how far the rotation is."""
    _, along, length, first, last, chord, _, _ = offsets
    by_position = np.clip(along / np.maximum(length, 1e-18), 0, 1)
    # NLERP passes through (1 - f) * start + f * end, and is nearest where that is the query's projection on the two.
    by_rotation = np.clip((last - chord * first) / np.maximum((1 - chord) * (first + last), 1e-18), 0, 1)
    # Where the position stands still every point is nearest, so that the rotation decides, and the other way round.
    by_position = np.where(length < 1e-18, by_rotation, by_position)
    return by_position, np.where(chord > 1 - 1e-12, by_position, by_rotation)


def _measure(path: Float[np.ndarray, "N m P"], queries: Float[np.ndarray, "N q P"]) -> _Offsets:
    """Every query relative to every segment."""
    position, asked = path[..., :3], queries[..., :3]
    start, step = position[:, :-1], np.diff(position, axis=1)
    inner = asked @ position.swapaxes(1, 2)
    squared = np.square(asked).sum(-1)[..., None] - 2 * inner[..., :-1] + np.square(start).sum(-1)[:, None]
    along = np.diff(inner, axis=-1) - (start * step).sum(-1)[:, None]

    rotation = path[..., 3:7]
    chord = (rotation[:, :-1] * rotation[:, 1:]).sum(-1)
    inner = queries[..., 3:7] @ rotation.swapaxes(1, 2)
    first, last = inner[..., :-1], np.where(chord < 0, -1.0, 1.0)[:, None] * inner[..., 1:]
    side = np.where(first + last < 0, -1.0, 1.0)
    length = np.square(step).sum(-1)[:, None]
    further = path[..., 7:].sum(axis=-1)
    beyond = queries[..., 7:].sum(axis=-1)[..., None] - further[:, None, :-1]
    climb = np.diff(further, axis=1)[:, None]
    return _Offsets(squared, along, length, side * first, side * last, np.abs(chord)[:, None], beyond, climb)
