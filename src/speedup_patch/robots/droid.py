"""DROID: a real Panda with a Robotiq gripper, moved by joint velocities at 15 Hz.

DROID's controller turns a velocity of 1.0 into a step of 0.2 rad (``max_joint_delta`` in its ``RobotIKSolver``), so
velocities add up like any other small motion. It scales a command beyond +-1 down as a whole; we cut each joint.
The gripper's position is 0 open .. 1 closed.

Assumption, without a published figure: a full stroke takes 12 control steps (0.8 s). ``sup inspect`` measures it.
"""

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.panda import FLANGE, LINKS, RATED_SPEEDS, RATED_TORQUES
from speedup_patch.robots.poses import HERE, KinematicChain

DROID = Robot(
    name="droid",
    control_hz=15.0,
    state_names=(*(f"joint_position_{number}" for number in range(7)), "gripper_position"),
    actions=(
        ActionGroup(
            tuple(f"joint_velocity_{number}" for number in range(7)),
            "delta",
            "rad",
            (-1.0,) * 7,
            (1.0,) * 7,
            scale=0.2,
        ),
        ActionGroup(("gripper_position",), "gripper", "0 open .. 1 closed", (0.0,), (1.0,), drives=(7,)),
    ),
    arms=(
        Arm(
            "arm",
            KinematicChain(tuple(range(7)), HERE, LINKS, FLANGE),
            Gripper(action=7, state=(7,), closed=1.0, open=0.0, stroke_steps=12),
        ),
    ),
    rated_speeds=RATED_SPEEDS,
    rated_torques=RATED_TORQUES,
)
"""State: ``joint_position`` (7) and ``gripper_position``; the pose is that of the flange (``panda_link8``), the frame
of DROID's own ``cartesian_position``."""
