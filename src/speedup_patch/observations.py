"""What the networks see: features x of one moment, and the observation o = (x, change of x since the last step).

x holds the state without its end-effector pose, then per arm the position (3) and the rotation in 6-D.
"""

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.data import Episode
from speedup_patch.maths.poses import quaternion_to_six_d, six_d_to_quaternion
from speedup_patch.robots import Robot, StatePose

POSE_SIZE = 9


def plain_state_indices(robot: Robot) -> list[int]:
    """The state dimensions that enter the features as they are: all but end-effector poses."""
    taken = {
        index
        for arm in robot.arms
        if isinstance(arm.pose, StatePose)
        for index in (*arm.pose.position, *arm.pose.rotation)
    }
    return [index for index in range(robot.state_size) if index not in taken]


def feature_size(robot: Robot) -> int:
    """How many numbers x has."""
    return len(plain_state_indices(robot)) + POSE_SIZE * len(robot.arms)


def features(robot: Robot, states: Float[np.ndarray, "*B S"]) -> Float[np.ndarray, "*B X"]:
    """x for every state."""
    poses = robot.poses(states)
    encoded = np.concatenate([poses[..., :3], quaternion_to_six_d(poses[..., 3:])], axis=-1)
    flat = encoded.reshape(*states.shape[:-1], POSE_SIZE * len(robot.arms))
    return np.concatenate([states[..., plain_state_indices(robot)], flat], axis=-1)


def encoded_poses(robot: Robot, x: Float[np.ndarray, "*B X"]) -> Float[np.ndarray, "*B arms 9"]:
    """The end-effector poses inside x: position, then rotation in 6-D."""
    return x[..., x.shape[-1] - POSE_SIZE * len(robot.arms) :].reshape(*x.shape[:-1], len(robot.arms), POSE_SIZE)


def feature_poses(robot: Robot, x: Float[np.ndarray, "*B X"]) -> Float[np.ndarray, "*B arms 7"]:
    """The end-effector poses inside x."""
    encoded = encoded_poses(robot, x)
    return np.concatenate([encoded[..., :3], six_d_to_quaternion(encoded[..., 3:])], axis=-1)


def observe(
    robot: Robot, states: Float[np.ndarray, "*B S"], previous_states: Float[np.ndarray, "*B S"]
) -> Float[np.ndarray, "*B O"]:
    """o = (x, x - x one control step earlier)."""
    x = features(robot, states)
    return np.concatenate([x, x - features(robot, previous_states)], axis=-1)


def observe_episode(robot: Robot, episode: Episode) -> Float[np.ndarray, "T O"]:
    """o at every step of a demonstration; the first step is at rest."""
    x = features(robot, episode.states)
    return np.concatenate([x, np.diff(x, axis=0, prepend=x[:1])], axis=-1)


def split_observation(o: Float[np.ndarray, "*B O"]) -> tuple[Float[np.ndarray, "*B X"], Float[np.ndarray, "*B X"]]:
    """(x, velocity of x per control step)."""
    half = o.shape[-1] // 2
    return o[..., :half], o[..., half:]


def commands_before(
    commands: Float[np.ndarray, "T A"], moments: Int[np.ndarray, " N"], memory: int
) -> Float[np.ndarray, "N M A"]:
    """The last M of an episode's commands before each of these moments, oldest first; NaN before the first."""
    nothing = no_commands(1, memory, commands.shape[1])[0]
    return np.concatenate([nothing, commands])[moments[:, None] + np.arange(memory)]


def no_commands(count: int, memory: int, action_size: int) -> Float[np.ndarray, "N M A"]:
    """The last M commands where none was sent yet, or none is known."""
    return np.full((count, memory, action_size), np.nan)


def batch_of_one(before: Float[np.ndarray, "M A"] | None) -> Float[np.ndarray, "1 M A"] | None:
    """The last commands of one moment as those of N; None, where nothing is known of them, stays None."""
    return None if before is None else before[None]


def command_matrix(robot: Robot) -> Float[np.ndarray, "X A"]:
    """M such that ``x @ M`` is, per action dimension, where the state it drives is now; zero for other commands."""
    place = {state: position for position, state in enumerate(plain_state_indices(robot))}
    matrix = np.zeros((feature_size(robot), robot.action_size))
    for action, state in robot.drives.items():
        matrix[place[state], action] = 1.0
    return matrix
