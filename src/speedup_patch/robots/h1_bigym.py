"""BiGym: a simulated Unitree H1 on a floating base, two arms of 5 joints with Robotiq 2F-85 grippers.

Layout, limits, kinematics and the gripper's stroke (15-16 steps at 50 Hz) were read from BiGym itself, commit 72d3054,
with ``JointPositionActionMode(absolute=True, floating_dofs=[X, Y, Z, RZ])`` and ``control_frequency=50``. BiGym lists
the joints of its 30 positions in an order of its own: each gripper's before the wrist it hangs on, the base last.
"""

from math import sqrt

from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.poses import HERE, KinematicChain, Link

SIDES = ("left", "right")
BASE = ("pelvis_x", "pelvis_y", "pelvis_z", "pelvis_rz")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist")
_FINGERS = tuple(
    f"{finger}_{joint}" for finger in ("right", "left") for joint in ("driver", "coupler", "spring_link", "follower")
)
_POSITIONS = (
    *(f"{side}_{name}" for side in SIDES for name in (*ARM[:4], *(f"gripper_{joint}" for joint in _FINGERS), ARM[4])),
    *BASE,
)
STATE = (
    *(f"qpos_{name}" for name in _POSITIONS),
    *(f"qvel_{name}" for name in _POSITIONS),
    *(f"{side}_gripper" for side in SIDES),
    *BASE,
)
"""``proprioception`` (30 positions, then 30 velocities), ``proprioception_grippers`` (2) and
``proprioception_floating_base`` (4)."""

_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_NOWHERE = (0.0, 0.0, 0.0)
PINCH_ON_WRIST = (0.1558, 0.0, 0.0, 0.0, sqrt(0.5), 0.0, sqrt(0.5))

LOW = {
    "left": (-2.87, -0.34, -1.3, -1.25, -1.5708),
    "right": (-2.87, -3.11, -4.45, -1.25, -1.5708),
}
HIGH = {
    "left": (2.87, 3.11, 4.45, 2.61, 1.5708),
    "right": (2.87, 0.34, 1.3, 2.61, 1.5708),
}


def _arm_group(side: str) -> ActionGroup:
    names = tuple(f"{side}_{joint}" for joint in ARM)
    drives = tuple(STATE.index(f"qpos_{name}") for name in names)
    return ActionGroup(names, "absolute", "rad", LOW[side], HIGH[side], drives=drives)


def _arm(side: str, gripper_action: int) -> Arm:
    outwards = 1.0 if side == "left" else -1.0
    tilt = 0.216438 * outwards
    links = (
        Link(_NOWHERE, _X, slides=True),
        Link(_NOWHERE, _Y, slides=True),
        Link(_NOWHERE, _Z, slides=True),
        Link(_NOWHERE, _Z),
        Link((0.0055, 0.15535 * outwards, 0.42999), _Y, (tilt, 0.0, 0.0, 0.976296)),
        Link((-0.0055, 0.0565 * outwards, -0.0165), _X, (-tilt, 0.0, 0.0, 0.976296)),
        Link((0.0, 0.0, -0.1343), _Z),
        Link((0.0185, 0.0, -0.198), _Y),
        Link((0.3, 0.0, -0.02), _X),
    )
    joints = tuple(STATE.index(name) for name in (*BASE, *(f"qpos_{side}_{joint}" for joint in ARM)))
    state = (STATE.index(f"{side}_gripper"),)
    gripper = Gripper(action=gripper_action, state=state, closed=1.0, open=0.0, stroke_steps=16)
    return Arm(side, KinematicChain(joints, HERE, links, PINCH_ON_WRIST), gripper)


H1_BIGYM = Robot(
    name="h1_bigym",
    control_hz=50.0,
    state_names=STATE,
    actions=(
        ActionGroup(("delta_x", "delta_y", "delta_z"), "delta", "m", (-0.1,) * 3, (0.1,) * 3),
        ActionGroup(("delta_rz",), "delta", "rad", (-0.5,), (0.5,)),
        _arm_group("left"),
        _arm_group("right"),
        ActionGroup(
            ("left_gripper", "right_gripper"),
            "gripper",
            "0 open, 1 closed",
            (0.0, 0.0),
            (1.0, 1.0),
            drives=tuple(STATE.index(f"{side}_gripper") for side in SIDES),
        ),
    ),
    arms=(_arm("left", 14), _arm("right", 15)),
)
"""H1 in BiGym; poses are those of the ``pinch`` sites between the fingers. BiGym's limits of the base are 0.01 m and
0.05 rad per physics step of 2 ms, so those here (10 physics steps) hold at 50 Hz."""
