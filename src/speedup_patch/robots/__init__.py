"""Robots: what each state and action dimension means; every robot we know is one constant."""

from speedup_patch.robots.aloha import ALOHA as ALOHA
from speedup_patch.robots.arx5 import ARX5_BIMANUAL as ARX5_BIMANUAL
from speedup_patch.robots.description import ActionGroup as ActionGroup
from speedup_patch.robots.description import Arm as Arm
from speedup_patch.robots.description import Gripper as Gripper
from speedup_patch.robots.description import Mode as Mode
from speedup_patch.robots.description import Robot as Robot
from speedup_patch.robots.droid import DROID as DROID
from speedup_patch.robots.h1_bigym import H1_BIGYM as H1_BIGYM
from speedup_patch.robots.known import ROBOTS as ROBOTS
from speedup_patch.robots.known import find_robot as find_robot
from speedup_patch.robots.panda_libero import PANDA_LIBERO as PANDA_LIBERO
from speedup_patch.robots.panda_libero import PANDA_LIBERO_JOINTS as PANDA_LIBERO_JOINTS
from speedup_patch.robots.panda_robomimic import PANDA_ROBOMIMIC as PANDA_ROBOMIMIC
from speedup_patch.robots.poses import ROTATION_SIZES as ROTATION_SIZES
from speedup_patch.robots.poses import KinematicChain as KinematicChain
from speedup_patch.robots.poses import Link as Link
from speedup_patch.robots.poses import Rotation as Rotation
from speedup_patch.robots.poses import StatePose as StatePose
from speedup_patch.robots.so101 import SO101 as SO101
from speedup_patch.robots.so101 import SO101_DEGREES as SO101_DEGREES
from speedup_patch.robots.toml_files import read_robot as read_robot
