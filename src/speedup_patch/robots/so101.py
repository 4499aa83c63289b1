"""SO-101, the 6-motor arm of LeRobot, with LeRobot's names and units.

Kinematics and joint limits: ``so101_new_calib.urdf`` of TheRobotStudio/SO-ARM100, to its ``gripper_frame_link``, which
is the frame LeRobot's own kinematics uses. LeRobot writes joints either as -100 .. 100 of the calibrated range or in
degrees from its middle (``use_degrees``), the gripper always as 0 closed .. 100 open.

Assumptions: the calibrated range is the one between the URDF's stops (wrist_roll: LeRobot always takes a full turn);
data come at 30 Hz; a full stroke of the gripper takes 15 steps (0.5 s). ``sup inspect`` measures the stroke.
"""

from dataclasses import replace
from math import degrees, pi, radians

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.poses import HERE, KinematicChain, Link

NAMES = ("shoulder_pan.pos", "shoulder_lift.pos", "elbow_flex.pos", "wrist_flex.pos", "wrist_roll.pos", "gripper.pos")
REACH = (1.91986, 1.74533, 1.69, 1.65806, pi)
"""How far each joint turns from the middle of its range, radians."""

_AXIS = (0.0, 0.0, 1.0)
_ACROSS = 0.7071067811865476
LINKS = (
    Link((0.0388353, 0.0, 0.0624), _AXIS, (0.0, 1.0, 0.0, 0.0)),
    Link((-0.0303992, -0.0182778, -0.0542), _AXIS, (-0.5, -0.5, -0.5, 0.5)),
    Link((-0.11257, -0.028, 0.0), _AXIS, (0.0, 0.0, _ACROSS, _ACROSS)),
    Link((-0.1349, 0.0052, 0.0), _AXIS, (0.0, 0.0, -_ACROSS, _ACROSS)),
    Link((0.0, -0.0611, 0.0181), _AXIS, (-0.0172091, 0.706897, 0.706897, 0.0172091)),
)
GRIPPER_FRAME = (-0.0079, -0.000218121, -0.0981274, 0.0, 1.0, 0.0, 0.0)


def _so101(name: str, unit: str, scales: tuple[float, ...], limits: tuple[float, ...]) -> Robot:
    """The arm whose state times ``scales`` is in radians."""
    low, high = tuple(-limit for limit in limits), limits
    links = tuple(replace(link, scale=scale) for link, scale in zip(LINKS, scales, strict=True))
    return Robot(
        name=name,
        control_hz=30.0,
        state_names=NAMES,
        actions=(
            ActionGroup(NAMES[:5], "absolute", unit, low, high, drives=tuple(range(5))),
            ActionGroup(NAMES[5:], "gripper", "0 closed .. 100 open", (0.0,), (100.0,), drives=(5,)),
        ),
        arms=(
            Arm(
                "arm",
                KinematicChain(tuple(range(5)), HERE, links, GRIPPER_FRAME),
                Gripper(action=5, state=(5,), closed=0.0, open=100.0, stroke_steps=15),
            ),
        ),
    )


SO101 = _so101("so101", "% of the half range", tuple(reach / 100 for reach in REACH), (100.0,) * 5)
"""SO-101 in LeRobot's -100 .. 100."""

SO101_DEGREES = _so101("so101_degrees", "deg", (radians(1.0),) * 5, tuple(degrees(reach) for reach in REACH))
"""SO-101 in LeRobot's degrees."""
