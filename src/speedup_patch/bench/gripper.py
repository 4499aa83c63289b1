"""The gripper table: twice the rate with the stock gripper, with one twice as fast, and with dwell instead."""

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SECONDS_TABLES, SUMMARY_COLUMNS, run_schedulers, summary_rows
from speedup_patch.envs.libero_tasks import DOUBLE_GRIPPER
from speedup_patch.reporting import Report

LAYOUT = Layout(
    "gripper",
    "Every chunk at twice the rate: with the stock gripper, with a gripper twice as fast (the paper's remedy), and "
    "with the stock gripper and no merging around a flip of its command (dwell). Paired with base, stock gripper, on "
    "the same seeds.",
    SUMMARY_COLUMNS,
    further=SECONDS_TABLES,
)

STOCK = {"base": "base", "fixed:2": "fixed:2", "dwell+fixed:2": "dwell+fixed:2"}


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """base, fixed:2, fixed:2 with the double gripper, dwell+fixed:2."""
    run = run_schedulers(config, suite, STOCK, report)
    stock = run.episodes
    double = run_schedulers(config, suite, {"fixed:2": "fixed:2"}, report, DOUBLE_GRIPPER).episodes
    together = {
        "base": stock["base"],
        "fixed:2": stock["fixed:2"],
        "fixed:2, double gripper": double["fixed:2"],
        "dwell+fixed:2": stock["dwell+fixed:2"],
    }
    return summary_rows(suite, together, run.clock)
