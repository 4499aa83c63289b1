"""Scripted experts for gym-aloha at the pace of a careful teleoperator, in closed loop on the measured poses."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.hand_motion import SmoothNoise, ToolGoal, ToolTarget
from speedup_patch.envs.inverse_kinematics import ArmKinematics, Pose, quaternion_matrix
from speedup_patch.interfaces import Observation

LEFT, RIGHT = slice(0, 7), slice(7, 14)
TREMOR = 0.0012
"""Standard deviation of the hand's tremor, in radians at every joint."""

DISTURBANCE = np.array([0.03, 0.03, 0.03, 0.05, 0.05, 0.05, 0.06] * 2)
"""Standard deviation of the disturbance that a target bears in free space: radians, and gripper openings."""


@dataclass(frozen=True)
class Tool:
    """One gripper as measured: pose, opening (0 closed .. 1 open) and how much it opened in the last step."""

    pose: Pose
    opening: float
    opening_change: float

    def stalled(self, below: float) -> bool:
        """Whether closing has come to rest on something narrower than ``below``."""
        return self.opening < below and abs(self.opening_change) < 0.004


@dataclass(frozen=True)
class Scene:
    """What a script decides from: both tools and the task's objects, all measured."""

    left: Tool
    right: Tool
    objects: tuple[Pose, ...]


@dataclass(frozen=True)
class Plan:
    """The next goals of both tools, and how far each arm may be disturbed (0 never .. 1 in free space)."""

    left: ToolGoal
    right: ToolGoal
    left_freedom: float
    right_freedom: float


@runtime_checkable
class Script(Protocol):
    """Decides what the two hands do next; ``phase`` changes when they turn to something new."""

    @property
    def phase(self) -> str: ...

    def plan(self, scene: Scene) -> Plan:
        """The goals for this moment."""
        ...


class AlohaExpert:
    """Follows a script with human-like motion and answers each observation with absolute joint targets."""

    def __init__(self, arms: tuple[ArmKinematics, ArmKinematics], script: Script, rng: np.random.Generator) -> None:
        self._arms = arms
        self._script = script
        self._rng = rng
        self._pace = float(rng.uniform(0.8, 1.12))
        self._pace_noise = SmoothNoise(1, 40.0, rng)
        self._tremor = SmoothNoise(14, 1.5, rng)
        self._pause = 0
        self._targets: list[ToolTarget] = []
        self._solutions: list[np.ndarray] = []
        self._tolerance = np.zeros(14)

    def act(self, observation: Observation) -> Float[np.ndarray, " A"]:
        """The undisturbed action for this moment."""
        state, previous = observation["state"], observation["previous_state"]
        tools = [
            Tool(arm.tool_pose(state[part][:6]), float(state[part][6]), float(state[part][6] - previous[part][6]))
            for arm, part in zip(self._arms, (LEFT, RIGHT), strict=True)
        ]
        if not self._targets:
            self._targets = [ToolTarget(tool.pose, tool.opening) for tool in tools]
            self._solutions = [state[part][:6].copy() for part in (LEFT, RIGHT)]
        before = self._script.phase
        plan = self._script.plan(Scene(tools[0], tools[1], object_poses(observation["environment_state"])))
        if self._script.phase != before and self._rng.random() < 0.3:
            self._pause = int(self._rng.integers(4, 12))
        self._tolerance = DISTURBANCE * np.repeat([plan.left_freedom, plan.right_freedom], 7)
        self._advance(plan, tools)
        action = np.concatenate([self._joint_targets(index) for index in (0, 1)])
        tremor = TREMOR * self._tremor.sample()
        tremor[[6, 13]] = 0.0
        return action + tremor

    def tolerance(self) -> Float[np.ndarray, " A"]:
        """Standard deviation of the disturbance that each target bears just now: radians, gripper openings."""
        return self._tolerance

    def shove(self) -> Float[np.ndarray, " A"]:
        """Joint targets are never pushed: they would jump."""
        return np.zeros(14)

    def _advance(self, plan: Plan, tools: list[Tool]) -> None:
        pace = self._pace * float(np.exp(0.15 * self._pace_noise.sample()[0]))
        if self._pause > 0:
            self._pause, pace = self._pause - 1, 0.0
        for target, goal, tool in zip(self._targets, (plan.left, plan.right), tools, strict=True):
            target.advance(goal, tool.pose, pace)

    def _joint_targets(self, index: int) -> Float[np.ndarray, "7"]:
        target, arm = self._targets[index], self._arms[index]
        self._solutions[index] = arm.solve(target.pose, self._solutions[index])
        return np.append(self._solutions[index] + arm.sag(self._solutions[index]), target.gripper)


def object_poses(environment_state: Float[np.ndarray, " E"]) -> tuple[Pose, ...]:
    """The objects' poses, from positions and (w, x, y, z) quaternions."""
    return tuple(Pose(row[:3], quaternion_matrix(row[3:])) for row in environment_state.reshape(-1, 7))
