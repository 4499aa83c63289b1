"""Poses and rotations: a pose is 7 numbers, position in metres then a unit quaternion (x, y, z, w).

Functions work over any leading dimensions and keep the precision (float32 or float64) they are given.
A quaternion and its negative are the same rotation; what is returned has w >= 0 unless said otherwise.
"""

import numpy as np
from jaxtyping import Float, Int


def rotation_to_quaternion(values: Float[np.ndarray, "*B R"], representation: str) -> Float[np.ndarray, "*B 4"]:
    """Unit quaternions of rotations written as ``quaternion_xyzw``, ``quaternion_wxyz``, ``axis_angle`` (radians),
    ``euler_xyz`` (radians, extrinsic: about fixed x, then y, then z), ``six_d`` (the matrix's first two columns) or
    ``matrix`` (row by row); raises ValueError naming the first row that is no rotation."""
    match representation:
        case "quaternion_xyzw":
            quaternion = _normalize_quaternion(values)
        case "quaternion_wxyz":
            quaternion = _normalize_quaternion(np.roll(values, -1, axis=-1))
        case "axis_angle":
            quaternion = axis_angle_to_quaternion(values)
        case "euler_xyz":
            quaternion = _euler_to_quaternion(values)
        case "six_d":
            _refuse(~(_six_d_volume(values) > 1e-6), values, "six_d columns span no plane")
            quaternion = six_d_to_quaternion(values)
        case "matrix":
            columns = np.swapaxes(values.reshape(*values.shape[:-1], 3, 3), -1, -2)
            _refuse(~(np.linalg.det(columns) > 1e-6), values, "matrix is not right-handed")
            quaternion = six_d_to_quaternion(columns[..., :2, :].reshape(*values.shape[:-1], 6))
        case _:
            raise ValueError(f"unknown rotation representation {representation!r}")
    return canonical_sign(quaternion)


def quaternion_to_rotation(quaternions: Float[np.ndarray, "*B 4"], representation: str) -> Float[np.ndarray, "*B R"]:
    """The inverse of ``rotation_to_quaternion``; angles come out in radians, axis-angle turns in [0, pi]."""
    match representation:
        case "quaternion_xyzw":
            return canonical_sign(quaternions)
        case "quaternion_wxyz":
            return np.roll(canonical_sign(quaternions), 1, axis=-1)
        case "axis_angle":
            return quaternion_to_axis_angle(quaternions)
        case "euler_xyz":
            return _quaternion_to_euler(quaternions)
        case "six_d":
            return quaternion_to_six_d(quaternions)
        case "matrix":
            columns = quaternion_to_six_d(quaternions).reshape(*quaternions.shape[:-1], 2, 3)
            first, second = columns[..., 0, :], columns[..., 1, :]
            rows = np.stack([first, second, cross(first, second)], axis=-1)
            return rows.reshape(*quaternions.shape[:-1], 9)
        case _:
            raise ValueError(f"unknown rotation representation {representation!r}")


def nearest_writing(
    values: Float[np.ndarray, "*B R"], near: Float[np.ndarray, "*B R"], representation: str
) -> Float[np.ndarray, "*B R"]:
    """The same rotations, written with the numbers nearest to ``near``: a quaternion's other sign, angles a full turn
    on, the other Euler branch."""
    match representation:
        case "quaternion_xyzw" | "quaternion_wxyz":
            return np.where((values * near).sum(axis=-1, keepdims=True) < 0, -values, values)
        case "axis_angle":
            angle = np.linalg.norm(values, axis=-1, keepdims=True)
            axis = np.where(
                angle > 1e-9,
                values / np.maximum(angle, 1e-9),
                near / np.maximum(np.linalg.norm(near, axis=-1, keepdims=True), 1e-9),
            )
            turns = np.rint(((near * axis).sum(axis=-1, keepdims=True) - angle) / (2 * np.pi))
            return (values + 2 * np.pi * turns * axis).astype(values.dtype, copy=False)
        case "euler_xyz":
            other = np.stack([values[..., 0] + np.pi, np.pi - values[..., 1], values[..., 2] + np.pi], axis=-1)
            branches = [each + 2 * np.pi * np.rint((near - each) / (2 * np.pi)) for each in (values, other)]
            gaps = [np.abs(each - near).sum(axis=-1, keepdims=True) for each in branches]
            return np.where(gaps[0] <= gaps[1], *branches).astype(values.dtype, copy=False)
        case _:
            return values


def canonical_sign(quaternions: Float[np.ndarray, "*B 4"]) -> Float[np.ndarray, "*B 4"]:
    """The same rotations with w >= 0."""
    return np.where(quaternions[..., 3:] < 0, -quaternions, quaternions)


def axis_angle_to_quaternion(turns: Float[np.ndarray, "*B 3"]) -> Float[np.ndarray, "*B 4"]:
    """Unit quaternions of turns about ``turns`` by its length in radians (any length, sign not canonical)."""
    half = 0.5 * np.linalg.norm(turns, axis=-1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(half / np.pi) * turns, np.cos(half)], axis=-1).astype(turns.dtype, copy=False)


def quaternion_to_axis_angle(quaternions: Float[np.ndarray, "*B 4"]) -> Float[np.ndarray, "*B 3"]:
    """Turns of at most pi radians."""
    quaternions = canonical_sign(quaternions)
    vector = quaternions[..., :3]
    sine = np.linalg.norm(vector, axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, quaternions[..., 3:])
    return vector * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-12), 2.0)


def quaternion_to_six_d(quaternions: Float[np.ndarray, "*B 4"]) -> Float[np.ndarray, "*B 6"]:
    """The first two columns of the rotation matrix, one after the other (Zhou et al. 2019)."""
    x, y, z, w = np.moveaxis(quaternions, -1, 0)
    columns = [
        1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),
        2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w),
    ]  # fmt: skip
    return np.stack(columns, axis=-1)


def six_d_to_quaternion(six_d: Float[np.ndarray, "*B 6"]) -> Float[np.ndarray, "*B 4"]:
    """Quaternions by Gram-Schmidt; any finite input gives a unit quaternion, also columns that are zero or parallel;
    NaN stays NaN."""
    first, second = _scaled(six_d[..., :3]), _scaled(six_d[..., 3:])
    length = np.linalg.norm(first, axis=-1, keepdims=True)
    first = np.where(length <= 0.5, np.array([1, 0, 0], six_d.dtype), first / np.maximum(length, 0.5))
    second = _perpendicular(second, first)
    lost = np.linalg.norm(second, axis=-1, keepdims=True) < 1e-4
    # A direction at least 54 degrees from the first column stands in for a second column that says nothing.
    spare = np.eye(3, dtype=six_d.dtype)[np.argmin(np.abs(first), axis=-1)]
    second = np.where(lost, _perpendicular(spare, first), second)
    second = second / np.linalg.norm(second, axis=-1, keepdims=True)
    # Again: the first time loses digits when the columns are nearly parallel.
    second = _perpendicular(second, first)
    second = second / np.linalg.norm(second, axis=-1, keepdims=True)
    return _columns_to_quaternion(first, second, cross(first, second))


def quaternion_multiply(
    left: Float[np.ndarray, "*#B 4"], right: Float[np.ndarray, "*#B 4"]
) -> Float[np.ndarray, "*#B 4"]:
    """The rotation ``right`` followed by the rotation ``left`` (Hamilton product; sign not canonical)."""
    x1, y1, z1, w1 = np.moveaxis(left, -1, 0)
    x2, y2, z2, w2 = np.moveaxis(right, -1, 0)
    product = [
        w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
        w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
        w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
    ]
    return np.stack(product, axis=-1)


def turns_between(before: Float[np.ndarray, "*#B 4"], after: Float[np.ndarray, "*#B 4"]) -> Float[np.ndarray, "*B 3"]:
    """The turn about the world's axes, as axis-angle, that takes each orientation to the next; at most half a turn."""
    back = before * np.array([-1.0, -1.0, -1.0, 1.0])
    return quaternion_to_axis_angle(canonical_sign(quaternion_multiply(after, back)))


def rotate_vector(
    quaternions: Float[np.ndarray, "*#B 4"], vectors: Float[np.ndarray, "*#B 3"]
) -> Float[np.ndarray, "*#B 3"]:
    """The vectors turned by the rotations."""
    axis, w = quaternions[..., :3], quaternions[..., 3:]
    twice = 2.0 * cross(axis, vectors)
    return vectors + w * twice + cross(axis, twice)


def compose_poses(outer: Float[np.ndarray, "*#B 7"], inner: Float[np.ndarray, "*#B 7"]) -> Float[np.ndarray, "*#B 7"]:
    """The pose ``inner``, given in the frame of ``outer``, in the frame ``outer`` is given in."""
    position = outer[..., :3] + rotate_vector(outer[..., 3:], inner[..., :3])
    quaternion = canonical_sign(quaternion_multiply(outer[..., 3:], inner[..., 3:]))
    return np.concatenate([position, quaternion], axis=-1)


def nlerp(
    start: Float[np.ndarray, "*#B 4"], end: Float[np.ndarray, "*#B 4"], fraction: float | Float[np.ndarray, "*#B"]
) -> Float[np.ndarray, "*#B 4"]:
    """Unit quaternions on the shorter arc by normalised linear interpolation; exactly ``start`` at 0, ``end`` at 1."""
    share = np.asarray(fraction, dtype=start.dtype)[..., None]
    shorter = np.where((start * end).sum(axis=-1, keepdims=True) < 0, -end, end)
    mixed = (1 - share) * start + share * shorter
    mixed = mixed / np.linalg.norm(mixed, axis=-1, keepdims=True)
    return np.where(share <= 0, start, np.where(share >= 1, end, mixed))


def interpolate_poses(
    poses: Float[np.ndarray, "*B m P"], times: Float[np.ndarray, "*#B m"], at: Float[np.ndarray, "*#B n"]
) -> Float[np.ndarray, "*B n P"]:
    """Poses at the times ``at``: positions linear, rotations by NLERP, held before the first and after the last of
    the increasing ``times``; exactly the given pose at a given time. Numbers after the seventh are linear, too."""
    if times.shape[-1] == 1:
        return np.repeat(poses, at.shape[-1], axis=-2)
    after = np.clip((times[..., None, :] < at[..., :, None]).sum(axis=-1), 1, times.shape[-1] - 1)
    before_time, after_time = take_rows(times[..., None], after - 1), take_rows(times[..., None], after)
    span = np.maximum(after_time - before_time, 1e-12)  # times of padding may repeat
    share = np.clip((at[..., None] - before_time) / span, 0, 1).astype(poses.dtype)
    start, end = take_rows(poses, after - 1), take_rows(poses, after)
    mixed = (1 - share) * start + share * end
    turned = nlerp(start[..., 3:7], end[..., 3:7], np.broadcast_to(share[..., 0], mixed.shape[:-1]))
    return np.concatenate([mixed[..., :3], turned, mixed[..., 7:]], axis=-1)


def take_rows(table: Float[np.ndarray, "*#B n D"], rows: Int[np.ndarray, "*#B l"]) -> Float[np.ndarray, "*#B l D"]:
    """``table[..., rows, :]``, where every table of the batch may ask for its own rows."""
    if rows.ndim == 1:
        return table[..., rows, :]
    lead = np.broadcast_shapes(table.shape[:-2], rows.shape[:-1])
    whole = np.broadcast_to(table, (*lead, *table.shape[-2:]))
    return np.take_along_axis(whole, np.broadcast_to(rows, (*lead, rows.shape[-1]))[..., None], axis=-2)


def rotation_distance(a: Float[np.ndarray, "*#B 4"], b: Float[np.ndarray, "*#B 4"]) -> Float[np.ndarray, "*#B"]:
    """Half the angle between two rotations, arccos(abs(<a, b>)), in [0, pi/2] radians."""
    # arccos loses half the digits near zero (3e-4 rad in float32); the chords between the unit vectors do not.
    apart, together = np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1)
    return np.asarray(2.0 * np.arctan2(np.minimum(apart, together), np.maximum(apart, together)))


def six_d_angles(six_d: Float[np.ndarray, "*B m 6"]) -> Float[np.ndarray, "*B n"]:
    """Angles in radians from each rotation to the next, without the detour by way of quaternions."""
    first = six_d[..., :3] / np.maximum(np.linalg.norm(six_d[..., :3], axis=-1, keepdims=True), 1e-12)
    second = _perpendicular(six_d[..., 3:], first)
    second = second / np.maximum(np.linalg.norm(second, axis=-1, keepdims=True), 1e-12)
    columns = np.concatenate([first, second, cross(first, second)], axis=-1)
    # Two rotations that are an angle a apart differ by sqrt(8) sin(a / 2) in the Frobenius norm.
    chord = np.linalg.norm(np.diff(columns, axis=-2), axis=-1) / np.sqrt(8.0)
    return np.asarray(2.0 * np.arcsin(np.minimum(chord, 1.0)))


def pose_distance(a: Float[np.ndarray, "*#B P"], b: Float[np.ndarray, "*#B P"]) -> Float[np.ndarray, "*#B"]:
    """The paper's d: half the distance in metres plus half the angle in radians; what comes after the seven numbers of
    a pose adds its difference as it is."""
    distance = 0.5 * np.linalg.norm(a[..., :3] - b[..., :3], axis=-1)
    further = np.abs(a[..., 7:] - b[..., 7:]).sum(axis=-1)
    return np.asarray(distance + rotation_distance(a[..., 3:7], b[..., 3:7]) + further)


def cross(a: Float[np.ndarray, "*#B 3"], b: Float[np.ndarray, "*#B 3"]) -> Float[np.ndarray, "*#B 3"]:
    """The cross product, several times faster than numpy's on small arrays."""
    a1, a2, a3 = a[..., 0], a[..., 1], a[..., 2]
    b1, b2, b3 = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis=-1)


def _euler_to_quaternion(angles: Float[np.ndarray, "*B 3"]) -> Float[np.ndarray, "*B 4"]:
    """About the fixed axes x, then y, then z ("roll, pitch, yaw")."""
    half = 0.5 * angles
    turns = np.zeros((3, *angles.shape[:-1], 4), dtype=angles.dtype)
    for axis in range(3):
        turns[axis, ..., axis], turns[axis, ..., 3] = np.sin(half[..., axis]), np.cos(half[..., axis])
    return quaternion_multiply(turns[2], quaternion_multiply(turns[1], turns[0]))


def _quaternion_to_euler(quaternions: Float[np.ndarray, "*B 4"]) -> Float[np.ndarray, "*B 3"]:
    """With the pitch at 90 degrees many angles fit: the first is then all of the turn, the last is 0."""
    x, y, z, w = np.moveaxis(quaternions.astype(np.float64), -1, 0)
    # Sum and difference of the outer angles are exact for every pitch, also near 90 degrees (Bernardes, Viollet 2022).
    plus, minus = np.hypot(w + y, x - z), np.hypot(w - y, x + z)
    pitch = 2.0 * np.arctan2(plus, minus) - np.pi / 2
    total, difference = np.arctan2(x - z, w + y), np.arctan2(x + z, w - y)
    up, down = minus < 1e-7, plus < 1e-7
    roll = np.where(up, 2.0 * total, np.where(down, 2.0 * difference, difference + total))
    yaw = np.where(up | down, 0.0, difference - total)
    wrapped = [(angle + np.pi) % (2 * np.pi) - np.pi for angle in (roll, yaw)]
    return np.stack([wrapped[0], pitch, wrapped[1]], axis=-1).astype(quaternions.dtype)


def _normalize_quaternion(values: Float[np.ndarray, "*B 4"]) -> Float[np.ndarray, "*B 4"]:
    norm = np.linalg.norm(values, axis=-1, keepdims=True)
    _refuse(~((norm[..., 0] > 1e-6) & np.isfinite(norm[..., 0])), values, "quaternion has no direction")
    return values / norm


def _refuse(bad: np.ndarray | np.bool_, values: Float[np.ndarray, "*B R"], why: str) -> None:
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{why} at index {index}: {values[index]}")


def _six_d_volume(six_d: Float[np.ndarray, "*B 6"]) -> Float[np.ndarray, "*B"]:
    return np.asarray(np.linalg.norm(cross(six_d[..., :3], six_d[..., 3:]), axis=-1))


def _scaled(vectors: Float[np.ndarray, "*B 3"]) -> Float[np.ndarray, "*B 3"]:
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    return np.where(largest <= 1e-12, 0.0, vectors / np.maximum(largest, 1e-12))


def _perpendicular(vectors: Float[np.ndarray, "*B 3"], unit: Float[np.ndarray, "*B 3"]) -> Float[np.ndarray, "*B 3"]:
    return vectors - (vectors * unit).sum(axis=-1, keepdims=True) * unit


def _columns_to_quaternion(
    first: Float[np.ndarray, "*B 3"], second: Float[np.ndarray, "*B 3"], third: Float[np.ndarray, "*B 3"]
) -> Float[np.ndarray, "*B 4"]:
    """The quaternion of an orthonormal matrix: four formulas, the best conditioned one is taken."""
    m00, m10, m20 = np.moveaxis(first, -1, 0)
    m01, m11, m21 = np.moveaxis(second, -1, 0)
    m02, m12, m22 = np.moveaxis(third, -1, 0)
    table = np.stack(
        [
            np.stack([1 + m00 - m11 - m22, m01 + m10, m02 + m20, m21 - m12], axis=-1),
            np.stack([m01 + m10, 1 - m00 + m11 - m22, m12 + m21, m02 - m20], axis=-1),
            np.stack([m02 + m20, m12 + m21, 1 - m00 - m11 + m22, m10 - m01], axis=-1),
            np.stack([m21 - m12, m02 - m20, m10 - m01, 1 + m00 + m11 + m22], axis=-1),
        ],
        axis=-2,
    )
    best = np.argmax(np.stack([m00 - m11 - m22, m11 - m00 - m22, m22 - m00 - m11, m00 + m11 + m22], axis=-1), axis=-1)
    quaternion = np.take_along_axis(table, best[..., None, None], axis=-2)[..., 0, :]
    return canonical_sign(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True))
