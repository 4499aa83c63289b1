"""What every state and action dimension of a robot means.

Poses are 7 numbers: position in metres, then a unit quaternion in (x, y, z, w) order.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.robots.poses import ROTATION_SIZES, KinematicChain, Rotation, StatePose

Mode = Literal["absolute", "delta", "gripper"]
"""How a command is resampled: a target to reach, a motion to add up, or a gripper command to hold."""


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
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not low <= high:
                raise InputError(f"action {name}: the low limit {low} must not exceed the high limit {high}")
        if self.drives and len(self.drives) != len(self.names):
            raise InputError(f"action group {self.names}: drives {self.drives} must name one state dimension each")
        if self.rotation and ROTATION_SIZES[self.rotation] != len(self.names):
            raise InputError(
                f"action group {self.names}: {self.rotation} takes {ROTATION_SIZES[self.rotation]} numbers"
            )
        if self.mode == "delta" and self.rotation not in (None, "axis_angle"):
            raise InputError(f"action group {self.names}: a turn is merged as axis_angle, not as {self.rotation}")
        if self.mode == "delta" and self.drives:
            raise InputError(f"action group {self.names}: a delta command is no target, so it drives no state")


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

    def __post_init__(self) -> None:
        if self.closed == self.open:
            raise InputError(f"a gripper's closed and open commands must differ, both are {self.closed}")
        if self.stroke_steps < 1:
            raise InputError(f"a gripper's stroke takes at least one control step, not {self.stroke_steps}")


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
    rated_speeds: tuple[float, ...] = field(default=(), compare=False)
    """The data sheet's highest speed of every joint, rad/s (m/s where a joint slides), base to hand, arm after arm,
    without fingers; empty where it is not known. Ratings describe a robot; they do not make it another one."""
    rated_torques: tuple[float, ...] = field(default=(), compare=False)
    """The same for what moves the joint, N m (N where it slides)."""

    def __post_init__(self) -> None:
        if not 0 < self.control_hz < np.inf:
            raise InputError(f"robot {self.name}: the control frequency must be positive, not {self.control_hz} Hz")
        if not self.arms:
            raise InputError(
                f"robot {self.name}: at least one arm is needed, deviation is measured at its end-effector"
            )
        _refuse_repeats(self.name, "state", self.state_names)
        _refuse_repeats(self.name, "action", self.action_names)
        _refuse_bad_ratings(self.name, self.rated_speeds, self.rated_torques)
        used = [i for group in self.actions for i in group.drives]
        used += [i for arm in self.arms for i in (*arm.pose.state_indices, *(arm.gripper.state if arm.gripper else ()))]
        if any(not 0 <= i < self.state_size for i in used):
            raise InputError(f"robot {self.name}: state indices must lie in 0..{self.state_size - 1}, got {used}")
        in_poses = {i for arm in self.arms if isinstance(arm.pose, StatePose) for i in arm.pose.state_indices}
        if driven := sorted(in_poses.intersection(self.drives.values())):
            names = ", ".join(self.state_names[i] for i in driven)
            raise InputError(
                f"robot {self.name}: {names}: an end-effector pose in the state is not driven; leave drives empty"
            )
        for arm in self.arms:
            if arm.gripper and not self._commands_gripper(arm.gripper.action):
                raise InputError(
                    f"robot {self.name}: the gripper of arm {arm.name!r} is commanded by action {arm.gripper.action}, "
                    f"which must be an action of mode gripper in 0..{self.action_size - 1}"
                )

    def _commands_gripper(self, action: int) -> bool:
        parts = zip(self.actions, self.action_slices, strict=True)
        return any(group.mode == "gripper" and part.start <= action < part.stop for group, part in parts)

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
    def resampled_together(self) -> tuple[tuple[ActionGroup, tuple[int, ...]], ...]:
        """The action dimensions that one rule resamples, with a group that shows the rule; rotations stay apart."""
        alike: dict[object, tuple[ActionGroup, tuple[int, ...]]] = {}
        for group, part in zip(self.actions, self.action_slices, strict=True):
            rule = part.start if group.rotation else group.mode
            _, columns = alike.get(rule, (group, ()))
            alike[rule] = (group, (*columns, *range(part.start, part.stop)))
        return tuple(alike.values())

    @cached_property
    def translations(self) -> tuple[tuple[int, ...] | None, ...]:
        """Per arm, the action dimensions that tell its end-effector how far to move; None where nothing does."""
        return self._told_motions(turns=False)

    @cached_property
    def turns(self) -> tuple[tuple[int, ...] | None, ...]:
        """Per arm, the action dimensions that tell its end-effector how far to turn; None where nothing does."""
        return self._told_motions(turns=True)

    def _told_motions(self, *, turns: bool) -> tuple[tuple[int, ...] | None, ...]:
        found = [
            tuple(range(part.start, part.stop))
            for group, part in zip(self.actions, self.action_slices, strict=True)
            if group.mode == "delta" and bool(group.rotation) == turns and part.stop - part.start == 3
        ]
        return tuple(found) if len(found) == len(self.arms) else (None,) * len(self.arms)

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

    def hold(self, action: Float[np.ndarray, " A"]) -> Float[np.ndarray, " A"]:
        """The command that keeps the robot where ``action`` has sent it: the same targets, no motion, and the same
        gripper commands."""
        moving = [group.mode == "delta" for group in self.actions for _ in group.names]
        return np.where(moving, np.zeros_like(action), action)

    def poses(self, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B arms 7"]:
        """The end-effector pose of every arm."""
        return np.stack([arm.pose.pose(states) for arm in self.arms], axis=-2)

    def at(self, control_hz: float) -> "Robot":
        """The same robot at another control frequency: a gripper's stroke takes as long, so it takes other steps.

        Limits and scales stay as they are: they belong to one action, whatever its duration.
        """
        if not 0 < control_hz < np.inf:
            raise InputError(f"robot {self.name}: the control frequency must be positive, not {control_hz} Hz")
        ratio = control_hz / self.control_hz
        arms = tuple(
            replace(arm, gripper=replace(arm.gripper, stroke_steps=max(1, round(ratio * arm.gripper.stroke_steps))))
            if arm.gripper
            else arm
            for arm in self.arms
        )
        return replace(self, control_hz=float(control_hz), arms=arms)

    def check_sizes(self, state_size: int, action_size: int, what: str) -> None:
        """Raises an error that names ``what`` when its dimensions are not this robot's."""
        if (state_size, action_size) != (self.state_size, self.action_size):
            raise InputError(
                f"{what} has {state_size} state and {action_size} action dimensions, but robot {self.name!r} "
                f"has {self.state_size} and {self.action_size}"
            )


def _refuse_bad_ratings(robot: str, speeds: tuple[float, ...], torques: tuple[float, ...]) -> None:
    if any(not 0 < rating < np.inf for rating in (*speeds, *torques)):
        raise InputError(f"robot {robot}: a joint's rating must be a positive number, got {speeds} and {torques}")
    if speeds and torques and len(speeds) != len(torques):
        raise InputError(f"robot {robot}: {len(speeds)} rated speeds, but {len(torques)} rated torques; one per joint")


def _refuse_repeats(robot: str, kind: str, names: tuple[str, ...]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"robot {robot}: every {kind} dimension needs a name of its own, repeated: {repeated}")
