"""The paper's table of tolerances: its SuP and greedy MPC over the rates 1 and 2, on the long suite."""

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SUMMARY_COLUMNS
from speedup_patch.bench.tuning import tolerance_rows
from speedup_patch.reporting import Report

LAYOUT = Layout(
    "epsilon",
    "The paper's table of tolerances: its preset's greedy MPC and SuP with each, over the rates 1 and 2, on the "
    "doubled gripper. Paired with base on the stock gripper.",
    {"suite": "{suite}", "scheduler": "{kind}", "world model": "{world_model}", "epsilon": "{epsilon:g}"}
    | SUMMARY_COLUMNS,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row for base, and one per scheduler and tolerance."""
    return tolerance_rows(config, suite, notes, report)
