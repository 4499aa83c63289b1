"""An arm of two joints and a gripper whose true law is known, and demonstrations of it."""

import numpy as np

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.robots import ActionGroup, Arm, Gripper, KinematicChain, Link, Robot
from speedup_patch.world_model.servo import Servo, simulate

SMALL_ARM = Robot(
    name="small_arm",
    control_hz=50.0,
    state_names=("shoulder", "elbow", "gripper", "temperature"),
    actions=(
        ActionGroup(("shoulder", "elbow"), "absolute", "rad", (-3.0,) * 2, (3.0,) * 2, drives=(0, 1)),
        ActionGroup(("gripper",), "gripper", "0 closed .. 1 open", (0.0,), (1.0,), drives=(2,)),
    ),
    arms=(
        Arm(
            "arm",
            KinematicChain(
                (0, 1),
                (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
                (Link((0.0, 0.0, 0.1), (0.0, 0.0, 1.0)), Link((0.3, 0.0, 0.0), (0.0, 1.0, 0.0))),
            ),
            Gripper(2, (2,), closed=0.0, open=1.0, stroke_steps=10),
        ),
    ),
)

LAW = Servo(
    stiffness=np.array([5.0, 1.1, 0.25]),
    damping=np.array([0.02, 1.9, 1.9]),
    share=np.array([0.93, 0.0, 0.0]),
    grip=np.array([1.9, 0.0, 0.0]),
    limit=np.array([0.2, 0.0, 0.0]),
    offset=np.array([0.0, 0.003, 0.0]),
)
"""The shoulder has friction and breaks away when it is driven fast; the others do not."""


def wandering_commands(steps: int, rng: np.random.Generator, speed: float = 1.0) -> np.ndarray:
    """Joint targets that move from one place to the next as hands do, a gripper that opens and shuts."""
    commands = np.zeros((steps, 3))
    for joint, amplitude in enumerate((0.5, 0.5, 0.5)):
        now, step = commands[0, joint], 0
        while step < steps:
            duration = int(rng.integers(15, 50) / speed)
            goal = amplitude * rng.uniform(-1, 1) if joint < 2 else float(rng.random() < 0.5)
            share = np.linspace(0, 1, duration + 1)[1:]
            path = now + (goal - now) * share**3 * (10 - 15 * share + 6 * share**2)
            commands[step : step + duration, joint] = path[: steps - step]
            now, step = goal, step + duration
    return commands


def follow(commands: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """The states before each command when the arm obeys ``LAW``, from rest."""
    start = commands[0] if start is None else start
    reached = simulate(LAW, start, np.zeros(3), commands)
    path = np.concatenate([start[None], reached[:-1]])
    return np.concatenate([path, np.full((len(path), 1), 21.5)], axis=1)


def demonstrate(
    episodes: int = 8, steps: int = 160, seed: int = 0, disturbance: float = 0.0, record_sent: bool = True
) -> Demonstrations:
    """Demonstrations in which the arm obeys ``LAW``; a disturbance is sent on top of what is called the action."""
    rng = np.random.default_rng(seed)
    made: list[Episode] = []
    for _ in range(episodes):
        actions = wandering_commands(steps, rng)
        sent = actions + disturbance * smooth_noise(steps, rng)
        extras = {"executed_action": sent} if record_sent and disturbance else {}
        made.append(Episode(follow(sent, actions[0]), actions, np.arange(steps) / 50.0, "wander", extras))
    return Demonstrations(tuple(made), 50.0, "small_arm")


def smooth_noise(steps: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of unit size on both joints that forgets itself over a dozen steps."""
    noise = np.zeros((steps, 3))
    for step in range(1, steps):
        noise[step, :2] = 0.92 * noise[step - 1, :2] + 0.4 * rng.standard_normal(2)
    return noise
