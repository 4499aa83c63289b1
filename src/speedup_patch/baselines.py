"""Schedulers that need no learning, and the two wrappers that turn a rate into a warp."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.candidates import Candidates, Rates
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.interfaces import RateChooser, Scheduler, WorldModel, find_schedule, require_method
from speedup_patch.limits import START_UP_SECONDS, Limits
from speedup_patch.maths.cmdp import greedy_index, greedy_rate
from speedup_patch.observations import batch_of_one, feature_poses, split_observation
from speedup_patch.relabel import Measure, find_violations, predict_counterfactuals
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import Robot
from speedup_patch.scheduler.chooser import chosen_warp
from speedup_patch.warp import Delays, Tail, Warp, uniform_warp


class OneRatePerChunk:
    """A Scheduler: the whole chunk runs at the rate a chooser picks."""

    def __init__(self, chooser: RateChooser, tail: Tail = "keep") -> None:
        require_method(chooser, "choose", "observations", "chunks")
        self.chooser = chooser
        self.tail: Tail = tail

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        rate = self.chooser.choose(observation[None], chunk[None])[0]
        return uniform_warp(len(chunk), float(rate), self.tail)

    def reset(self) -> None:
        pass


class Tracked:
    """A Scheduler around a scheduler: its warps with what it takes to keep joints on the path that the world model
    predicts (see keeping_up.py), and gripper commands read ahead by these delays."""

    def __init__(self, scheduler: Scheduler, world_model: WorldModel, delays: Delays) -> None:
        self.scheduler = scheduler
        self.world_model = world_model
        self.delays = delays

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        warp = self.scheduler.schedule(observation, chunk, before)
        path = paths_at_rate_one(self.world_model, observation[None], chunk[None], batch_of_one(before))[0]
        return replace(warp, delays=self.delays, path=path)

    def reset(self) -> None:
        self.scheduler.reset()


class FixedRate:
    """A RateChooser: always the same rate."""

    def __init__(self, rate: float) -> None:
        if not (np.isfinite(rate) and rate >= 1):
            raise InputError(f"a fixed rate must be a number of at least 1, not {rate}")
        self.rate = rate

    def choose(
        self,
        observations: Float[np.ndarray, "B O"],
        chunks: Float[np.ndarray, "B n A"],
    ) -> Float[np.ndarray, " B"]:
        return np.full(len(chunks), self.rate)


class GreedyMpc:
    """A Scheduler: the fastest option whose predicted deviation stays within epsilon, else the slowest."""

    def __init__(
        self, world_model: WorldModel, candidates: Candidates, epsilon: float, measure: Measure, limits: Limits
    ) -> None:
        self.world_model = world_model
        self.candidates = candidates
        self.epsilon = epsilon
        self.measure: Measure = measure
        self.limits = limits

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The fastest safe option's warp."""
        predicted = predict_counterfactuals(
            self.world_model,
            observation[None],
            chunk[None],
            self.candidates,
            self.measure,
            self.limits,
            batch_of_one(before),
        )
        options = predicted.options
        choice = greedy_index(options.rates(len(chunk)), find_violations(predicted.deviations, self.epsilon))[0]
        return chosen_warp(options, int(choice), self.candidates, len(chunk))

    def reset(self) -> None:
        pass


class SpeedCap:
    """A Scheduler: the largest rate that keeps every end-effector below a speed, in metres per control step."""

    def __init__(self, world_model: WorldModel, rates: Rates, limit: float) -> None:
        self.world_model = world_model
        self.rates = rates
        self.limit = limit

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The chosen rate for the whole chunk."""
        rate = self.choose(observation[None], chunk[None], batch_of_one(before))[0]
        return uniform_warp(len(chunk), float(rate))

    def choose(
        self,
        observations: Float[np.ndarray, "B O"],
        chunks: Float[np.ndarray, "B n A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, " B"]:
        """The rates of many chunks."""
        robot = self.world_model.robot
        x, _ = split_observation(observations)
        path = np.concatenate([x[:, None], self.world_model.rollout(observations, chunks, before)], axis=1)
        speed = _step_lengths(feature_poses(robot, path)).max(axis=(1, 2))
        values = np.array(self.rates.values)
        return greedy_rate(values, ~(speed[:, None] * values <= self.limit))

    def reset(self) -> None:
        pass


def _step_lengths(poses: Float[np.ndarray, "*B T arms 7"]) -> Float[np.ndarray, "*B T-1 arms"]:
    """Metres that each end-effector moves between one row and the next."""
    return np.linalg.norm(np.diff(poses[..., :3], axis=-3), axis=-1)


def demonstrated_speed(robot: Robot, demonstrations: Demonstrations, quantile: float = 0.99) -> float:
    """The end-effector speed that ``quantile`` of demonstrated steps stay below, in metres per control step.

    The start of each episode is left out, and so are steps at which the end-effector rests.
    """
    skip = round(START_UP_SECONDS * demonstrations.control_hz)
    lengths = [_step_lengths(robot.poses(episode.states))[skip:].max(axis=-1) for episode in demonstrations]
    moving = np.concatenate(lengths)
    moving = moving[moving > 1e-5]
    if len(moving) == 0:
        raise InputError("no end-effector moves in these demonstrations: is the robot the right one?")
    return float(np.quantile(moving, quantile))


class GripperDwell:
    """A Scheduler around a scheduler: steps after a gripper flip are not merged until the stroke is over."""

    def __init__(self, scheduler: Scheduler, robot: Robot, steps: int | None = None) -> None:
        if not robot.grippers:
            raise InputError(f"robot {robot.name!r} has no gripper to dwell for")
        self.scheduler = scheduler
        self._schedule = find_schedule(scheduler)
        self.robot = robot
        self.steps = max(gripper.stroke_steps for gripper in robot.grippers) if steps is None else steps
        self._closed: Bool[np.ndarray, " G"] | None = None
        self._remaining = 0

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        warp = self._schedule(observation, chunk, before)
        closed = self._closed_commands(chunk)
        first = closed[:1] if self._closed is None else self._closed[None]
        flips = np.flatnonzero((closed != np.concatenate([first, closed[:-1]])).any(axis=1))
        slow = np.zeros(len(chunk), dtype=bool)
        slow[: self._remaining] = True
        for flip in flips:
            slow[flip : flip + self.steps] = True
        ends = [self._remaining - len(chunk), *(flip + self.steps - len(chunk) for flip in flips)]
        self._remaining = max(0, *ends)
        self._closed = closed[-1]
        return slow_down(warp, slow)

    def _closed_commands(self, chunk: Float[np.ndarray, "n A"]) -> Bool[np.ndarray, "n G"]:
        columns = [
            (chunk[:, gripper.action] - gripper.closed) / (gripper.open - gripper.closed) < 0.5
            for gripper in self.robot.grippers
        ]
        return np.stack(columns, axis=1)

    def reset(self) -> None:
        self.scheduler.reset()
        self._closed, self._remaining = None, 0


def slow_down(warp: Warp, slow: Bool[np.ndarray, " n"]) -> Warp:
    """The warp with every marked original action run on its own, at rate 1; the rest keeps its step sizes."""
    steps = np.diff(warp.positions, prepend=0.0)
    positions: list[float] = []
    at = 0.0
    end = float(warp.positions[-1])
    while at < end - 1e-9:
        index = int(at + 1e-9)
        if slow[index]:
            step = index + 1 - at
        else:
            step = float(steps[min(int(np.searchsorted(warp.positions, at + 1e-9)), len(steps) - 1)])
            ahead = np.flatnonzero(slow[index:])
            step = min(step, index + int(ahead[0]) - at) if len(ahead) else step
        at = min(at + step, end)
        at = float(round(at)) if abs(at - round(at)) < 1e-9 else at
        positions.append(at)
    return replace(warp, positions=np.array(positions))
