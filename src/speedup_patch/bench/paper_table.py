"""The paper's rows: its schedulers with the tolerances chosen for them, on its gripper and on the stock one."""

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.paper import GRIPPERS, RULES, paper_specs
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SUMMARY_COLUMNS, run_schedulers, summary_rows
from speedup_patch.bench.tuning import chosen_schedulers
from speedup_patch.reporting import Report

LAYOUT = Layout(
    "paper",
    "The paper's preset: greedy MPC and SuP with the tolerance chosen for each on development scenes (tuning), with "
    "the preset's world model (paper) and with one that sees velocity and predicts changes (paper_velocity); in LIBERO "
    "with the gripper doubled, as the paper has it, and with the stock one. Paired with base on the stock gripper.",
    {"suite": "{suite}", "gripper": "{gripper}", "scheduler": "{kind}", "world model": "{world_model}"}
    | {"epsilon": "{epsilon:g}"}
    | SUMMARY_COLUMNS,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per gripper and scheduler."""
    specs = paper_specs(config, suite, chosen_schedulers(config, suite), notes)
    labels = {rule: rule for rule in RULES} | {scheduler.label: spec for scheduler, spec in specs.items()}
    known = {scheduler.label: scheduler.row for scheduler in specs}
    runs = {change: run_schedulers(config, suite, labels, report, change) for change in GRIPPERS[config.family]}
    episodes = {f"{label}{change}": results for change, run in runs.items() for label, results in run.episodes.items()}
    summaries = {row["scheduler"]: row for row in summary_rows(suite, episodes, runs[""].clock)}
    return [
        summaries[f"{label}{change}"]
        | known.get(label, {"kind": label, "world_model": "-", "epsilon": None})
        | {"gripper": "doubled" if change else "stock"}
        for change in GRIPPERS[config.family]
        for label in labels
    ]
