"""What the two hands do in gym-aloha's tasks, decided from measured poses: cube transfer and peg insertion."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from speedup_patch.envs.aloha_expert import Plan, Scene, Tool
from speedup_patch.envs.hand_motion import ToolGoal
from speedup_patch.envs.inverse_kinematics import Pose, rotation_vector, turn

DOWN = Rotation.from_euler("y", 60, degrees=True).as_matrix()
LEFT_DOWN = DOWN
RIGHT_DOWN = Rotation.from_euler("z", 180, degrees=True).as_matrix() @ DOWN
LEFT_SIDEWAYS = Rotation.from_euler("x", 90, degrees=True).as_matrix()

SLOW, CAREFUL = 0.0018, 0.0008
"""Tool speeds near things and while inserting, metres per control step."""

OPEN, CLOSED = 1.0, 0.0

LEAN, PEG_LEAN = 1.0, 2.0
"""How far a hand aims past its goal, per metre that the tool, or the peg, is seen to be off to the side."""

QUARTER, HALF = np.pi / 2, np.pi


def above(height: float) -> Float[np.ndarray, "3"]:
    """Straight up by ``height`` metres."""
    return np.array([0.0, 0.0, height])


def freedom_at(distance: float) -> float:
    """How far an arm may be disturbed when its tool is ``distance`` metres from something it could knock."""
    return float(np.clip((distance - 0.02) / 0.12, 0.2, 1.0))


def heading(item: Pose, symmetry: float) -> float:
    """How far (radians) a lying object is turned about the vertical, where turning by ``symmetry`` changes nothing."""
    axis = item.rotation[:, 0] if abs(item.rotation[2, 0]) < 0.7 else item.rotation[:, 1]
    yaw = float(np.arctan2(axis[1], axis[0]))
    return (yaw + symmetry / 2) % symmetry - symmetry / 2


@dataclass
class Grasp:
    """Picks up an object that lies on the table: above it, down around it, close; then the object is held."""

    rotation: Float[np.ndarray, "3 3"]
    height: float
    """Metres from the object's origin up to the tool's when gripping."""
    opening: float
    """The opening at which the fingers rest on the object."""
    symmetry: float
    """The turn about the vertical, in radians, after which the object looks the same."""
    hover: float = 0.09
    phase: Literal["reach", "descend", "close", "held"] = "reach"

    def goal(self, tool: Tool, item: Pose) -> ToolGoal:
        """The next goal, once the phase has followed what is measured."""
        grip = item.position + above(self.height)
        rotation = turn(above(heading(item, self.symmetry))) @ self.rotation
        self._follow(tool, grip, rotation)
        if self.phase == "reach":
            return ToolGoal(Pose(grip + above(self.hover), rotation), OPEN)
        sideways = (tool.pose.position - grip) * np.array([1.0, 1.0, 0.0])
        if self.phase != "descend":
            return ToolGoal(Pose(grip, rotation), CLOSED, SLOW, 0.05)
        lift = float(np.clip(4.0 * (np.linalg.norm(sideways) - 0.012), 0.0, self.hover))
        return ToolGoal(Pose(grip + above(lift) - LEAN * sideways, rotation), OPEN, SLOW, 0.05)

    def _follow(self, tool: Tool, grip: Float[np.ndarray, "3"], rotation: Float[np.ndarray, "3 3"]) -> None:
        gap = tool.pose.position - grip
        turned = float(np.linalg.norm(rotation_vector(tool.pose.rotation.T @ rotation)))
        if self.phase == "reach" and np.linalg.norm(gap - above(self.hover)) < 0.03 and turned < 0.12:
            self.phase = "descend" if tool.opening > 0.85 else "reach"
        elif self.phase == "descend" and np.linalg.norm(gap) < 0.008:
            self.phase = "close"
        elif self.phase == "close" and tool.stalled(below=self.opening + 0.06):
            self.phase = "held"
        elif self.phase in ("close", "held") and (np.linalg.norm(gap) > 0.05 or tool.opening < self.opening - 0.15):
            self.phase = "reach"


class TransferScript:
    """The right hand picks the cube up and offers it in mid-air; the left hand takes it from the side."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._meeting = np.array([0.0, 0.5, 0.25]) + rng.uniform(-0.015, 0.015, 3)
        self._ready = self._meeting + np.array([-0.14, 0.0, 0.0]) + rng.uniform(-0.02, 0.02, 3)
        self._grasp = Grasp(
            RIGHT_DOWN, height=0.015, opening=0.606, symmetry=QUARTER, hover=float(rng.uniform(0.07, 0.11))
        )
        self._hand_over: Literal["wait", "take", "close", "release", "leave"] = "wait"

    @property
    def phase(self) -> str:
        return f"{self._grasp.phase} {self._hand_over}"

    def plan(self, scene: Scene) -> Plan:
        """The goals for this moment."""
        (cube,) = scene.objects
        picking = self._grasp.goal(scene.right, cube) if self._hand_over in ("wait", "take", "close") else None
        if picking is not None and self._grasp.phase != "held":
            self._hand_over = "wait"
            distance = float(np.linalg.norm(scene.right.pose.position - cube.position))
            return Plan(self._wait(), picking, 1.0, freedom_at(distance))
        self._follow(scene, cube)
        distance = float(np.linalg.norm(scene.left.pose.position - cube.position))
        freedom = freedom_at(distance - 0.04)
        return Plan(self._take(scene, cube), self._offer(scene, cube), freedom, min(0.5, freedom))

    def _follow(self, scene: Scene, cube: Pose) -> None:
        offered = float(np.linalg.norm(cube.position - self._meeting))
        if self._hand_over == "wait" and offered < 0.015 and scene.left.opening > 0.85:
            self._hand_over = "take"
        elif self._hand_over == "take" and np.linalg.norm(scene.left.pose.position - self._grip(cube)) < 0.008:
            self._hand_over = "close"
        elif self._hand_over == "close" and scene.left.stalled(below=0.68):
            self._hand_over = "release"
        elif self._hand_over == "release" and scene.right.opening > 0.8:
            self._hand_over = "leave"

    def _grip(self, cube: Pose) -> Float[np.ndarray, "3"]:
        return cube.position + np.array([-0.005, 0.0, 0.0])

    def _wait(self) -> ToolGoal:
        return ToolGoal(Pose(self._ready, LEFT_SIDEWAYS), OPEN, speed=0.0025)

    def _take(self, scene: Scene, cube: Pose) -> ToolGoal:
        if self._hand_over == "wait":
            return self._wait()
        if self._hand_over == "leave":
            return ToolGoal(Pose(self._ready, LEFT_SIDEWAYS), CLOSED, SLOW)
        if self._hand_over != "take":
            return ToolGoal(Pose(self._grip(cube), LEFT_SIDEWAYS), CLOSED, SLOW, 0.05)
        sideways = (scene.left.pose.position - self._grip(cube)) * np.array([0.0, 1.0, 1.0])
        return ToolGoal(Pose(self._grip(cube) - LEAN * sideways, LEFT_SIDEWAYS), OPEN, SLOW, 0.05)

    def _offer(self, scene: Scene, cube: Pose) -> ToolGoal:
        held = scene.right.pose.position - cube.position
        if self._hand_over == "leave":
            return ToolGoal(Pose(self._meeting + np.array([0.12, 0.0, 0.05]), RIGHT_DOWN), OPEN)
        gripper = OPEN if self._hand_over == "release" else CLOSED
        speed = 0.0027 if self._hand_over == "wait" else SLOW
        return ToolGoal(Pose(self._meeting + held, RIGHT_DOWN), gripper, speed, 0.05)


class InsertionScript:
    """The left hand lifts the socket, the right hand the peg; held in line, they come together and the peg goes in.

    Distances along the socket's axis are between the centres of peg and socket: at 0.12 m the peg reaches the mouth,
    at 0.10 m the pin inside.
    """

    APART, MOUTH, INSIDE = 0.17, 0.12, 0.094

    def __init__(self, rng: np.random.Generator) -> None:
        left, right = (down @ turn(np.array([0.0, rng.uniform(-0.1, 0.1), 0.0])) for down in (LEFT_DOWN, RIGHT_DOWN))
        self._left = Grasp(left, height=0.009, opening=0.656, symmetry=HALF, hover=float(rng.uniform(0.07, 0.11)))
        self._right = Grasp(right, height=0.013, opening=0.353, symmetry=HALF, hover=float(rng.uniform(0.07, 0.11)))
        self._place = np.array([-0.10, 0.5, 0.17]) + rng.uniform(-0.015, 0.015, 3)
        """Where the socket is held out to the peg."""
        self._inserting = False

    @property
    def phase(self) -> str:
        return f"{self._left.phase} {self._right.phase} {self._inserting}"

    def plan(self, scene: Scene) -> Plan:
        """The goals for this moment."""
        peg, socket = scene.objects
        left, right = self._left.goal(scene.left, socket), self._right.goal(scene.right, peg)
        left_freedom = freedom_at(float(np.linalg.norm(scene.left.pose.position - socket.position)))
        right_freedom = freedom_at(float(np.linalg.norm(scene.right.pose.position - peg.position)))
        left_held, right_held = self._left.phase == "held", self._right.phase == "held"
        offered = left_held and self._is_offered(socket)
        closeness = self._closeness(peg.seen_from(socket)) if offered and right_held else 0.0
        self._inserting = closeness > 0.0
        gap = float(np.linalg.norm(peg.position - socket.position))
        carrying_freedom = float(np.clip(freedom_at(gap - self.MOUTH), 0.25, 0.5))
        if left_held:
            left, left_freedom = self._offer_socket(scene.left, socket, closeness), carrying_freedom
        if right_held:
            right, right_freedom = self._bring_peg(scene, closeness, offered), carrying_freedom
        return Plan(left, right, left_freedom, right_freedom)

    def _is_offered(self, socket: Pose) -> bool:
        ahead, *sideways = socket.position - self._place
        return bool(-0.03 < ahead < 0.07) and float(np.linalg.norm(sideways)) < 0.03

    def _closeness(self, seen: Pose) -> float:
        """How far peg and socket should have come together: 0 apart and in line .. 1 inserted."""
        astray = float(np.linalg.norm(seen.position[1:])) + 0.06 * float(np.linalg.norm(rotation_vector(seen.rotation)))
        if self._inserting and seen.position[0] < self.MOUTH:
            return 1.0
        if self._inserting or (astray < 0.005 and seen.position[0] < self.APART + 0.012):
            return float(np.clip(1.0 - 200.0 * (astray - 0.005), 0.05, 1.0))
        return 0.0

    def _offer_socket(self, tool: Tool, socket: Pose, closeness: float) -> ToolGoal:
        # Both hands share the way: at speed the two arms then rise and dip alike, and stay in line.
        place = Pose(self._place + np.array([0.036 * closeness, 0.0, 0.0]), np.eye(3))
        return self._carry(place, tool, socket)

    def _bring_peg(self, scene: Scene, closeness: float, offered: bool) -> ToolGoal:
        peg, socket = scene.objects
        anchor = socket if offered else Pose(self._place, np.eye(3))
        sideways = peg.seen_from(anchor).position * np.array([0.0, 1.0, 1.0]) if offered else np.zeros(3)
        distance = self.APART + (self.INSIDE - self.APART) * closeness
        goal = anchor.apply(Pose(np.array([distance, 0.0, 0.0]) - PEG_LEAN * sideways, np.eye(3)))
        return self._carry(goal, scene.right, peg)

    def _carry(self, goal: Pose, tool: Tool, item: Pose) -> ToolGoal:
        """Takes a held object to ``goal``, wherever in the hand it lies."""
        speed = CAREFUL if self._inserting else 0.0027
        return ToolGoal(goal.apply(tool.pose.seen_from(item)), CLOSED, speed, 0.05)
