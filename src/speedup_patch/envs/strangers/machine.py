"""How a stranger is seen by the package: names, units and limits of its state and actions."""

from math import ceil, degrees, pi, radians

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.strangers.bodies import FreeHand, JointArm, find_arms
from speedup_patch.envs.strangers.spec import FingerUnits, Stranger
from speedup_patch.maths.poses import (
    axis_angle_to_quaternion,
    quaternion_to_axis_angle,
    quaternion_to_rotation,
    rotation_to_quaternion,
)
from speedup_patch.robots import ROTATION_SIZES, ActionGroup, Arm, Gripper, Robot, StatePose

FINGER_COMMANDS: dict[FingerUnits, tuple[float, float]] = {
    "share": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "inverse": (1.0, 0.0),
    "metres": (0.0, 0.08),
    "sign": (1.0, -1.0),
}
"""The commands that close and open the fingers."""
OPEN_METRES = 0.08
"""What the state shows of open fingers whose command is a sign."""
JOINT_RANGE = 2.8
"""Radians to either side of its start that a joint may be sent."""


def describe(stranger: Stranger) -> Robot:
    """The Robot that a newcomer would write down."""
    names: list[str] = []
    groups: list[ActionGroup] = []
    arms: list[Arm] = []
    actions = 0
    for number, body in enumerate(find_arms(stranger)):
        prefix = "" if stranger.arms == 1 else f"{('right', 'left')[number]}_"
        first = len(names)
        parts, pose, states = _arm_parts(stranger, body, prefix, first)
        fingers = first + len(states)
        names += [*states, f"{prefix}fingers"]
        groups += [*parts, _finger_group(stranger, prefix, fingers)]
        actions += sum(len(part.names) for part in parts) + 1
        closed, opened = FINGER_COMMANDS[stranger.fingers.units]
        gripper = Gripper(actions - 1, (fingers,), closed, opened, _stroke_steps(stranger))
        arms.append(Arm(f"{prefix}arm", pose, gripper))
    return Robot(stranger.name, stranger.control_hz, tuple(names), tuple(groups), tuple(arms))


def _arm_parts(stranger: Stranger, body: JointArm | FreeHand, prefix: str, first: int):
    """(action groups, where the pose comes from, state names) of one arm whose state begins at ``first``."""
    if isinstance(body, JointArm):
        states = [f"{prefix}joint_{joint}" for joint in range(body.axes)]
        columns = tuple(range(first, first + body.axes))
        in_degrees = stranger.control == "joints_deg"
        return (
            (_joint_group(stranger, body, states, columns),),
            body.chain(columns, radians(1.0) if in_degrees else 1.0),
            states,
        )
    width = ROTATION_SIZES[stranger.rotation]
    place = tuple(f"{prefix}{axis}" for axis in "xyz")
    turn = tuple(f"{prefix}{stranger.rotation}_{part}" for part in range(width))
    columns = tuple(range(first, first + 3 + width))
    pose = StatePose((first, first + 1, first + 2), columns[3:], stranger.rotation)
    if stranger.control == "delta":
        far, angle = delta_scales(stranger)
        axes = tuple(f"{prefix}turn_{axis}" for axis in "xyz")
        parts = (
            ActionGroup(
                tuple(f"{prefix}delta_{axis}" for axis in "xyz"), "delta", "m", (-1.0,) * 3, (1.0,) * 3, scale=far
            ),
            ActionGroup(axes, "delta", "rad", (-1.0,) * 3, (1.0,) * 3, rotation="axis_angle", scale=angle),
        )
        return parts, pose, [*place, *turn]
    far, most = 2.0 * stranger.size, pi if stranger.rotation == "euler_xyz" else 1.0
    parts = (
        ActionGroup(place, "absolute", "m", (-far,) * 3, (far,) * 3),
        ActionGroup(
            turn,
            "absolute",
            "rad" if most > 1 else "1",
            (-most,) * width,
            (most,) * width,
            rotation=stranger.rotation,
        ),
    )
    return parts, pose, [*place, *turn]


def _joint_group(stranger: Stranger, body: JointArm, states: list[str], columns: tuple[int, ...]) -> ActionGroup:
    if stranger.control == "velocity":
        names = tuple(f"{state}_velocity" for state in states)
        count = len(names)
        return ActionGroup(names, "delta", "rad", (-1.0,) * count, (1.0,) * count, scale=velocity_scale(stranger))
    in_degrees = stranger.control == "joints_deg"
    unit = degrees(1.0) if in_degrees else 1.0
    low, high = (tuple((unit * (body.home + side * JOINT_RANGE)).tolist()) for side in (-1.0, 1.0))
    return ActionGroup(tuple(states), "absolute", "deg" if in_degrees else "rad", low, high, drives=columns)


def _finger_group(stranger: Stranger, prefix: str, state: int) -> ActionGroup:
    units = stranger.fingers.units
    closed, opened = FINGER_COMMANDS[units]
    drives = () if units == "sign" else (state,)
    unit = f"{closed:g} closed .. {opened:g} open"
    return ActionGroup((f"{prefix}fingers",), "gripper", unit, (min(closed, opened),), (max(closed, opened),), drives)


def _stroke_steps(stranger: Stranger) -> int:
    fingers = stranger.fingers
    seconds = fingers.delay_seconds + max(fingers.stroke_seconds, fingers.ramp_seconds)
    return max(1, ceil(seconds * stranger.control_hz))


def axis_speeds(stranger: Stranger) -> tuple[float, float]:
    """How fast the operator moves an axis: (a hinge in rad/s or a free hand in m/s, a free hand's turn in rad/s)."""
    if stranger.joints:
        return stranger.speed / (0.4 * stranger.size), 0.0
    return stranger.speed, 1.2 * stranger.operator.pace


def delta_scales(stranger: Stranger) -> tuple[float, float]:
    """Metres and radians that a delta command of 1 stands for."""
    far, angle = (speed / stranger.command_share for speed in axis_speeds(stranger))
    seconds = 1.0 / stranger.control_hz if stranger.integrates else settle_seconds(stranger)
    return far * seconds, angle * seconds


def velocity_scale(stranger: Stranger) -> float:
    """Radians in one control step that a velocity command of 1 stands for."""
    return axis_speeds(stranger)[0] / (stranger.command_share * stranger.control_hz)


def settle_seconds(stranger: Stranger) -> float:
    """How far ahead of a critically damped servo its target runs, in seconds of its speed."""
    return 1.0 / (pi * stranger.servo.bandwidth_hz)


def write_fingers(units: FingerUnits, opening: float) -> float:
    """What the state shows of fingers that are open by this share."""
    closed, opened = (0.0, OPEN_METRES) if units == "sign" else FINGER_COMMANDS[units]
    return closed + opening * (opened - closed)


def read_finger_command(units: FingerUnits, command: float) -> float:
    """The opening that a command asks for, 0 to 1."""
    closed, opened = FINGER_COMMANDS[units]
    if units == "sign":
        return 1.0 if command < 0 else 0.0
    return min(max((command - closed) / (opened - closed), 0.0), 1.0)


def write_finger_command(units: FingerUnits, opening: float) -> float:
    """The command for an opening of 0 to 1."""
    closed, opened = FINGER_COMMANDS[units]
    return closed + opening * (opened - closed)


def write_rotation(turn: Float[np.ndarray, " 3"], rotation: str) -> Float[np.ndarray, " R"]:
    """A turn as the state writes it; hands of strangers never turn far, so that each writing is continuous."""
    if rotation == "axis_angle":
        return turn
    return quaternion_to_rotation(axis_angle_to_quaternion(turn), rotation)


def read_rotation(values: Float[np.ndarray, " R"], rotation: str) -> Float[np.ndarray, " 3"]:
    """The inverse of ``write_rotation``."""
    if rotation == "axis_angle":
        return values
    return quaternion_to_axis_angle(rotation_to_quaternion(values, rotation))
