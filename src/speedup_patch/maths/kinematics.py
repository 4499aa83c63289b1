"""Forward kinematics of a serial arm with hinges and slides."""

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.maths.poses import canonical_sign, compose_poses, cross, quaternion_multiply, rotate_vector


def forward_kinematics(
    joints: Float[np.ndarray, "*B J"],
    *,
    positions: Float[np.ndarray, "J 3"],
    quaternions: Float[np.ndarray, "J 4"],
    axes: Float[np.ndarray, "J 3"],
    base: Float[np.ndarray, "7"],
    slides: Bool[np.ndarray, " J"] | None = None,
    tool: Float[np.ndarray, "7"] | None = None,
) -> Float[np.ndarray, "*B 7"]:
    """The tool's pose (float64) for joint values in radians, or metres where ``slides``: from ``base``, each link is
    placed at its offset (metres, quaternion) from the link before it and then turned about, or slid along, its axis;
    ``tool`` is a fixed pose on the last link."""
    count = joints.shape[-1]
    factors = _link_factors(*(np.asarray(part, np.float64).tobytes() for part in (positions, quaternions, axes)))
    values = joints.reshape(-1, count).astype(np.float64)
    half = 0.5 * values if slides is None else 0.5 * np.where(slides, 0.0, values)
    cosine, sine = np.cos(half), np.sin(half)
    frames = np.empty((count + 1, len(half), 4))
    frames[0] = base[3:] / np.sqrt(base[3:] @ base[3:])
    offsets = np.empty((count, len(half), 4))
    for i in range(count):
        product = frames[i] @ factors[i]
        offsets[i] = product[:, 8:]
        frames[i + 1] = cosine[:, i, None] * product[:, :4] + sine[:, i, None] * product[:, 4:8]
    # Frame * position * conjugate(frame), summed over the links; ``offsets`` holds the first two factors.
    axis, w, vector = frames[:-1, :, :3], frames[:-1, :, 3:], offsets[..., :3]
    position = base[:3] + (w * vector - offsets[..., 3:] * axis - cross(vector, axis)).sum(axis=0)
    if slides is not None:
        directions = axes[slides] / np.linalg.norm(axes[slides], axis=-1, keepdims=True)
        moves = values.T[slides][..., None] * directions[:, None]
        position = position + rotate_vector(frames[1:][slides], moves).sum(axis=0)
    poses = np.concatenate([position, canonical_sign(frames[-1])], axis=-1)
    if tool is not None:
        poses = compose_poses(poses, tool)
    return poses.reshape(*joints.shape[:-1], 7)


@lru_cache(maxsize=64)  # a robot's links never change, and building this takes longer than one state's pose
def _link_factors(positions: bytes, quaternions: bytes, axes: bytes) -> Float[np.ndarray, "J 4 12"]:
    """Matrices that map a frame's quaternion q to q * offset, q * offset * axis and q * position, one per link.

    q * offset * turn(angle) = cos(angle / 2) * (q * offset) + sin(angle / 2) * (q * offset * axis), where
    multiplying by a constant is linear, so that a joint costs one product with a 4 x 12 matrix.
    """
    places, directions = np.frombuffer(positions).reshape(-1, 3), np.frombuffer(axes).reshape(-1, 3)
    turns = np.frombuffer(quaternions).reshape(-1, 4)
    lengths = np.linalg.norm(directions, axis=-1, keepdims=True)
    if not (lengths > 0).all():
        raise ValueError(f"joint axis {int(np.argmin(lengths))} has no direction")
    turns = turns / np.linalg.norm(turns, axis=-1, keepdims=True)
    pure = np.zeros((len(places), 1))
    axis = np.concatenate([directions / lengths, pure], axis=-1)
    place = np.concatenate([places, pure], axis=-1)
    constants = np.stack([turns, quaternion_multiply(turns, axis), place], axis=1)
    factors = quaternion_multiply(np.eye(4)[:, None], constants[:, None])
    return factors.reshape(len(places), 4, 12)
