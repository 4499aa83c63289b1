"""Where an arm's end-effector pose comes from: forward kinematics over joints, or the state itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.maths.kinematics import forward_kinematics
from speedup_patch.maths.poses import rotation_to_quaternion

Rotation = Literal["quaternion_xyzw", "quaternion_wxyz", "axis_angle", "euler_xyz", "six_d", "matrix"]
"""How an orientation is written down."""

ROTATION_SIZES: dict[Rotation, int] = {
    "quaternion_xyzw": 4,
    "quaternion_wxyz": 4,
    "axis_angle": 3,
    "euler_xyz": 3,
    "six_d": 6,
    "matrix": 9,
}

HERE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
"""The pose that changes nothing."""


@dataclass(frozen=True)
class Link:
    """One joint: where it sits on the link before it, and the axis it turns about or slides along.

    The joint stands at ``scale * state + offset``, in radians for a hinge and in metres for a slide.
    """

    position: tuple[float, float, float]
    axis: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    slides: bool = False
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        _refuse_bad_pose((*self.position, *self.quaternion), "a link's position and quaternion")
        if len(self.axis) != 3 or not 1e-9 < float(np.linalg.norm(self.axis)) < np.inf:
            raise InputError(f"a joint's axis must be 3 finite numbers, not all zero: {self.axis}")
        if not np.isfinite([self.scale, self.offset]).all() or self.scale == 0:
            raise InputError(
                f"a joint's scale must be finite and not 0, its offset finite: {self.scale}, {self.offset}"
            )


@dataclass(frozen=True)
class KinematicChain:
    """End-effector pose by forward kinematics from the joints in the state."""

    joints: tuple[int, ...]
    """The state dimension that shows each joint, from the base outwards."""
    base: tuple[float, ...]
    """Pose of the arm's base in the world, 7 numbers."""
    links: tuple[Link, ...]
    tool: tuple[float, ...] = HERE
    """Pose of the end-effector on the last link, 7 numbers."""

    def __post_init__(self) -> None:
        if len(self.joints) != len(self.links) or not self.links:
            raise InputError(
                f"a chain needs one link per joint, and one at least: {len(self.joints)} joints, "
                f"{len(self.links)} links"
            )
        _refuse_bad_pose(self.base, "a chain's base")
        _refuse_bad_pose(self.tool, "a chain's tool")

    @property
    def state_indices(self) -> tuple[int, ...]:
        """The state dimensions it reads."""
        return self.joints

    def pose(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B 7"]:
        """The pose of the tool in the world."""
        values = states[..., list(self.joints)]
        if self._units is not None:
            values = self._units[0] * values + self._units[1]
        return forward_kinematics(values, **self._constants)

    @cached_property
    def _units(self) -> Float[np.ndarray, "2 J"] | None:
        """Scales and offsets of the joints; None when the state is in radians and metres already."""
        units = np.array([[link.scale for link in self.links], [link.offset for link in self.links]])
        return None if (units == [[1.0], [0.0]]).all() else units

    @cached_property
    def _constants(self) -> dict[str, Any]:
        slides = np.array([link.slides for link in self.links])
        return {
            "positions": np.array([link.position for link in self.links]),
            "quaternions": np.array([link.quaternion for link in self.links]),
            "axes": np.array([link.axis for link in self.links]),
            "base": np.array(self.base),
            "slides": slides if slides.any() else None,
            "tool": None if self.tool == HERE else np.array([*self.tool[:3], *_unit(self.tool[3:])]),
        }


@dataclass(frozen=True)
class StatePose:
    """End-effector pose that the state itself carries."""

    position: tuple[int, int, int]
    rotation: tuple[int, ...]
    representation: Rotation

    def __post_init__(self) -> None:
        if self.representation not in ROTATION_SIZES:
            raise InputError(f"unknown rotation {self.representation!r}; one of {', '.join(ROTATION_SIZES)} is right")
        if len(self.position) != 3:
            raise InputError(f"a position takes 3 state dimensions, not {len(self.position)}")
        if ROTATION_SIZES[self.representation] != len(self.rotation):
            raise InputError(f"{self.representation} takes {ROTATION_SIZES[self.representation]} state dimensions")

    @property
    def state_indices(self) -> tuple[int, ...]:
        """The state dimensions it reads."""
        return (*self.position, *self.rotation)

    def pose(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B 7"]:
        """The pose read from the state."""
        try:
            quaternion = rotation_to_quaternion(states[..., list(self.rotation)], self.representation)
        except ValueError as error:
            raise InputError(f"state dimensions {self.rotation} hold no {self.representation}: {error}") from error
        return np.concatenate([states[..., list(self.position)], quaternion], axis=-1)


def _refuse_bad_pose(pose: tuple[float, ...], what: str) -> None:
    if len(pose) != 7 or not np.isfinite(pose).all() or not np.linalg.norm(pose[3:]) > 1e-9:
        raise InputError(f"{what} must be 7 finite numbers, the last 4 a quaternion of length above 0: {pose}")


def _unit(quaternion: tuple[float, ...]) -> tuple[float, ...]:
    return tuple((np.array(quaternion) / np.linalg.norm(quaternion)).tolist())
