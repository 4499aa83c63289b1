"""Predicted against true deviation for every world model of a suite, on states met at 1x and under acceleration."""

from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

import numpy as np

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import policy_digest
from speedup_patch.bench.true_deviation import (
    ALL_MEASURES,
    Decisions,
    join,
    predicted_deviations,
    run_episode,
    score_groups,
    true_deviations,
)
from speedup_patch.bench.world_models import find_world_models
from speedup_patch.envs import make_env
from speedup_patch.interfaces import ChunkPolicy, Env
from speedup_patch.policies import load_policy
from speedup_patch.reporting import Report
from speedup_patch.robots import find_robot
from speedup_patch.workers import worker_pool

RATES = (2.0, 3.0, 4.0)
DRIVEN = (1.0, 2.0, 3.0)
"""Rates whose deviation is foretold, and rates at which the policy runs to meet states."""
MOST_DECISIONS = 60
"""Per episode, so that one which fails and runs to the limit does not outweigh the others."""

LAYOUT = Layout(
    "counterfactual",
    "Predicted against true deviation (simulator restored, A and A^k executed): Spearman's correlation at each rate, "
    "and over all rates the mean error, the share of true violations and the share of those that were missed. States "
    "of the unpatched policy (1x) and of the policy at fixed rates (accelerated), the first chunk of each episode "
    "apart.",
    {"suite": "{suite}", "world model": "{model} ({kind})", "deviation": "{measure}", "states": "{states}"}
    | {f"Spearman, k = {rate:g}": f"{{spearman_{rate:g}:.3f}}" for rate in RATES}
    | {
        "all": "{spearman:.3f}",
        "n": "{decisions:.0f}",
        "MAE": "{mean_absolute_error:.4f}",
        "violations": "{violation_share:.2f}",
        "missed": "{missed_violation_share:.2f}",
    },
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per world model, kind of deviation and group of states."""
    models = find_world_models(config, suite, notes)
    if not models:
        return []
    decisions = collect(config, suite, report)
    robot, limits = find_robot(config.robot_name), models[0].limits
    rows: list[Row] = []
    for kind in ALL_MEASURES:
        true = true_deviations(robot, limits, decisions, RATES, kind)
        for named in models:
            moments = decisions.moments(robot, named.model.memory)
            predicted = predicted_deviations(named.model, limits, moments, RATES, kind)
            scores = score_groups(decisions, true, predicted, RATES, config.epsilon)
            for states, rates in scores.items():
                row: Row = {"suite": suite, "model": named.name, "kind": named.kind, "measure": kind}
                row |= {"states": states, "epsilon": config.epsilon}
                row |= {f"spearman_{rate:g}": rates[f"{rate:g}"]["spearman"] for rate in RATES}
                rows.append(row | rates["pooled"])
    return rows


def collect(config: BenchConfig, suite: str, report: Report) -> Decisions:
    """The decisions of every episode; those that an earlier, stopped call has written are read instead of run."""
    env, policy = config.env(suite), config.policy_of(suite)
    folder = config.work / "counterfactual" / suite / policy_digest(config, suite)[:8]
    seeds = range(config.first_seed, config.first_seed + config.counterfactual_episodes)
    runs = [(rate, seed) for rate in DRIVEN for seed in seeds]
    missing = [run for run in runs if not _file(folder, *run).exists()]
    done = len(runs) - len(missing)
    with worker_pool(max(1, min(config.processes, len(missing))), _start, (env, policy)) as pool:
        futures = [pool.submit(_run, folder, rate, seed) for rate, seed in missing]
        try:
            for future in as_completed(futures):
                future.result()
                done += 1
                report("counterfactuals", done, len(runs), {})
        finally:
            for future in futures:
                future.cancel()
    return join([_read(_file(folder, *run)) for run in runs])


def _file(folder: Path, rate: float, seed: int) -> Path:
    rates = "_".join(f"{rate:g}" for rate in RATES)
    return folder / f"{rates}_at_{rate:g}_seed_{seed}.npz"


def _read(path: Path) -> Decisions:
    with np.load(path, allow_pickle=False) as file:
        return Decisions(**{name: file[name] for name in file.files})


_loaded: Sequence[tuple[Env, ChunkPolicy]] = ()
"""One process's environment and policy, made once and used for many episodes."""


def _start(env: str, policy: str) -> None:
    global _loaded
    _loaded = [(make_env(env), load_policy(policy))]


def _run(folder: Path, rate: float, seed: int) -> None:
    env, policy = _loaded[0]
    decisions = run_episode(env, policy, RATES, rate, seed, MOST_DECISIONS)
    with write_file_atomically(_file(folder, rate, seed), overwrite=True) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **vars(decisions))
