"""Where each scheduler slows down: the mean rate while reaching, approaching, grasping, carrying and placing."""

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import find_limits, run_schedulers
from speedup_patch.evaluation.phases import PHASES, find_phases
from speedup_patch.reporting import Report
from speedup_patch.robots import find_robot

LAYOUT = Layout(
    "phases",
    "Mean rate (original actions done per command sent) and, in brackets, control steps per episode, by what the robot "
    "was doing; successful episodes only.",
    {"suite": "{suite}", "scheduler": "{scheduler}"}
    | {name: f"{{{name}_rate:.2f}} ({{{name}_steps:.0f}})" for name in PHASES},
    key="scheduler",
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per scheduler of the main table."""
    run = run_schedulers(config, suite, config.specs(suite, ("base", *config.schedulers), notes), report)
    robot = find_robot(config.robot_name)
    limits = find_limits(config, suite, run.traces("base"))
    rows: list[Row] = []
    for label in run.specs:
        traces = run.traces(label, only_successes=True)
        if not traces:
            notes.append(f"{label} left out: it never succeeded")
            continue
        phases = np.concatenate([find_phases(robot, limits, trace) for trace in traces])
        rates = np.concatenate([trace.step_rates for trace in traces])
        rows.append(
            {"suite": suite, "scheduler": label, "episodes": len(traces)} | by_phase(phases, rates, len(traces))
        )
    return rows


def by_phase(phases: Int[np.ndarray, " T"], rates: Float[np.ndarray, " T"], episodes: int) -> Row:
    """The mean rate in every phase, None where it never occurred, and its control steps per episode."""
    figures: Row = {}
    for index, name in enumerate(PHASES):
        here = rates[phases == index]
        figures[f"{name}_rate"] = float(here.mean()) if len(here) else None
        figures[f"{name}_steps"] = len(here) / episodes
    return figures
