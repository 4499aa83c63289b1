"""Tool poses of the simulated arms, and the joint targets that bring a tool to a pose."""

# MuJoCo is a compiled module without type stubs.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false

from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float

TOOL_OFFSET = 0.135
"""Metres from the gripper link's origin, along its x axis, to the middle of the finger pads."""

LEVER = 0.2
"""Metres of position error that one radian of orientation error counts for."""

DAMPING = 0.01
ROLL_PULL = 2e-4 * np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
"""A weak pull of the forearm roll to zero, without which the wrist may flip over where its two roll axes line up."""


@dataclass(frozen=True)
class Pose:
    """A frame in the world: position in metres and rotation matrix."""

    position: Float[np.ndarray, "3"]
    rotation: Float[np.ndarray, "3 3"]

    def apply(self, local: "Pose") -> "Pose":
        """The world pose of a frame given in this one."""
        return Pose(self.position + self.rotation @ local.position, self.rotation @ local.rotation)

    def seen_from(self, frame: "Pose") -> "Pose":
        """This pose in the coordinates of ``frame``."""
        inverse = frame.rotation.T
        return Pose(inverse @ (self.position - frame.position), inverse @ self.rotation)


def rotation_vector(rotation: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "3"]:
    """Axis times angle, in radians."""
    quaternion, vector = np.empty(4), np.empty(3)
    mujoco.mju_mat2Quat(quaternion, rotation.ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector


def turn(vector: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """The rotation matrix of axis times angle, in radians."""
    angle = float(np.linalg.norm(vector))
    if angle == 0.0:
        return np.eye(3)
    quaternion = np.empty(4)
    mujoco.mju_axisAngle2Quat(quaternion, vector / angle, angle)
    return quaternion_matrix(quaternion)


def quaternion_matrix(quaternion: Float[np.ndarray, "4"]) -> Float[np.ndarray, "3 3"]:
    """The rotation matrix of MuJoCo's (w, x, y, z) quaternion."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


class ArmKinematics:
    """One arm of a bimanual ViperX model, on scratch data of its own: nothing here moves the simulation."""

    def __init__(self, model: mujoco.MjModel, side: str) -> None:
        names = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
        joints = [model.joint(f"vx300s_{side}/{name}") for name in names]
        actuator_of = {int(joint): index for index, joint in enumerate(model.actuator_trnid[:, 0])}
        actuators = [actuator_of[joint.id] for joint in joints]
        self._model = model
        self._data = mujoco.MjData(model)
        self._positions = [int(joint.qposadr[0]) for joint in joints]
        self._velocities = [int(joint.dofadr[0]) for joint in joints]
        self._low, self._high = model.actuator_ctrlrange[actuators].T.copy()
        self._low[3], self._high[3] = -1.2, 1.2
        self._stiffness = model.actuator_gainprm[actuators, 0]
        self._body = model.body(f"vx300s_{side}/gripper_link").id

    def tool_pose(self, joints: Float[np.ndarray, "6"]) -> Pose:
        """Where the tool is at these joint angles (radians)."""
        self._data.qpos[self._positions] = joints
        mujoco.mj_kinematics(self._model, self._data)
        rotation = self._data.xmat[self._body].reshape(3, 3).copy()
        return Pose(self._data.xpos[self._body] + TOOL_OFFSET * rotation[:, 0], rotation)

    def solve(self, goal: Pose, start: Float[np.ndarray, "6"], iterations: int = 6) -> Float[np.ndarray, "6"]:
        """Joint angles that bring the tool to ``goal``, by damped least squares from ``start``, within joint limits."""
        joints = start.copy()
        for _ in range(iterations):
            pose = self.tool_pose(joints)
            turned = pose.rotation @ rotation_vector(pose.rotation.T @ goal.rotation)
            error = np.concatenate([goal.position - pose.position, LEVER * turned])
            jacobian = self._jacobian(pose.position)
            normal = jacobian.T @ jacobian + np.diag(DAMPING**2 + ROLL_PULL)
            step = np.linalg.solve(normal, jacobian.T @ error - ROLL_PULL * joints)
            joints = np.clip(joints + np.clip(step, -0.1, 0.1), self._low, self._high)
            if np.abs(step).max() < 3e-4:
                break
        return joints

    def sag(self, joints: Float[np.ndarray, "6"]) -> Float[np.ndarray, "6"]:
        """How far (radians) each target must lie beyond the joint for its spring-like actuator to carry gravity."""
        self.tool_pose(joints)
        mujoco.mj_comPos(self._model, self._data)
        torque = np.empty(self._model.nv)
        mujoco.mj_rne(self._model, self._data, 0, torque)
        return torque[self._velocities] / self._stiffness

    def _jacobian(self, point: Float[np.ndarray, "3"]) -> Float[np.ndarray, "6 6"]:
        mujoco.mj_comPos(self._model, self._data)
        linear, angular = np.empty((3, self._model.nv)), np.empty((3, self._model.nv))
        mujoco.mj_jac(self._model, self._data, linear, angular, point, self._body)
        return np.concatenate([linear[:, self._velocities], LEVER * angular[:, self._velocities]])
