"""robosuite's OSC_POSE controller and Panda gripper over one control step, without robosuite's overhead.

The stock loop evaluates the whole model three times per 2 ms (twice only to read poses); here it is evaluated once,
which with the lean reading of poses makes a control step more than twice as fast. The torques come from robosuite's own
functions, and trajectories agree with the stock loop's to rounding (tests/libero compares them step by step).
"""

# MuJoCo is a compiled module without type stubs; robosuite has no types.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingImports=false

from typing import Any

import mujoco
import numpy as np
from jaxtyping import Float
from robosuite.utils.control_utils import (
    nullspace_torques,
    opspace_matrices,
    orientation_error,
    set_goal_orientation,
)


class PoseController:
    """Drives arm and gripper of one robosuite environment; ``goal_*`` and ``gripper_command`` are all it remembers."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, env: Any) -> None:
        robot = env.robots[0]
        self._model, self._data = model, data
        self._substeps = int(env.control_timestep / env.model_timestep)
        self._site = robot.eef_site_id
        self._dofs = np.array(robot._ref_joint_vel_indexes)
        self._joints = np.array(robot._ref_joint_pos_indexes)
        self._motors = np.array(robot._ref_joint_actuator_indexes)
        self._finger_motors = np.array([model.actuator(name).id for name in robot.gripper.actuators])
        self._torque_low, self._torque_high = robot.torque_limits
        self._gripper_speed = robot.gripper.speed
        self._linear, self._angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        self._mass = np.zeros((model.nv, model.nv))
        self.take_over(env)

    def take_over(self, env: Any) -> None:
        """Goes on from the settings and the memory that robosuite's own controller and gripper have now."""
        stock = env.robots[0].controller
        self._kp, self._kd = np.array(stock.kp), np.array(stock.kd)
        self._scale = np.array(stock.output_max)
        self._initial_joints = np.array(stock.initial_joint)
        self.goal_position: Float[np.ndarray, 3] = np.array(stock.goal_pos)
        self.goal_rotation: Float[np.ndarray, "3 3"] = np.array(stock.goal_ori)
        self.gripper_command: Float[np.ndarray, 2] = np.broadcast_to(env.robots[0].gripper.current_action, 2)

    def step(self, action: Float[np.ndarray, "7"]) -> None:
        """One control step; the arm's part of the action is clipped to +-1, of the gripper's only the sign counts."""
        fingers = np.array([-1.0, 1.0]) * self._gripper_speed * np.sign(action[6])
        for substep in range(self._substeps):
            mujoco.mj_step1(self._model, self._data)
            if substep == 0:
                self._set_goal(np.clip(action[:6], -1.0, 1.0) * self._scale)
            self._data.ctrl[self._motors] = np.clip(self._torques(), self._torque_low, self._torque_high)
            self.gripper_command = np.clip(self.gripper_command + fingers, -1.0, 1.0)
            low, high = self._model.actuator_ctrlrange[self._finger_motors].T
            self._data.ctrl[self._finger_motors] = 0.5 * (high + low) + 0.5 * (high - low) * self.gripper_command
            mujoco.mj_step2(self._model, self._data)

    def _set_goal(self, delta: Float[np.ndarray, "6"]) -> None:
        self.goal_position = self._data.site_xpos[self._site] + delta[:3]
        # robosuite keeps the old orientation as its goal while no turn is asked for.
        if np.abs(delta[3:]).max() > 0.0:
            rotation = self._data.site_xmat[self._site].reshape(3, 3)
            self.goal_rotation = set_goal_orientation(delta[3:], rotation.copy())

    def _torques(self) -> Float[np.ndarray, "7"]:
        data = self._data
        mujoco.mj_jacSite(self._model, data, self._linear, self._angular, self._site)
        mujoco.mj_fullM(self._model, self._mass, data.qM)
        position, rotation = data.site_xpos[self._site], data.site_xmat[self._site].reshape(3, 3)
        velocity = data.qvel
        force = self._kp[:3] * (self.goal_position - position) - self._kd[:3] * (self._linear @ velocity)
        turn = orientation_error(self.goal_rotation, rotation)
        torque = self._kp[3:] * turn - self._kd[3:] * (self._angular @ velocity)
        linear, angular = self._linear[:, self._dofs], self._angular[:, self._dofs]
        jacobian = np.concatenate([linear, angular])
        mass = self._mass[np.ix_(self._dofs, self._dofs)]
        _, lambda_linear, lambda_angular, nullspace = opspace_matrices(mass, jacobian, linear, angular)
        wrench = np.concatenate([lambda_linear @ force, lambda_angular @ torque])
        posture = nullspace_torques(
            mass, nullspace, self._initial_joints, data.qpos[self._joints], velocity[self._dofs]
        )
        return jacobian.T @ wrench + data.qfrc_bias[self._dofs] + posture
