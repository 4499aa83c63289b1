"""Stand-ins for unit tests: a robot, demonstrations, a world model, a policy and an environment that cost nothing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedup_patch.data import Demonstrations, Episode, MachineState
from speedup_patch.interfaces import Observation
from speedup_patch.observations import features, plain_state_indices, split_observation
from speedup_patch.robots import ALOHA, ActionGroup, Arm, Gripper, Robot, StatePose

START = np.array([0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 0.1] * 2)

JOINTS = [index for index, name in enumerate(ALOHA.state_names) if not name.endswith("gripper")]

DELTA_ROBOT = Robot(
    name="stand_in_delta",
    control_hz=20.0,
    state_names=("x", "y", "z", "rx", "ry", "rz", "finger"),
    actions=(
        ActionGroup(("dx", "dy", "dz"), "delta", "m", (-1.0,) * 3, (1.0,) * 3),
        ActionGroup(("drx", "dry", "drz"), "delta", "rad", (-1.0,) * 3, (1.0,) * 3, rotation="axis_angle"),
        ActionGroup(("grip",), "gripper", "-1 open .. 1 closed", (-1.0,), (1.0,)),
    ),
    arms=(
        Arm(
            "arm",
            StatePose((0, 1, 2), (3, 4, 5), "axis_angle"),
            Gripper(6, (6,), closed=1.0, open=-1.0, stroke_steps=4),
        ),
    ),
)


def smooth_demonstrations(episodes: int = 6, steps: int = 90, seed: int = 0) -> Demonstrations:
    """ALOHA joint targets that wander smoothly, at changing speed, with states that lag behind them."""
    rng = np.random.default_rng(seed)
    made: list[Episode] = []
    for _ in range(episodes):
        phase = np.cumsum(0.02 + 0.06 * rng.random() * (1 + np.sin(np.arange(steps) / 9 + rng.random())))
        wave = np.sin(phase[:, None] + rng.uniform(0, 6, 14)) * rng.uniform(0.05, 0.3, 14)
        actions = START + wave - wave[0]
        states = np.empty_like(actions)
        states[0] = START
        for t in range(1, steps):
            states[t] = states[t - 1] + 0.4 * (actions[t - 1] - states[t - 1])
        made.append(Episode(states, actions, np.arange(steps) / 50.0, "wander"))
    return Demonstrations(tuple(made), 50.0, "aloha")


class LaggingWorldModel:
    """Every joint closes 40% of the gap to its command at each step, exactly as in ``smooth_demonstrations``."""

    robot = ALOHA
    memory = 0

    def rollout(self, observations: np.ndarray, actions: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        x, _ = split_observation(observations)
        state = x[:, : len(plain_state_indices(ALOHA))]
        path: list[np.ndarray] = []
        for command in np.moveaxis(actions, 1, 0):
            state = state + 0.4 * (command - state)
            path.append(state)
        return features(ALOHA, np.stack(path, axis=1))

    def save(self, directory: Path) -> None:
        raise AssertionError("a stand-in is never saved")


class RememberingWorldModel(LaggingWorldModel):
    """The lagging joints, which need no memory, and a list of what they were told of the last commands."""

    memory = 2

    def __init__(self) -> None:
        self.told: list[np.ndarray | None] = []

    def rollout(self, observations: np.ndarray, actions: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        self.told.append(before)
        return super().rollout(observations, actions)


class ReplayPolicy:
    """Answers with the next n actions of one demonstration, counting its own calls to know where it is."""

    def __init__(self, episode: Episode, n: int) -> None:
        self.episode, self.n, self.calls = episode, n, 0

    def infer(self, observation: Observation) -> np.ndarray:
        first = min(self.calls * self.n, len(self.episode) - self.n)
        self.calls += 1
        return self.episode.actions[first : first + self.n]

    def reset(self) -> None:
        self.calls = 0


@dataclass
class LaggingEnv:
    """The lagging joints as an environment; solved once ``goal`` original actions' worth of motion was followed."""

    episode: Episode
    name: str = "stand-in"
    robot: Robot = ALOHA
    max_steps: int = 200

    def reset(self, seed: int) -> Observation:
        self.state = self.previous = self.episode.states[0]
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[Observation, bool]:
        self.previous, self.state = self.state, self.state + 0.4 * (action - self.state)
        return self._observation(), bool(np.abs(action - self.episode.actions[-1]).max() < 1e-9)

    @property
    def task_name(self) -> str:
        return self.name

    def hold_action(self) -> np.ndarray:
        return self.episode.states[0]

    def machine(self) -> MachineState:
        return MachineState(self.state[JOINTS])

    def save(self) -> object:
        return self.state, self.previous

    def restore(self, snapshot: object) -> Observation:
        self.state, self.previous = snapshot  # type: ignore[misc]
        return self._observation()

    def close(self) -> None:
        pass

    def _observation(self) -> Observation:
        return {"state": self.state, "previous_state": self.previous}
