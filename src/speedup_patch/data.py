"""The values that flow through the package: frozen, numpy, one meaning per field.

Time alignment, everywhere: ``states[t]`` is what the robot reports just before ``actions[t]`` is
sent, and ``states[t + 1]`` is what it reports one control step later.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.errors import InputError


@dataclass(frozen=True)
class Episode:
    """One demonstration of T control steps: ``states[t]`` was seen before ``actions[t]`` was sent."""

    states: Float[np.ndarray, "T S"]
    actions: Float[np.ndarray, "T A"]
    timestamps: Float[np.ndarray, " T"]
    """Seconds since the start of the episode."""
    task: str = ""
    extras: Mapping[str, Float[np.ndarray, "T _"]] = field(default_factory=lambda: MappingProxyType({}))
    """Further columns by their data set name, such as ``observation.environment_state``."""

    def __post_init__(self) -> None:
        lengths = {"states": len(self.states), "actions": len(self.actions), "timestamps": len(self.timestamps)}
        lengths |= {name: len(column) for name, column in self.extras.items()}
        if len(set(lengths.values())) != 1:
            raise InputError(f"an episode's columns must have one row per control step, but lengths differ: {lengths}")
        if len(self.states) == 0:
            raise InputError("an episode has no rows; leave it out of the data set")
        for name, column in {"state": self.states, "action": self.actions, **self.extras}.items():
            refuse_non_finite(column, name)

    def __len__(self) -> int:
        return len(self.states)


SENT = "executed_action"
"""The extra column that says what the robot was really sent, where that is not the action a policy should learn."""


def sent_actions(episode: Episode) -> Float[np.ndarray, "T A"]:
    """What the robot was sent: its motion answers to that, whatever the data set calls its action."""
    sent = episode.extras.get(SENT, episode.actions)
    if sent.shape != episode.actions.shape:
        raise InputError(
            f"column {SENT!r} has {sent.shape[1]} numbers a row, but actions have {episode.actions.shape[1]}"
        )
    return sent


def refuse_non_finite(column: Float[np.ndarray, "T D"], name: str) -> None:
    """Raises an error that names the first row and dimension holding NaN or infinity."""
    finite = np.isfinite(column)
    if not finite.all():
        row, dimension = np.argwhere(~finite)[0]
        raise InputError(
            f"{name} holds {column[row, dimension]} at row {row}, dimension {dimension}; every value must be finite"
        )


@dataclass(frozen=True)
class Demonstrations:
    """Episodes of one robot at one control frequency."""

    episodes: tuple[Episode, ...]
    control_hz: float
    robot_name: str = ""
    """What the data set says its robot is; empty when it does not say."""

    def __post_init__(self) -> None:
        if not self.episodes:
            raise InputError("the data set holds no episodes")
        if not self.control_hz > 0:
            raise InputError(f"control frequency must be positive, not {self.control_hz}")
        shapes = {(episode.states.shape[1], episode.actions.shape[1]) for episode in self.episodes}
        if len(shapes) != 1:
            raise InputError(f"episodes differ in their (state, action) dimensions: {sorted(shapes)}")

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    @property
    def state_size(self) -> int:
        return self.episodes[0].states.shape[1]

    @property
    def action_size(self) -> int:
        return self.episodes[0].actions.shape[1]

    @property
    def frames(self) -> int:
        return sum(len(episode) for episode in self.episodes)

    def shared_extras(self) -> dict[str, int]:
        """The further columns and their widths, which a file can hold only if they are the same in every episode."""
        first = {name: column.shape[1] for name, column in self.episodes[0].extras.items()}
        for number, episode in enumerate(self.episodes):
            columns = {name: column.shape[1] for name, column in episode.extras.items()}
            if columns != first:
                raise InputError(f"episode {number} has further columns {columns}, but episode 0 has {first}")
        return first

    def fingerprint(self) -> str:
        """A hash of every state and action, so that a patch can say which data it was made from."""
        digest = hashlib.sha256()
        for episode in self.episodes:
            digest.update(np.ascontiguousarray(episode.states, dtype=np.float32).tobytes())
            digest.update(np.ascontiguousarray(episode.actions, dtype=np.float32).tobytes())
        return digest.hexdigest()

    def split(self, fraction: float, rng: np.random.Generator) -> "tuple[Demonstrations, Demonstrations]":
        """(training, held-out): whole episodes, at least one on each side, ``fraction`` of them held out."""
        return self.split_at(self.draw_held_out(fraction, rng))

    def draw_held_out(self, fraction: float, rng: np.random.Generator) -> tuple[int, ...]:
        """The indices of the episodes to hold out, rising: at least one, ``fraction`` of all."""
        if len(self) < 2:
            raise InputError("at least two episodes are needed to hold one out; this data set has one")
        held_out = min(max(1, round(fraction * len(self))), len(self) - 1)
        return tuple(sorted(rng.permutation(len(self))[:held_out].tolist()))

    def split_at(self, held_out: Iterable[int]) -> "tuple[Demonstrations, Demonstrations]":
        """(all other episodes, those of these indices)."""
        kept = set(held_out)
        return self.select(set(range(len(self))) - kept), self.select(kept)

    def select(self, indices: Iterable[int]) -> "Demonstrations":
        """Only these episodes, in the order of the data set."""
        return replace(self, episodes=tuple(self.episodes[index] for index in sorted(indices)))


@dataclass(frozen=True)
class Transitions:
    """Counterfactual transitions (o, A', r', o'): N states, each with R ways of running the chunk.

    ``chunks[i, r, lengths[i, r]:]`` is padding. ``deviations`` is the predicted deviation E;
    a violation is ``deviations > epsilon``.
    """

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N R l A"]
    lengths: Int[np.ndarray, "N R"]
    rates: Float[np.ndarray, "N R"]
    """Original actions done per command sent (see ``candidates.Options.rates``)."""
    deviations: Float[np.ndarray, "N R"]
    violations: Bool[np.ndarray, "N R"]
    rewards: Float[np.ndarray, "N R"]
    next_observations: Float[np.ndarray, "N R O"]
    accelerated: Bool[np.ndarray, " N"]
    """True where the state was reached, in the world model, by running the chunk before it faster."""


@dataclass(frozen=True)
class Decision:
    """One call of the policy during an episode: before control step ``step`` it gave ``original`` actions."""

    step: int
    original: int
    executed: int
    """Commands that were sent for it, fewer than were chosen where the episode ended first."""
    done: float
    """Original actions done by those commands: ``original`` only where the chunk ran to its end."""
    reason: str | None = None
    """Why the guard ran the chunk unchanged, if it did."""


def decisions_from_json(records: Iterable[Mapping[str, Any]]) -> tuple[Decision, ...]:
    """Decisions as an episodes file holds them; those of older releases, which lack ``done``, are refused."""
    decisions = list(records)
    if any("done" not in decision for decision in decisions):
        raise InputError("an older release wrote it, which did not keep how many original actions were done")
    return tuple(Decision(**decision) for decision in decisions)


@dataclass(frozen=True)
class MachineState:
    """What the motors of a robot feel at one moment."""

    joints: Float[np.ndarray, " J"]
    """Where every joint of the arms is, without fingers: rad, or m where it slides; base to hand, arm after arm."""
    forces: Float[np.ndarray, " J"] | None = None
    """What the actuator of each joint exerts, N m or N; None where the simulator cannot tell."""


@dataclass(frozen=True)
class Stress:
    """What one episode did to the machine, over all joints of the arms; fingers are left out."""

    peak_joint_speed: float
    """rad/s (m/s where joints slide), from one control step to the next."""
    peak_joint_speed_rating_ratio: float | None
    """The highest speed of any joint as a ratio to its own rating; None where the robot has none."""
    acceleration_99: float
    """99% of all joint accelerations are below this, rad/s^2."""
    jerk_99: float
    """The same of jerks, rad/s^3."""
    peak_force: float | None
    """The largest force of any actuator at the end of a control step, N m (N if it slides); None where unknown."""
    peak_force_rating_ratio: float | None
    """The largest force of any actuator as a ratio to its joint's rating; None where either is unknown."""


@dataclass(frozen=True)
class EpisodeResult:
    """How one closed-loop episode went; ``steps`` counts control steps until success or the limit."""

    seed: int
    success: bool
    steps: int
    decisions: tuple[Decision, ...]
    task: str = ""
    """The name of the task that the seed chose; empty where it is not known."""
    latency: float = 0.0
    """Seconds that every call of the policy took."""
    stalled: int = 0
    """How many of the steps the robot held still because the policy was thinking."""
    stress: Stress | None = None
    """None where the simulator cannot tell, or the episode was too short."""

    @property
    def rate_mean(self) -> float:
        """Original actions done per command sent, over the whole episode."""
        executed = sum(decision.executed for decision in self.decisions)
        return sum(decision.done for decision in self.decisions) / max(executed, 1)
