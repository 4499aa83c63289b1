"""Clean demonstrations of any robot, made from its own description: smooth motions, lagging joints, gripper strokes."""

from dataclasses import replace

import numpy as np

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.robots import KinematicChain, Robot

PANDA_MIDDLE = (0.0, -0.5, 0.0, -2.2, 0.0, 2.0, 0.8)
FINGER = 0.04


def demonstrate(robot: Robot, episodes: int = 6, length: int = 160, seed: int = 0, name: str = "") -> Demonstrations:
    """Episodes in which everything moves; nothing about them is odd."""
    rng = np.random.default_rng(seed)
    recorded = tuple(_episode(robot, length + 5 * number, rng) for number in range(episodes))
    return Demonstrations(recorded, robot.control_hz, name)


def change(demonstrations: Demonstrations, numbers: list[int], **changes) -> Demonstrations:
    """The same with some episodes changed: each change maps an episode to its new field."""
    episodes = list(demonstrations.episodes)
    for number in numbers:
        old = episodes[number]
        episodes[number] = replace(old, **{field: make(old) for field, make in changes.items()})
    return replace(demonstrations, episodes=tuple(episodes))


def _episode(robot: Robot, length: int, rng: np.random.Generator) -> Episode:
    states = 0.01 * _smooth(length + 1, robot.state_size, rng)
    actions = np.zeros((length, robot.action_size))
    _move_arms(robot, states, rng)
    for action, state in robot.drives.items():
        if action not in {gripper.action for gripper in robot.grippers}:
            low, high = robot.action_low[action], robot.action_high[action]
            states[:, state] = (low + high) / 2 + 0.49 * (high - low) * _smooth(length + 1, 1, rng)[:, 0]
            lead = np.gradient(states[:, state])
            actions[:, action] = np.clip(states[:-1, state] + 3 * lead[:-1], low, high)
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "delta":
            moved = np.diff(_moved(robot, states, len(group.names)), axis=0) / group.scale
            actions[:, part] = 0.1 * _smooth(length, len(group.names), rng) if group.rotation else moved
    for gripper in robot.grippers:
        command = np.where(np.arange(length) // (length // 3) % 2 == 0, gripper.open, gripper.closed)
        actions[:, gripper.action] = command
        share = _stroke((command - gripper.closed) / (gripper.open - gripper.closed), gripper.stroke_steps)
        for sign, finger in zip((1, -1), gripper.state, strict=False):
            drives = finger in robot.drives.values()
            opening = gripper.closed + share * (gripper.open - gripper.closed) if drives else sign * FINGER * share
            states[:, finger] = opening
    return Episode(
        states[:-1].astype(np.float32), actions.astype(np.float32), np.arange(length) / robot.control_hz, "move"
    )


def _move_arms(robot: Robot, states: np.ndarray, rng: np.random.Generator) -> None:
    for arm in robot.arms:
        smooth = _smooth(len(states), len(arm.pose.state_indices), rng)
        if isinstance(arm.pose, KinematicChain):
            middle = PANDA_MIDDLE if len(arm.pose.joints) == 7 else np.zeros(len(arm.pose.joints))
            states[:, list(arm.pose.joints)] = middle + 0.2 * smooth
        elif arm.pose.representation == "axis_angle":
            states[:, list(arm.pose.state_indices)] = np.array([0, 0, 1, 3.0, 0, 0]) + 0.2 * smooth
        else:
            states[:, list(arm.pose.state_indices)] = np.array([0, 0, 1, 1.0, 0, 0, 0]) + 0.2 * smooth
            rotation = list(arm.pose.rotation)
            states[:, rotation] /= np.linalg.norm(states[:, rotation], axis=1, keepdims=True)


def _moved(robot: Robot, states: np.ndarray, size: int) -> np.ndarray:
    """What a group of small motions moves: joints, position, or (with two arms) a base that the state shows last."""
    pose = robot.arms[0].pose
    if len(robot.arms) > 1:
        return states[:, -4:-1] if size == 3 else states[:, -1:]
    joints = isinstance(pose, KinematicChain) and size == len(pose.joints)
    return states[:, list(pose.joints)] if joints else pose.pose(states)[:, :3]


def _smooth(length: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Curves within -1 .. 1 that reach both ends, with their own phase and pace."""
    pace, phase = rng.uniform(1.5, 2.5, size), rng.uniform(0, 2 * np.pi, size)
    return np.sin(2 * np.pi * np.arange(length)[:, None] / 160 * pace + phase)


def _stroke(target: np.ndarray, steps: int) -> np.ndarray:
    """Fingers that reach their target in so many steps at a constant speed; one value more than the targets."""
    share = [float(target[0])]
    for wanted in target:
        share.append(share[-1] + float(np.clip(wanted - share[-1], -1 / steps, 1 / steps)))
    return np.array(share)
