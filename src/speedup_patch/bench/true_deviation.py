"""Are a world model's counterfactuals true? A simulator is restored, A and A^k are executed, and their states are kept.

A policy runs in closed loop at 1x and at fixed faster rates, so that states are met that a patched robot would meet. At
every decision the simulator is saved and the chunk A and each accelerated A^k are executed for real: the deviation
between them, in whatever measure, can then be compared with what a world model foretold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.acceleration import accelerate
from speedup_patch.interfaces import ChunkPolicy, Env, WorldModel
from speedup_patch.limits import Limits
from speedup_patch.maths.statistics import auroc, missed_violation_share, spearman
from speedup_patch.observations import commands_before, features, observe, split_observation
from speedup_patch.relabel import Measure, find_deviation, follow
from speedup_patch.robots import Robot
from speedup_patch.warp import uniform_warp

ALL_MEASURES: tuple[Measure, ...] = get_args(Measure)
Scores = dict[str, dict[str, dict[str, float | None]]]
"""Group of states -> rate, or ``pooled`` -> figure; None where the data cannot tell."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """N moments at which the policy was asked, and the states that A and each of R accelerated chunks then led to."""

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N n A"]
    states: Float[np.ndarray, "N S"]
    reference: Float[np.ndarray, "N n S"]
    """After every action of A."""
    accelerated: Float[np.ndarray, "N R l S"]
    """After every action of each A^k; NaN after its end."""
    driven: Float[np.ndarray, " N"]
    """The rate at which this episode ran."""
    first: Bool[np.ndarray, " N"]
    """Whether this is the first chunk of its episode."""
    seed: Int[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.states)

    def moments(self, robot: Robot, memory: int) -> "Moments":
        """What a world model is told of them, with the last ``memory`` commands that were sent until then."""
        before: list[np.ndarray] = []
        for rows in np.split(np.arange(len(self)), np.flatnonzero(self.first)[1:]):
            warp = uniform_warp(self.chunks.shape[1], float(self.driven[rows[0]]))
            sent = accelerate(robot, self.chunks[rows], warp).actions  # all of it, or there is no next decision
            before.append(commands_before(np.concatenate(list(sent)), np.arange(len(rows)) * len(warp), memory))
        return Moments(self.observations, self.chunks, np.concatenate(before))


class Moments(NamedTuple):
    """N moments at which a policy was asked."""

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N n A"]
    before: Float[np.ndarray, "N M A"]
    """The last commands sent until then (see ``WorldModel.rollout``)."""


def run_episode(
    env: Env, policy: ChunkPolicy, rates: Sequence[float], driven: float, seed: int, most: int | None = None
) -> Decisions:
    """The decisions of one episode that runs at the rate ``driven``, at ``most`` so many, with what each of ``rates``
    would have done."""
    observation = env.reset(seed)
    policy.reset()
    rows: list[dict[str, np.ndarray]] = []
    steps, success = 0, False
    while steps < env.max_steps and not success and (most is None or len(rows) < most):
        chunk = policy.infer(observation)
        o = observe(env.robot, observation["state"], observation["previous_state"])
        reference, accelerated = try_rates(env, chunk, rates)
        rows.append({"observations": o, "chunks": chunk, "states": observation["state"]})
        rows[-1] |= {"reference": reference, "accelerated": accelerated}
        for action in accelerate(env.robot, chunk, uniform_warp(len(chunk), driven)).actions:
            observation, success = env.step(action)
            steps += 1
            if success:
                break
    return Decisions(
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
        driven=np.full(len(rows), driven),
        first=np.arange(len(rows)) == 0,
        seed=np.full(len(rows), seed),
    )


def try_rates(
    env: Env, chunk: Float[np.ndarray, "n A"], rates: Sequence[float]
) -> tuple[Float[np.ndarray, "n S"], Float[np.ndarray, "R l S"]]:
    """(states after each action of A, of each A^k), executed from this moment; the environment is left as it was."""
    moment = env.save()

    def execute(actions: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "l S"]:
        env.restore(moment)
        return np.stack([env.step(action)[0]["state"] for action in actions])

    reference = execute(chunk)
    warps = [uniform_warp(len(chunk), rate) for rate in rates]
    accelerated = np.full((len(warps), max(map(len, warps)), reference.shape[1]), np.nan)
    for states, warp in zip(accelerated, warps, strict=True):
        states[: len(warp)] = execute(accelerate(env.robot, chunk, warp).actions)
    env.restore(moment)
    return reference, accelerated


def collect_decisions(
    env: Env,
    policy: ChunkPolicy,
    rates: Sequence[float],
    runs: Sequence[tuple[float, int]],
    report: Callable[[int, int], None],
) -> Decisions:
    """Every decision of every run, a run being (the rate it is driven at, its seed)."""
    parts: list[Decisions] = []
    for rate, seed in runs:
        parts.append(run_episode(env, policy, rates, rate, seed))
        report(len(parts), len(runs))
    return join(parts)


def join(parts: Sequence[Decisions]) -> Decisions:
    """The decisions of several episodes as one."""
    names = [entry.name for entry in fields(Decisions)]
    return Decisions(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def true_deviations(
    robot: Robot, limits: Limits, decisions: Decisions, rates: Sequence[float], measure: Measure
) -> Float[np.ndarray, "N R"]:
    """How far each rate truly strayed."""
    lengths = [len(uniform_warp(decisions.chunks.shape[1], rate)) for rate in rates]
    moved = [features(robot, decisions.accelerated[:, r, :length]) for r, length in enumerate(lengths)]
    start, reference = features(robot, decisions.states), features(robot, decisions.reference)
    return _deviations(robot, limits, measure, start, reference, moved, rates)


def predicted_deviations(
    model: WorldModel,
    limits: Limits,
    moments: Moments,
    rates: Sequence[float],
    measure: Measure,
) -> Float[np.ndarray, "N R"]:
    """How far each rate strays in the world model."""
    robot, (observations, chunks, before) = model.robot, moments
    warps = [uniform_warp(chunks.shape[1], rate) for rate in rates]
    moved = [model.rollout(observations, accelerate(robot, chunks, warp).actions, before) for warp in warps]
    start, reference = split_observation(observations)[0], model.rollout(observations, chunks, before)
    return _deviations(robot, limits, measure, start, reference, moved, rates)


def _deviations(
    robot: Robot,
    limits: Limits,
    measure: Measure,
    start: Float[np.ndarray, "N X"],
    reference: Float[np.ndarray, "N n X"],
    accelerated: Sequence[Float[np.ndarray, "N _ X"]],
    rates: Sequence[float],
) -> Float[np.ndarray, "N R"]:
    began, original = (follow(robot, limits, x, measure) for x in (start, reference))
    deviate = find_deviation(robot, limits, measure)
    columns: list[np.ndarray] = []
    for x, rate in zip(accelerated, rates, strict=True):
        positions = uniform_warp(reference.shape[1], rate).positions
        columns.append(deviate(began, original, follow(robot, limits, x, measure), positions))
    return np.stack(columns, axis=1)


def score(true: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"], epsilon: float) -> dict[str, float | None]:
    """How well predictions agree with the truth; None where the data cannot tell."""
    violating = true > epsilon
    calm = ~violating
    figures = {
        "decisions": float(len(true)),
        "spearman": spearman(true, predicted),
        "mean_absolute_error": float(np.abs(predicted - true).mean()),
        "bias": float((predicted - true).mean()),
        "violation_auroc": auroc(violating, predicted),
        "missed_violation_share": missed_violation_share(true, predicted, epsilon),
        "false_alarm_share": float((predicted[calm] > epsilon).mean()) if calm.any() else np.nan,
        "violation_share": float(violating.mean()),
        "true_mean": float(true.mean()),
    }
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


def score_groups(
    decisions: Decisions,
    true: Float[np.ndarray, "N R"],
    predicted: Float[np.ndarray, "N R"],
    rates: Sequence[float],
    epsilon: float,
) -> Scores:
    """Scores per group of states, and there per rate and pooled over rates."""
    groups = {
        "1x states": (decisions.driven == 1.0) & ~decisions.first,
        "accelerated states": (decisions.driven > 1.0) & ~decisions.first,
        "first chunks": decisions.first,
    }
    table: Scores = {}
    for name, rows in groups.items():
        if rows.any():
            table[name] = {
                f"{rate:g}": score(true[rows, r], predicted[rows, r], epsilon) for r, rate in enumerate(rates)
            }
            table[name]["pooled"] = score(true[rows].ravel(), predicted[rows].ravel(), epsilon)
    return table
