"""The main table: every scheduler of a suite against the unpatched policy on the same seeds, and the physical floor."""

import csv
from dataclasses import asdict
from pathlib import Path

from speedup_patch.artefacts import read_json, write_text_atomically
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row, comparable, record, write_csv
from speedup_patch.bench.runs import (
    SECONDS_TABLES,
    SUMMARY_COLUMNS,
    Run,
    find_limits,
    find_tasks,
    policy_digest,
    run_schedulers,
    summary_rows,
)
from speedup_patch.evaluation.floor import measure_floor
from speedup_patch.evaluation.run import content_digest
from speedup_patch.reporting import Report
from speedup_patch.robots import find_robot

LAYOUT = Layout(
    "main",
    "Success, the change in success against base on the same seeds, control steps of successes, and realized speedup "
    "(base steps / steps over the seeds that both solved). Floor: the steps that base's own path would take with "
    "every move at its limit and every stroke of the gripper in full.",
    {**SUMMARY_COLUMNS, "floor, steps": "{floor_steps:.0f}", "floor, speedup": "{floor_speedup:.2f}x"},
    key="scheduler",
    further=SECONDS_TABLES,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per scheduler; every single episode goes to episodes_SUITE.csv."""
    run = run_schedulers(config, suite, config.specs(suite, ("base", *config.schedulers), notes), report)
    write_text_atomically(_episode_file(config, suite), write_csv(_with_earlier(config, suite, _episode_rows(run))))
    floor = _floor(config, suite, run)
    rows = summary_rows(suite, run.episodes, run.clock)
    return [row | floor | {"patch_sha256": content_digest(run.specs[row["scheduler"]])} for row in rows]


def _episode_file(config: BenchConfig, suite: str) -> Path:
    return config.out / f"episodes_{suite}.csv"


def _with_earlier(config: BenchConfig, suite: str, rows: list[Row]) -> list[Row]:
    """The episodes, and before them those of schedulers that a ``comparable`` earlier call has run."""
    path, table = _episode_file(config, suite), config.out / f"{LAYOUT.name}.json"
    if not path.exists() or not table.exists():
        return rows
    made = record("", config.seeds) | {"policy_sha256": policy_digest(config, suite)}
    if not comparable(read_json(table)["suites"].get(suite, {}), made):
        return rows
    now = {row["scheduler"] for row in rows}
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["scheduler"] not in now] + rows


def _episode_rows(run: Run) -> list[Row]:
    tasks = dict(zip((result.seed for result in run.episodes["base"]), find_tasks(run.traces("base")), strict=True))
    return [
        {
            "scheduler": label,
            "seed": result.seed,
            "task": int(tasks[result.seed]),
            "success": int(result.success),
            "steps": result.steps,
            "rate": round(result.rate_mean, 4),
            "decisions": len(result.decisions),
            **(asdict(result.stress) if result.stress else {}),
        }
        for label, episodes in run.episodes.items()
        for result in episodes
    ]


def _floor(config: BenchConfig, suite: str, run: Run) -> Row:
    """The least steps in which base's successes could have been done, and the speedup that this would be."""
    traces = run.traces("base", only_successes=True)
    floor = measure_floor(find_robot(config.robot_name), find_limits(config, suite, traces), traces) if traces else None
    return {"floor_steps": floor.steps if floor else None, "floor_speedup": floor.speedup if floor else None}
