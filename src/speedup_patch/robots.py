"""What every state and action dimension of a robot means; every robot we know is one constant.

Poses are 7 numbers: position in metres, then a unit quaternion in (x, y, z, w) order.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.maths.kinematics import forward_kinematics
from speedup_patch.maths.poses import rotation_to_quaternion

Mode = Literal["absolute", "delta", "gripper"]
"""How a command is resampled: a target to reach, a motion to add up, or a gripper command to hold."""

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


@dataclass(frozen=True)
class ActionGroup:
    """Neighbouring action dimensions that are resampled the same way."""

    names: tuple[str, ...]
    mode: Mode
    unit: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    drives: tuple[int, ...] = ()
    """The state dimension that each absolute or gripper command moves; empty when the state does not show it."""
    rotation: Rotation | None = None
    """Set when the group is one orientation (absolute) or one turn (delta, written as axis-angle)."""
    scale: float = 1.0
    """How much of ``unit`` an action of 1.0 stands for."""

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.low) == len(self.high):
            raise InputError(f"action group {self.names}: one low and one high limit per name")
        if self.drives and len(self.drives) != len(self.names):
            raise InputError(f"action group {self.names}: drives {self.drives} must name one state dimension each")
        if self.rotation and ROTATION_SIZES[self.rotation] != len(self.names):
            raise InputError(
                f"action group {self.names}: {self.rotation} takes {ROTATION_SIZES[self.rotation]} numbers"
            )
        if self.mode == "delta" and self.rotation not in (None, "axis_angle"):
            raise InputError(f"action group {self.names}: a turn is merged as axis_angle, not as {self.rotation}")


@dataclass(frozen=True)
class Link:
    """One revolute joint: where it sits on the link before it, and the axis it turns about."""

    position: tuple[float, float, float]
    axis: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class KinematicChain:
    """End-effector pose by forward kinematics from joint angles in the state (radians)."""

    joints: tuple[int, ...]
    base: tuple[float, ...]
    """Pose of the arm's base in the world, 7 numbers."""
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if len(self.joints) != len(self.links):
            raise InputError(f"a chain needs one link per joint: {len(self.joints)} joints, {len(self.links)} links")

    def pose(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B 7"]:
        """The pose of the last link's frame in the world."""
        return forward_kinematics(states[..., list(self.joints)], **self._constants)

    @cached_property
    def _constants(self) -> dict[str, np.ndarray]:
        return {
            "positions": np.array([link.position for link in self.links]),
            "quaternions": np.array([link.quaternion for link in self.links]),
            "axes": np.array([link.axis for link in self.links]),
            "base": np.array(self.base),
        }


@dataclass(frozen=True)
class StatePose:
    """End-effector pose that the state itself carries."""

    position: tuple[int, int, int]
    rotation: tuple[int, ...]
    representation: Rotation

    def __post_init__(self) -> None:
        if ROTATION_SIZES[self.representation] != len(self.rotation):
            raise InputError(f"{self.representation} takes {ROTATION_SIZES[self.representation]} state dimensions")

    def pose(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B 7"]:
        """The pose read from the state."""
        quaternion = rotation_to_quaternion(states[..., list(self.rotation)], self.representation)
        return np.concatenate([states[..., list(self.position)], quaternion], axis=-1)


@dataclass(frozen=True)
class Gripper:
    """One gripper: which action commands it, which state dimensions show it, and how long a full stroke takes."""

    action: int
    state: tuple[int, ...]
    closed: float
    open: float
    """The commands that close and open it; their middle separates the two."""
    stroke_steps: int
    """Control steps from a full-stroke command until the fingers are there."""


@dataclass(frozen=True)
class Arm:
    """One arm: where its end-effector pose comes from, and its gripper if it has one."""

    name: str
    pose: KinematicChain | StatePose
    gripper: Gripper | None = None


@dataclass(frozen=True)
class Robot:
    """Everything the patch knows about a robot before it has seen data."""

    name: str
    control_hz: float
    state_names: tuple[str, ...]
    actions: tuple[ActionGroup, ...]
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        if not self.arms:
            raise InputError(
                f"robot {self.name}: at least one arm is needed, deviation is measured at its end-effector"
            )
        indices = [i for group in self.actions for i in group.drives] + [
            i for arm in self.arms if arm.gripper for i in arm.gripper.state
        ]
        if any(not 0 <= i < self.state_size for i in indices):
            raise InputError(f"robot {self.name}: state indices must lie in 0..{self.state_size - 1}, got {indices}")

    @property
    def state_size(self) -> int:
        return len(self.state_names)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        return tuple(name for group in self.actions for name in group.names)

    @property
    def action_size(self) -> int:
        return len(self.action_names)

    @cached_property
    def action_slices(self) -> tuple[slice, ...]:
        """Where each action group sits in the action vector."""
        ends = np.cumsum([len(group.names) for group in self.actions])
        return tuple(
            slice(int(end) - len(group.names), int(end)) for end, group in zip(ends, self.actions, strict=True)
        )

    @cached_property
    def action_low(self) -> Float[np.ndarray, " A"]:
        return np.array([limit for group in self.actions for limit in group.low])

    @cached_property
    def action_high(self) -> Float[np.ndarray, " A"]:
        return np.array([limit for group in self.actions for limit in group.high])

    @cached_property
    def drives(self) -> dict[int, int]:
        """Action dimension -> the state dimension it moves, for commands that are targets."""
        return {
            part.start + offset: state
            for group, part in zip(self.actions, self.action_slices, strict=True)
            for offset, state in enumerate(group.drives)
        }

    @property
    def grippers(self) -> tuple[Gripper, ...]:
        return tuple(arm.gripper for arm in self.arms if arm.gripper is not None)

    def poses(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B arms 7"]:
        """The end-effector pose of every arm."""
        return np.stack([arm.pose.pose(states) for arm in self.arms], axis=-2)

    def check_sizes(self, state_size: int, action_size: int, what: str) -> None:
        """Raises an error that names ``what`` when its dimensions are not this robot's."""
        if (state_size, action_size) != (self.state_size, self.action_size):
            raise InputError(
                f"{what} has {state_size} state and {action_size} action dimensions, but robot {self.name!r} "
                f"has {self.state_size} and {self.action_size}"
            )


_VX300S_LINKS = (
    Link((0.0, 0.0, 0.079), (0.0, 0.0, 1.0)),
    Link((0.0, 0.0, 0.04805), (0.0, 1.0, 0.0)),
    Link((0.05955, 0.0, 0.3), (0.0, 1.0, 0.0)),
    Link((0.2, 0.0, 0.0), (1.0, 0.0, 0.0)),
    Link((0.1, 0.0, 0.0), (0.0, 1.0, 0.0)),
    Link((0.069744, 0.0, 0.0), (1.0, 0.0, 0.0)),
)
_VX300S_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
_VX300S_LOW = (-3.14158, -1.85005, -1.76278, -3.14158, -1.8675, -3.14158)
_VX300S_HIGH = (3.14158, 1.25664, 1.6057, 3.14158, 2.23402, 3.14158)


def _aloha_actions(side: str, first: int) -> tuple[ActionGroup, ActionGroup]:
    joints = tuple(f"{side}_{joint}" for joint in _VX300S_JOINTS)
    return (
        ActionGroup(joints, "absolute", "rad", _VX300S_LOW, _VX300S_HIGH, drives=tuple(range(first, first + 6))),
        ActionGroup((f"{side}_gripper",), "gripper", "0 closed .. 1 open", (0.0,), (1.0,), drives=(first + 6,)),
    )


def _aloha_arm(side: str, first: int, base: tuple[float, ...]) -> Arm:
    chain = KinematicChain(tuple(range(first, first + 6)), base, _VX300S_LINKS)
    return Arm(side, chain, Gripper(action=first + 6, state=(first + 6,), closed=0.0, open=1.0, stroke_steps=20))


ALOHA = Robot(
    name="aloha",
    control_hz=50.0,
    state_names=tuple(f"{side}_{name}" for side in ("left", "right") for name in (*_VX300S_JOINTS, "gripper")),
    actions=(*_aloha_actions("left", 0), *_aloha_actions("right", 7)),
    arms=(
        _aloha_arm("left", 0, (-0.469, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0)),
        _aloha_arm("right", 7, (0.469, 0.5, 0.0, 0.0, 0.0, 1.0, -3.673e-6)),
    ),
)
"""Two ViperX 300 arms with absolute joint targets: ALOHA, and gym-aloha's simulation of it."""

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (ALOHA,)}


def find_robot(name: str) -> Robot:
    """The robot of this name."""
    if name not in ROBOTS:
        raise InputError(f"unknown robot {name!r}; known robots: {', '.join(sorted(ROBOTS))}")
    return ROBOTS[name]
