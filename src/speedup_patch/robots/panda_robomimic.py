"""robomimic: the same simulated Panda as LIBERO's, with the state as robomimic's low-dimensional HDF5 files hold it."""

from dataclasses import replace

from speedup_patch.robots.description import Arm, Robot
from speedup_patch.robots.panda import RATED_SPEEDS, RATED_TORQUES
from speedup_patch.robots.panda_libero import ACTIONS, FINGERS, GRIPPER
from speedup_patch.robots.poses import StatePose

PANDA_ROBOMIMIC = Robot(
    name="panda_robomimic",
    control_hz=20.0,
    state_names=("eef_x", "eef_y", "eef_z", "eef_qx", "eef_qy", "eef_qz", "eef_qw", *FINGERS),
    actions=ACTIONS,
    arms=(Arm("arm", StatePose((0, 1, 2), (3, 4, 5, 6), "quaternion_xyzw"), replace(GRIPPER, state=(7, 8))),),
    rated_speeds=RATED_SPEEDS,
    rated_torques=RATED_TORQUES,
)
"""State: ``robot0_eef_pos``, ``robot0_eef_quat`` (x, y, z, w), ``robot0_gripper_qpos``."""
