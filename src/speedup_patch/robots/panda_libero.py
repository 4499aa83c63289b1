"""LIBERO: a Panda in robosuite 1.4, moved by small steps of its end-effector (OSC_POSE) at 20 Hz.

An action of 1.0 asks for 0.05 m or 0.5 rad (robosuite's default OSC_POSE output range). Of the gripper's command only
the sign counts. A full stroke was measured at 10-12 control steps.
"""

from dataclasses import replace

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.panda import LINKS, RATED_SPEEDS, RATED_TORQUES
from speedup_patch.robots.poses import HERE, KinematicChain, StatePose

ACTIONS = (
    ActionGroup(("delta_x", "delta_y", "delta_z"), "delta", "m", (-1.0,) * 3, (1.0,) * 3, scale=0.05),
    ActionGroup(
        ("turn_x", "turn_y", "turn_z"), "delta", "rad", (-1.0,) * 3, (1.0,) * 3, rotation="axis_angle", scale=0.5
    ),
    ActionGroup(("gripper",), "gripper", "+1 closes, -1 opens", (-1.0,), (1.0,)),
)
FINGERS = ("left_finger", "right_finger")
"""Where the fingers are in metres: 0 .. 0.04 and -0.04 .. 0, both 0 when closed."""

GRIPPER = Gripper(action=6, state=(6, 7), closed=1.0, open=-1.0, stroke_steps=12)

PANDA_LIBERO = Robot(
    name="panda_libero",
    control_hz=20.0,
    state_names=("eef_x", "eef_y", "eef_z", "eef_axis_angle_x", "eef_axis_angle_y", "eef_axis_angle_z", *FINGERS),
    actions=ACTIONS,
    arms=(Arm("arm", StatePose((0, 1, 2), (3, 4, 5), "axis_angle"), GRIPPER),),
    rated_speeds=RATED_SPEEDS,
    rated_torques=RATED_TORQUES,
)
"""LIBERO with the 8-D state that openpi, OpenVLA and LeRobot use: position, axis-angle, two fingers. In LIBERO's own
HDF5 files this is ``ee_states`` followed by ``gripper_states``."""

GRIP_SITE_ON_LINK_7 = (0.0, 0.0, 0.2035, 0.0, 0.0, -0.383, 0.924)
"""Position of robosuite's ``grip_site`` with the orientation of its ``right_hand`` body, which is what
``robot0_eef_pos`` and ``robot0_eef_quat`` report; the quaternion is rounded in robosuite's model."""

PANDA_LIBERO_JOINTS = Robot(
    name="panda_libero_joints",
    control_hz=20.0,
    state_names=(*(f"joint{number}" for number in range(1, 8)), *FINGERS),
    actions=ACTIONS,
    arms=(
        Arm(
            "arm",
            KinematicChain(tuple(range(7)), HERE, LINKS, GRIP_SITE_ON_LINK_7),
            replace(GRIPPER, state=(7, 8)),
        ),
    ),
    rated_speeds=RATED_SPEEDS,
    rated_torques=RATED_TORQUES,
)
"""LIBERO's HDF5 files read as ``joint_states`` followed by ``gripper_states``; poses are in the robot's base frame,
because where LIBERO puts the base depends on the scene."""
