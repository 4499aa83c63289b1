"""Two ARX X5 arms with absolute joint targets.

Kinematics: ``X5.urdf`` as ARX publishes it (ARXroboticsX/X5) with the ``eef_link`` of real-stanford/arx5-sdk, whose
``config.h`` also gives the joint limits and the gripper's width (0 closed .. 0.088 m open) and top speed (0.3 m/s).
Where the two bases stand differs from cell to cell; each arm's pose is in its own base frame.

Assumptions: the control frequency (50 Hz) and a stroke of 15 steps (0.3 s), which is the gripper at its top speed.
``sup inspect`` measures the stroke; ``ARX5_BIMANUAL.at(30.0)`` is the robot at another frequency.
"""

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.poses import HERE, KinematicChain, Link

_Y = (0.0, 1.0, 0.0)
_UPSIDE_DOWN = (1.0, 0.0, 0.0, 0.0)
LINKS = (
    Link((0.0, 0.0, 0.0603), (0.0, 0.0, 1.0)),
    Link((0.02, 0.0, 0.0402), _Y),
    Link((-0.264, 0.0, 0.0), _Y, _UPSIDE_DOWN),
    Link((0.245, 0.0, -0.056), _Y),
    Link((0.06575, -0.001, -0.0825), (0.0, 0.0, 1.0)),
    Link((0.02845, 0.0, 0.0825), (1.0, 0.0, 0.0), _UPSIDE_DOWN),
)
TOOL = (0.145, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
JOINTS = tuple(f"joint{number}" for number in range(1, 7))
LOW = (-3.14, -0.05, -0.1, -1.6, -1.57, -2.0)
HIGH = (2.618, 3.5, 3.2, 1.55, 1.57, 2.0)
OPEN = 0.088
"""Metres between the open fingers."""


def _actions(side: str, first: int) -> tuple[ActionGroup, ActionGroup]:
    joints = tuple(f"{side}_{joint}" for joint in JOINTS)
    return (
        ActionGroup(joints, "absolute", "rad", LOW, HIGH, drives=tuple(range(first, first + 6))),
        ActionGroup((f"{side}_gripper",), "gripper", "m", (0.0,), (OPEN,), drives=(first + 6,)),
    )


def _arm(side: str, first: int) -> Arm:
    chain = KinematicChain(tuple(range(first, first + 6)), HERE, LINKS, TOOL)
    return Arm(side, chain, Gripper(action=first + 6, state=(first + 6,), closed=0.0, open=OPEN, stroke_steps=15))


ARX5_BIMANUAL = Robot(
    name="arx5_bimanual",
    control_hz=50.0,
    state_names=tuple(f"{side}_{name}" for side in ("left", "right") for name in (*JOINTS, "gripper")),
    actions=(*_actions("left", 0), *_actions("right", 7)),
    arms=(_arm("left", 0), _arm("right", 7)),
)
"""Two ARX X5 arms, 6 joints and a gripper each, left then right."""
