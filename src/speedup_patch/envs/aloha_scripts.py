"""What the two hands do in gym-aloha's tasks, decided from measured poses: cube transfer and peg insertion."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from speedup_patch.envs.aloha_expert import Plan, Scene, Tool
from speedup_patch.envs.hand_motion import ToolGoal
from speedup_patch.envs.inverse_kinematics import Pose, rotation_vector

DOWN = Rotation.from_euler("y", 60, degrees=True).as_matrix()
LEFT_DOWN = DOWN
RIGHT_DOWN = Rotation.from_euler("z", 180, degrees=True).as_matrix() @ DOWN
LEFT_SIDEWAYS = Rotation.from_euler("x", 90, degrees=True).as_matrix()

SLOW, CAREFUL = 0.0018, 0.0012
"""Tool speeds near things and while inserting, metres per control step."""

OPEN, CLOSED = 1.0, 0.0


def above(height: float) -> Float[np.ndarray, "3"]:
    """Straight up by ``height`` metres."""
    return np.array([0.0, 0.0, height])


def freedom_at(distance: float) -> float:
    """How far an arm may be disturbed when its tool is ``distance`` metres from something it could knock."""
    return float(np.clip((distance - 0.02) / 0.12, 0.12, 1.0))


@dataclass
class Grasp:
    """Picks up an object that lies on the table: above it, down around it, close; then the object is held."""

    rotation: Float[np.ndarray, "3 3"]
    height: float
    """Metres from the object's origin up to the tool's when gripping."""
    opening: float
    """The opening at which the fingers rest on the object."""
    hover: float = 0.09
    phase: Literal["reach", "descend", "close", "held"] = "reach"

    def goal(self, tool: Tool, item: Pose) -> ToolGoal:
        """The next goal, once the phase has followed what is measured."""
        grip = item.position + above(self.height)
        self._follow(tool, item, grip)
        if self.phase == "reach":
            return ToolGoal(Pose(grip + above(self.hover), self.rotation), OPEN)
        astray = float(np.linalg.norm((tool.pose.position - grip)[:2]))
        lift = float(np.clip(4.0 * (astray - 0.012), 0.0, self.hover)) if self.phase == "descend" else 0.0
        gripper = OPEN if self.phase == "descend" else CLOSED
        return ToolGoal(Pose(grip + above(lift), self.rotation), gripper, SLOW, 0.05)

    def _follow(self, tool: Tool, item: Pose, grip: Float[np.ndarray, "3"]) -> None:
        gap = tool.pose.position - grip
        turned = float(np.linalg.norm(rotation_vector(tool.pose.rotation.T @ self.rotation)))
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
        self._grasp = Grasp(RIGHT_DOWN, height=0.015, opening=0.606, hover=float(rng.uniform(0.07, 0.11)))
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
        return Plan(self._take(cube), self._offer(scene, cube), freedom, min(0.5, freedom))

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

    def _take(self, cube: Pose) -> ToolGoal:
        if self._hand_over == "wait":
            return self._wait()
        if self._hand_over == "leave":
            return ToolGoal(Pose(self._ready, LEFT_SIDEWAYS), CLOSED, SLOW)
        gripper = OPEN if self._hand_over == "take" else CLOSED
        return ToolGoal(Pose(self._grip(cube), LEFT_SIDEWAYS), gripper, SLOW, 0.05)

    def _offer(self, scene: Scene, cube: Pose) -> ToolGoal:
        held = scene.right.pose.position - cube.position
        if self._hand_over == "leave":
            return ToolGoal(Pose(self._meeting + np.array([0.12, 0.0, 0.05]), RIGHT_DOWN), OPEN)
        gripper = OPEN if self._hand_over == "release" else CLOSED
        speed = 0.0027 if self._hand_over == "wait" else SLOW
        return ToolGoal(Pose(self._meeting + held, RIGHT_DOWN), gripper, speed, 0.05)


class InsertionScript:
    """The left hand lifts the socket, the right hand the peg; they meet in mid-air and the peg goes in."""

    MOUTH, TOUCH = 0.12, 0.10
    """Distances between the centres of peg and socket when the peg reaches the mouth, and the pin inside."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._socket_place = Pose(np.array([-0.10, 0.5, 0.17]) + rng.uniform(-0.015, 0.015, 3), np.eye(3))
        self._left = Grasp(LEFT_DOWN, height=0.008, opening=0.656, hover=float(rng.uniform(0.07, 0.11)))
        self._right = Grasp(RIGHT_DOWN, height=0.012, opening=0.353, hover=float(rng.uniform(0.07, 0.11)))
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
        self._inserting = self._inserting and left_held and right_held
        gap = float(np.linalg.norm(peg.position - socket.position))
        carrying_freedom = min(0.4, freedom_at(gap - self.MOUTH))
        if left_held:
            left = self._carry(self._socket_place, scene.left, socket)
            left_freedom = carrying_freedom
        if right_held:
            right = self._bring_peg(scene, peg, socket, left_held)
            right_freedom = carrying_freedom
        return Plan(left, right, left_freedom, right_freedom)

    def _bring_peg(self, scene: Scene, peg: Pose, socket: Pose, socket_held: bool) -> ToolGoal:
        in_place = socket_held and float(np.linalg.norm(socket.position - self._socket_place.position)) < 0.03
        anchor = socket if in_place else self._socket_place
        seen = peg.seen_from(anchor)
        astray = float(np.linalg.norm(seen.position[1:])) + 0.06 * float(np.linalg.norm(rotation_vector(seen.rotation)))
        if in_place and astray < 0.005 and abs(seen.position[0] - self.MOUTH - 0.05) < 0.012:
            self._inserting = True
        depth = self.MOUTH + 0.05
        if self._inserting:
            outside = seen.position[0] > self.MOUTH
            depth = self.TOUCH - 0.006 + (float(np.clip(15.0 * (astray - 0.005), 0.0, 0.06)) if outside else 0.0)
        goal = anchor.apply(Pose(np.array([depth, 0.0, 0.0]), np.eye(3)))
        return self._carry(goal, scene.right, peg, CAREFUL if self._inserting else 0.0027)

    def _carry(self, goal: Pose, tool: Tool, item: Pose, speed: float = 0.0027) -> ToolGoal:
        """Takes a held object to ``goal``, wherever in the hand it lies."""
        return ToolGoal(goal.apply(tool.pose.seen_from(item)), CLOSED, speed, 0.05)
