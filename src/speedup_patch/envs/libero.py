"""LIBERO's tasks in closed loop at 20 Hz, by default without cameras."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.data import MachineState
from speedup_patch.envs.libero_scene import environment_state
from speedup_patch.envs.libero_scripts import has_script
from speedup_patch.envs.libero_setup import prepare_libero
from speedup_patch.envs.libero_simulator import SETTLE_ACTION, SimulatorSnapshot, TaskSimulator
from speedup_patch.envs.libero_tasks import MAX_STEPS, LiberoName, LiberoTask, is_learned, parse_name
from speedup_patch.envs.seeds import FIRST_SEEDS, scenes_of
from speedup_patch.envs.stage import Stage
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Observation
from speedup_patch.robots import Robot, find_robot

EVALUATION_STATES = 20
"""Of LIBERO's 50 initial states per task, evaluation starts from 0 .. 19, development from the others, demonstrations
from none."""

INITIAL_STATES = 50

ARM_NOISE = 0.02
"""Standard deviation (radians, every joint) by which starts vary that LIBERO's states alone would repeat: robosuite's
own default."""


@dataclass(frozen=True)
class Start:
    """Where an episode begins: one of the tasks, one of LIBERO's initial states, and the arm's deviation from it."""

    task: LiberoTask
    initial: int | None
    """None where LIBERO is to place things anew, as it did for its initial states."""
    arm_noise: Float[np.ndarray, "7"]


def choose_start(tasks: Sequence[LiberoTask], seed: int) -> Start:
    """The start that a seed names (seeds.py says which are for what).

    The seeds of a kind count the tasks first: the s-th takes task s % n of n, and its s // n-th start. Evaluation
    starts from LIBERO's states 0 .. 19 as they are, then from the same again with the arm moved at random. Development
    starts from states 20 .. 49 as they are, then from scenes placed anew with the arm moved. Every other seed has a
    scene placed anew.
    """
    scenes = scenes_of(seed)
    count, which = divmod(seed - FIRST_SEEDS[scenes], len(tasks))
    moved = np.random.default_rng(seed).normal(0.0, ARM_NOISE, 7)
    if scenes == "evaluation":
        noise = np.zeros(7) if count < EVALUATION_STATES else moved
        return Start(tasks[which], count % EVALUATION_STATES, noise)
    if scenes == "development" and count < INITIAL_STATES - EVALUATION_STATES:
        return Start(tasks[which], EVALUATION_STATES + count, np.zeros(7))
    return Start(tasks[which], None, moved)


def suite_tasks(name: LiberoName, seed: int) -> tuple[LiberoTask, ...]:
    """The tasks that this seed chooses from: of a suite those that the bundled policies know, and for demonstrations
    all that have an expert. A task that is asked for by its number is taken in any case."""
    wanted = has_script if scenes_of(seed) == "demonstrations" else is_learned
    return tuple(filter(wanted, name.tasks)) or name.tasks


@dataclass(frozen=True)
class LiberoSnapshot:
    """One moment of a LiberoEnv."""

    task: LiberoTask
    simulator: SimulatorSnapshot
    state: Float[np.ndarray, " S"]
    previous_state: Float[np.ndarray, " S"]


class LiberoEnv:
    """One LIBERO task, or a suite where the seed picks the task (``suite_tasks``); an ``Env``.

    Observations: ``state`` (8,) and ``previous_state`` (8,) as in the robot ``panda_libero``, ``environment_state`` as
    libero_scene.py lays it out, and ``image.<camera>`` (128, 128, 3) for every camera asked for.
    """

    def __init__(self, name: str, cameras: Sequence[str] = ()) -> None:
        self._parsed = parse_name(name)
        prepare_libero()
        self.name = name
        self.robot: Robot = find_robot("panda_libero")
        self.max_steps = MAX_STEPS[self._parsed.suite]
        self._cameras = tuple(cameras)
        self._simulators: dict[LiberoTask, TaskSimulator] = {}
        self._task = self._parsed.tasks[0]
        self._state = self._previous_state = np.zeros(self.robot.state_size)

    @property
    def task(self) -> LiberoTask:
        """The task of the episode that runs."""
        return self._task

    @property
    def task_name(self) -> str:
        """The name of that task, such as libero/spatial/3."""
        return self._task.name

    @property
    def instruction(self) -> str:
        """What the robot is asked to do in the episode that runs, in LIBERO's words."""
        return self._task.instruction

    @property
    def simulator(self) -> TaskSimulator:
        """The simulator of the episode that runs; each task's is made when it is first needed."""
        if self._task not in self._simulators:
            self._simulators[self._task] = TaskSimulator(self._task, self._cameras, self._parsed.double_gripper)
        return self._simulators[self._task]

    def reset(self, seed: int) -> Observation:
        """Starts the episode that ``choose_start`` says."""
        start = choose_start(suite_tasks(self._parsed, seed), seed)
        self._task = start.task
        if start.initial is None:
            self.simulator.start_anew(seed, start.arm_noise)
        else:
            self.simulator.start(start.initial, start.arm_noise)
        self._state = self._previous_state = self.simulator.state()
        return self._observe()

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[Observation, bool]:
        """Sends translation (3), turn (3) and gripper (-1 opens, +1 closes); the controller clips to +-1."""
        self._check(action)
        solved = self.simulator.step(action)
        self._previous_state, self._state = self._state, self.simulator.state()
        return self._observe(), solved

    def hold_action(self) -> Float[np.ndarray, " A"]:
        """No motion, and the gripper's command from before the episode: to open."""
        return SETTLE_ACTION.copy()

    def machine(self) -> MachineState:
        """The seven joints of the arm (rad) and the torques of their motors (N m)."""
        return MachineState(self.simulator.arm_joints(), self.simulator.arm_torques())

    def save(self) -> LiberoSnapshot:
        """Everything needed to come back to this moment exactly."""
        return LiberoSnapshot(self._task, self.simulator.save(), self._state, self._previous_state)

    def restore(self, snapshot: object) -> Observation:
        """Comes back to a saved moment; what follows repeats bit for bit."""
        if not isinstance(snapshot, LiberoSnapshot) or snapshot.task not in self._parsed.tasks:
            raise InputError(f"{self.name} can only restore what its own save() returned")
        self._task = snapshot.task
        self.simulator.restore(snapshot.simulator)
        self._state, self._previous_state = snapshot.state, snapshot.previous_state
        return self._observe()

    @property
    def stage(self) -> Stage:
        """What a film needs: the scene from LIBERO's own camera in front of the robot."""
        simulator = self.simulator
        return Stage(simulator._model, simulator._data, "agentview", hidden_groups=(0,))  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        """Closes every task's simulator."""
        for simulator in self._simulators.values():
            simulator.close()
        self._simulators.clear()

    def _check(self, action: Float[np.ndarray, " A"]) -> None:
        if action.shape != (self.robot.action_size,):
            raise InputError(f"a LIBERO action has {self.robot.action_size} numbers, not shape {action.shape}")
        if not np.isfinite(action).all():
            worst = int(np.argmin(np.isfinite(action)))
            raise InputError(
                f"action {self.robot.action_names[worst]} is {action[worst]}; every command must be finite"
            )

    def _observe(self) -> Observation:
        simulator = self.simulator
        observation = {
            "state": self._state.copy(),
            "previous_state": self._previous_state.copy(),
            "environment_state": environment_state(simulator),
        }
        return observation | {f"image.{camera}": simulator.image(camera) for camera in self._cameras}
