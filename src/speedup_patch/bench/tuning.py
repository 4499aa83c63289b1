"""The tolerance of each of the paper's schedulers, chosen suite by suite on development scenes."""

from collections.abc import Mapping, Sequence

from speedup_patch.artefacts import read_json
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.paper import GRIPPERS, PaperScheduler, paper_schedulers, paper_specs
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SUMMARY_COLUMNS, run_schedulers, summary_rows
from speedup_patch.errors import InputError
from speedup_patch.reporting import Report

BEST_WITHIN = 0.01
"""A loss of success up to which the paper's LIBERO table does not speak of a drop."""

LAYOUT = Layout(
    "tuning",
    "The paper's greedy MPC and SuP at each tolerance of its hyperparameter table, on development scenes; in LIBERO "
    "with the doubled gripper, paired with base on the stock one. Chosen is the fastest of those whose success is "
    "within one point of the best.",
    {"suite": "{suite}", "scheduler": "{kind}", "world model": "{world_model}", "epsilon": "{epsilon:g}"}
    | {"chosen": "{chosen}"}
    | SUMMARY_COLUMNS,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per scheduler and tolerance."""
    rows = [row for row in tolerance_rows(config, suite, notes, report) if row["kind"] != "base"]
    chosen = {id(row) for group in _groups(rows) for row in [choose(group)]}
    return [row | {"chosen": "yes" if id(row) in chosen else "no"} for row in rows]


def tolerance_rows(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """Base on the stock gripper, then each of the paper's schedulers at every tolerance on the paper's gripper."""
    specs = paper_specs(config, suite, paper_schedulers(config), notes)
    if not specs:
        return []
    base = run_schedulers(config, suite, {"base": "base"}, report).episodes
    by_label = {scheduler.label: spec for scheduler, spec in specs.items()}
    run = run_schedulers(config, suite, by_label, report, GRIPPERS[config.family][0])
    summaries = {row["scheduler"]: row for row in summary_rows(suite, {**base, **run.episodes}, run.clock)}
    unpatched = summaries["base"] | {"kind": "base", "world_model": "-", "epsilon": None}
    return [unpatched, *(summaries[scheduler.label] | scheduler.row for scheduler in specs)]


def choose(rows: Sequence[Row]) -> Row:
    """The fastest of the rows whose success is within ``BEST_WITHIN`` of the best."""
    best = max(row["success"] for row in rows)
    good = [row for row in rows if row["success"] >= best - BEST_WITHIN - 1e-9]
    return max(good, key=lambda row: row["speedup"] or 0.0)


def chosen_schedulers(config: BenchConfig, suite: str) -> list[PaperScheduler]:
    """What the tuning part, which writes tuning.json, has chosen for this suite."""
    path = config.out / f"{LAYOUT.name}.json"
    found: Mapping[str, Mapping[str, list[Row]]] = read_json(path)["suites"] if path.exists() else {}
    if suite not in found:
        raise InputError(f"no tolerance has been chosen: {path} says nothing of {suite}; run --parts {LAYOUT.name}")
    return [
        PaperScheduler(row["kind"], row["world_model"], row["epsilon"])
        for row in found[suite]["rows"]
        if row["chosen"] == "yes"
    ]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of one scheduler and world model together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["world_model"]), []).append(row)
    return list(groups.values())
