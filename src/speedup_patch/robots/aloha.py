"""ALOHA: two ViperX 300 arms with absolute joint targets.

Kinematics and limits are those of gym-aloha's MuJoCo model, with which a test compares them.
"""

from math import pi

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.poses import KinematicChain, Link

VX300S_LINKS = (
    Link((0.0, 0.0, 0.079), (0.0, 0.0, 1.0)),
    Link((0.0, 0.0, 0.04805), (0.0, 1.0, 0.0)),
    Link((0.05955, 0.0, 0.3), (0.0, 1.0, 0.0)),
    Link((0.2, 0.0, 0.0), (1.0, 0.0, 0.0)),
    Link((0.1, 0.0, 0.0), (0.0, 1.0, 0.0)),
    Link((0.069744, 0.0, 0.0), (1.0, 0.0, 0.0)),
)
JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
LOW = (-3.14158, -1.85005, -1.76278, -3.14158, -1.8675, -3.14158)
HIGH = (3.14158, 1.25664, 1.6057, 3.14158, 2.23402, 3.14158)

SERVO_SPEEDS = (30.0, 30.0, 30.0, 30.0, 30.0, 46.0)
"""Revolutions per minute without load at 12 V, of Dynamixel's data sheets: five joints are driven by XM540-W270
servos, the last by an XM430-W350. Their sheets give stall torques only, which are no rating for running."""


def _actions(side: str, first: int) -> tuple[ActionGroup, ActionGroup]:
    joints = tuple(f"{side}_{joint}" for joint in JOINTS)
    return (
        ActionGroup(joints, "absolute", "rad", LOW, HIGH, drives=tuple(range(first, first + 6))),
        ActionGroup((f"{side}_gripper",), "gripper", "0 closed .. 1 open", (0.0,), (1.0,), drives=(first + 6,)),
    )


def _arm(side: str, first: int, base: tuple[float, ...]) -> Arm:
    chain = KinematicChain(tuple(range(first, first + 6)), base, VX300S_LINKS)
    return Arm(side, chain, Gripper(action=first + 6, state=(first + 6,), closed=0.0, open=1.0, stroke_steps=20))


ALOHA = Robot(
    name="aloha",
    control_hz=50.0,
    state_names=tuple(f"{side}_{name}" for side in ("left", "right") for name in (*JOINTS, "gripper")),
    actions=(*_actions("left", 0), *_actions("right", 7)),
    arms=(
        _arm("left", 0, (-0.469, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0)),
        _arm("right", 7, (0.469, 0.5, 0.0, 0.0, 0.0, 1.0, -3.673e-6)),
    ),
    rated_speeds=tuple(2 * pi * rpm / 60 for rpm in SERVO_SPEEDS) * 2,
)
"""Two ViperX 300 arms with absolute joint targets: ALOHA, and gym-aloha's simulation of it."""
