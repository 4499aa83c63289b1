"""Does deviation foretell failure? Violations at a fixed rate of 2 against success, over equal numbers of decisions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import find_tasks, run_schedulers
from speedup_patch.bench.true_deviation import ALL_MEASURES, Moments, predicted_deviations
from speedup_patch.bench.world_models import NamedModel, find_world_models
from speedup_patch.evaluation.traces import Trace
from speedup_patch.maths.statistics import spearman
from speedup_patch.observations import commands_before, observe
from speedup_patch.relabel import Measure, find_violations
from speedup_patch.reporting import Report

RATE = 2.0

LAYOUT = Layout(
    "violations",
    "Predicted violations when every chunk runs at twice the rate, against success. Shares are over the first D "
    "decisions of every episode, D being the fewest that any episode had. Spearman's correlation of that share with "
    "success over episodes and over tasks, of the mean deviation over the same decisions with success, and of the "
    "number of violations in the whole episode with success, which also counts that failures run longer.",
    {
        "suite": "{suite}",
        "world model": "{model} ({kind})",
        "deviation": "{measure}",
        "D": "{decisions}",
        "violations": "{violation_share:.2f}",
        "in successes": "{violation_share_successes:.2f}",
        "in failures": "{violation_share_failures:.2f}",
        "Spearman, episodes": "{spearman_episodes:.2f}",
        "tasks": "{spearman_tasks:.2f}",
        "mean deviation": "{spearman_deviation:.2f}",
        "number, whole episode": "{spearman_count:.2f}",
    },
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per world model and kind of deviation."""
    models = find_world_models(config, suite, notes)
    if not models:
        return []
    run = run_schedulers(config, suite, {"fixed:2": "fixed:2"}, report)
    traces = run.traces("fixed:2")
    success = np.array([result.success for result in run.episodes["fixed:2"]])
    tasks = find_tasks(traces)
    rows: list[Row] = []
    for named in models:
        for kind in ALL_MEASURES:
            deviations = foretell(named, traces, kind)
            figures = correlate(deviations, success, tasks, config.epsilon)
            names = {"suite": suite, "model": named.name, "kind": named.kind, "measure": kind}
            rows.append(names | {"epsilon": config.epsilon} | figures)
    return rows


def foretell(named: NamedModel, traces: Sequence[Trace], measure: Measure) -> list[Float[np.ndarray, " _"]]:
    """The predicted deviation of every decision of every episode, were its chunk to run at twice the rate."""
    robot = named.model.robot
    observations: list[np.ndarray] = []
    before: list[np.ndarray] = []
    for trace in traces:
        now, previous = (
            trace.states[steps].astype(np.float64)
            for steps in (trace.decision_steps, np.maximum(trace.decision_steps - 1, 0))
        )
        observations.append(observe(robot, now, previous))
        before.append(commands_before(trace.actions, trace.decision_steps, named.model.memory))
    moments = Moments(
        np.concatenate(observations),
        np.concatenate([trace.chunks for trace in traces]).astype(np.float64),
        np.concatenate(before),
    )
    found = predicted_deviations(named.model, named.limits, moments, (RATE,), measure)
    ends = np.cumsum([len(trace.decision_steps) for trace in traces])
    return np.split(found[:, 0], ends[:-1])


def correlate(
    deviations: Sequence[Float[np.ndarray, " _"]],
    success: Bool[np.ndarray, " K"],
    tasks: Int[np.ndarray, " K"],
    epsilon: float,
) -> Row:
    """Violations over equally many decisions of every episode, and how they go with success."""
    decisions = min(map(len, deviations))
    equal = np.stack([each[:decisions] for each in deviations])
    shares = find_violations(equal, epsilon).mean(axis=1)
    counts = np.array([float(find_violations(each, epsilon).sum()) for each in deviations])
    solved = success.astype(np.float64)
    by_task = np.array([(shares[tasks == task].mean(), solved[tasks == task].mean()) for task in np.unique(tasks)])
    return {
        "episodes": len(deviations),
        "decisions": decisions,
        "violation_share": float(shares.mean()),
        "violation_share_successes": float(shares[success].mean()) if success.any() else None,
        "violation_share_failures": float(shares[~success].mean()) if not success.all() else None,
        "success": float(solved.mean()),
        "spearman_episodes": spearman(shares, solved),
        "spearman_tasks": spearman(by_task[:, 0], by_task[:, 1]),
        "spearman_deviation": spearman(equal.mean(axis=1), solved),
        "spearman_count": spearman(counts, solved),
    }
