"""A LIBERO scene as one vector of fixed width per suite: what a policy without cameras sees besides the robot.

In this order:
- slots of 12 numbers, one per thing: its position in the world (3), its position minus the gripper's (3), its rotation
  in 6-D (6). What the task is about comes first, in LIBERO's order (spatial and object: the thing to move, then where
  to), then the other movable objects in the order of the task's file, then the furniture; empty slots are zero;
- the positions of drawers (metres), doors and knobs (radians), zero where there are fewer;
- the task's number as one of ten ones.
"""

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.libero_simulator import TaskSimulator
from speedup_patch.envs.libero_tasks import TASK_FILES, Suite
from speedup_patch.maths.poses import quaternion_to_six_d

SLOT_SIZE = 12
SLOTS: dict[Suite, int] = {"spatial": 7, "object": 7, "goal": 8, "long": 8}
JOINTS: dict[Suite, int] = {"spatial": 4, "object": 0, "goal": 4, "long": 3}


def environment_state_size(suite: Suite) -> int:
    """How many numbers ``environment_state`` has in this suite."""
    return SLOT_SIZE * SLOTS[suite] + JOINTS[suite] + len(TASK_FILES[suite])


def slot_names(simulator: TaskSimulator) -> tuple[str, ...]:
    """What is in the slots of this task."""
    return tuple(dict.fromkeys((*simulator.objects_of_interest, *simulator.objects, *simulator.fixtures)))


def environment_state(simulator: TaskSimulator) -> Float[np.ndarray, " E"]:
    """The scene at this moment."""
    suite = simulator.task.suite
    poses = np.array([simulator.pose(name) for name in slot_names(simulator)])
    slots = np.zeros((SLOTS[suite], SLOT_SIZE))
    slots[: len(poses), :3] = poses[:, :3]
    slots[: len(poses), 3:6] = poses[:, :3] - simulator.state()[:3]
    slots[: len(poses), 6:] = quaternion_to_six_d(poses[:, 3:])
    joints = np.zeros(JOINTS[suite])
    positions = simulator.fixture_joints()
    joints[: len(positions)] = positions
    return np.concatenate([slots.ravel(), joints, np.eye(len(TASK_FILES[suite]))[simulator.task.index]])
