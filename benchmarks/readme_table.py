"""Prints the tables of README and docs/libero.md from the committed results: `python benchmarks/readme_table.py`."""

import json
from pathlib import Path
from typing import Any

from speedup_patch.bench.config import LIBERO_SUITES, SUITES
from speedup_patch.evaluation.seconds import LATENCIES
from speedup_patch.maths.statistics import Estimate
from suite_means import SuiteMeans, read_episodes, suite_means

RESULTS = Path(__file__).parent / "results"
NAMES = {
    "base": "unpatched policy",
    "fixed:2": "fixed 2",
    "fixed:3": "fixed 3",
    "fixed:4": "fixed 4",
    "dwell+fixed:4": "fixed 4 with gripper dwell",
    "speedcap:runs/bench/{task}.patch": "speed cap",
    "mpc:runs/bench/{task}_paper.patch": "greedy MPC, paper's BiGym preset",
    "runs/bench/{task}_paper.patch": "SuP, paper's BiGym preset",
    "mpc:runs/bench/{task}.patch": "greedy MPC over our retimings",
    "runs/bench/{task}.patch": "**SuP, our defaults**",
}

LIBERO_NAMES = {
    "base": "unpatched policy",
    "fixed:2": "fixed 2",
    "fixed:3": "fixed 3",
    "speedcap:PATCH": "speed cap",
    "dwell+fixed:3": "fixed 3 with gripper dwell",
    "dwell+fixed:4": "fixed 4 with gripper dwell",
    "mpc:PAPER_PATCH": "greedy MPC, paper's preset",
    "PAPER_PATCH": "SuP, paper's preset",
    "mpc:PATCH": "greedy MPC over our retimings",
    "PATCH": "**SuP, our defaults**",
    "without-lead:PATCH": "without reading grippers ahead",
    "without-letting-go:PATCH": "without waiting for fingers to let go",
    "without-limit:PATCH": "without the limits on fingers",
    "without-momentum:PATCH": "without taking momentum off",
    "without-retiming:PATCH": "without retiming inside the chunk",
    "without-running-on:PATCH": "without knowing how far the arm runs on",
    "without-second:PATCH": "without the second opinion",
    "retime:PATCH": "without a choice: demonstrated limits only",
}


def cells(summary: dict[str, Any]) -> str:
    """Success, steps and speedup of one scheduler, with intervals."""
    low, high = summary["success_interval"]
    slow, fast = summary["speedup_interval"]
    success = f"{summary['successes']}/{summary['episodes']} ({low:.2f}-{high:.2f})"
    return f"{success} | {summary['steps_mean']:.0f} | {summary['speedup']:.2f}x ({slow:.2f}-{fast:.2f})"


def seconds_cells(summary: dict[str, Any]) -> str:
    """Calls, speedup in seconds and successes per hour of one scheduler at every latency that was asked for."""
    parts = [f"{summary['policy_calls']:.1f}"]
    for found in summary["latency"].values():
        low, high = found["speedup_seconds_interval"]
        parts.append(f"{found['speedup_seconds']:.2f}x ({low:.2f}-{high:.2f}), {found['throughput_per_hour']:.0f}/h")
    return " | ".join(parts)


def stress_cells(stress: dict[str, float | None]) -> str:
    """What one scheduler does to the joints, as ratios to the unpatched policy and to the robot's ratings."""
    ratios = ("peak_joint_speed_ratio", "peak_joint_speed_rating_ratio", "acceleration_99_ratio", "jerk_ratio")
    known = [stress[name] for name in (*ratios, "peak_force_ratio")]
    return " | ".join("-" if value is None else f"{value:.2f}x" for value in known)


def print_aloha_further(task: str, found: dict[str, dict[str, Any]]) -> None:
    """Seconds and stress of one task, where its results have them."""
    names = {spec.format(task=task): name for spec, name in NAMES.items()}
    if all("latency" in found[spec] for spec in names):
        heads = [
            f"{1000 * float(key):g} ms{', reckoned' if entry['reckoned'] else ''}"
            for key, entry in found["base"]["latency"].items()
        ]
        cells = {names[spec]: seconds_cells(found[spec]) for spec in names}
        print_table([f"{task}, in seconds", "calls", *heads], cells)
    if all("stress" in found[spec] for spec in names):
        heads = ["peak speed to base", "to rating", "99% of accelerations", "99% of jerks", "peak force"]
        print_table([f"{task}, stress", *heads], {names[spec]: stress_cells(found[spec]["stress"]) for spec in names})


def print_table(heads: list[str], rows: dict[str, str]) -> None:
    """A table of its own, after an empty line."""
    print(f"\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name, cells in rows.items():
        print(f"| {name} | {cells} |")


def libero_cells(rows: list[dict[str, Any] | None], means: SuiteMeans | None) -> str:
    """Every suite's success and speedup of one scheduler, and their means where all suites have been measured."""
    each = [f"{row['successes']}/{row['episodes']}, {row['speedup']:.2f}x" if row else "-" for row in rows]
    if means is None:
        return " | ".join([*each, "-", "-"])
    success, *ends = (100 * share for share in means.success)
    return " | ".join([*each, f"{success:.1f}% ({ends[0]:.1f}-{ends[1]:.1f})", speedup_cell(means.speedups[0])])


def speedup_cell(estimate: Estimate) -> str:
    """A speedup with its interval."""
    return f"{estimate[0]:.2f}x ({estimate[1]:.2f}-{estimate[2]:.2f})"


def libero_seconds_cells(means: SuiteMeans) -> str:
    """Calls of one scheduler, and at every latency its speedup in seconds and its successes per hour."""
    at = [f"{speedup_cell(s)}, {per_hour:.0f}/h" for s, per_hour in zip(means.speedups, means.per_hour, strict=True)]
    return " | ".join([f"{means.calls:.1f}", *at])


def print_libero(folder: str) -> None:
    """One row per scheduler, LIBERO's suites side by side; then their means in seconds, from steps and calls."""
    suites = json.loads((RESULTS / folder / "main.json").read_text())["suites"]
    rows = {suite: {row["scheduler"]: row for row in suites[suite]["rows"]} for suite in LIBERO_SUITES}
    episodes = read_episodes(RESULTS / folder)
    means = {spec: suite_means(episodes["base"], found) for spec, found in episodes.items()}
    print("| | " + " | ".join(LIBERO_SUITES) + " | mean success | mean speedup |")
    print("|---" * 7 + "|")
    for spec, name in LIBERO_NAMES.items():
        if any(spec in rows[suite] for suite in LIBERO_SUITES):
            print(f"| {name} | {libero_cells([rows[suite].get(spec) for suite in LIBERO_SUITES], means.get(spec))} |")
    floors = [rows[suite]["base"]["floor_speedup"] for suite in LIBERO_SUITES]
    print("| physical floor | " + " | ".join(f"{floor:.2f}x" for floor in floors) + f" | | {sum(floors) / 4:.2f}x |")
    heads = ["mean of the suites, in seconds, reckoned", "calls", *(f"{1000 * latency:g} ms" for latency in LATENCIES)]
    known = {name: means[spec] for spec, name in LIBERO_NAMES.items() if spec in means}
    print_table(heads, {name: libero_seconds_cells(found) for name, found in known.items()})


def print_paper(family: str) -> None:
    """The paper's rows with the tolerances chosen for them, suites side by side; nothing before they are measured."""
    path = RESULTS / family / "paper.json"
    if not path.exists():
        return
    found = json.loads(path.read_text())["suites"]
    suites = [suite for suite in SUITES[family] if suite in found]
    names = ("gripper", "kind", "world_model")
    rows = {suite: {tuple(row[name] for name in names): row for row in found[suite]["rows"]} for suite in suites}
    print("\n| gripper | | world model | " + " | ".join(suites) + " | mean success | mean speedup |")
    print("|---" * (5 + len(suites)) + "|")
    for key in dict.fromkeys(key for suite in suites for key in rows[suite]):
        print(f"| {' | '.join(key)} | {libero_cells([rows[suite].get(key) for suite in suites], None)} |")


def main() -> None:
    """ALOHA: one row per scheduler, both tasks side by side, then each in seconds; then LIBERO, and what each part is
    worth there, and the paper's rows."""
    tasks = ("insertion", "transfer")
    found = {task: json.loads((RESULTS / f"aloha_{task}" / "results.json").read_text())["schedulers"] for task in tasks}
    print("| | " + " | ".join(f"{task}: success | steps | speedup" for task in tasks) + " |")
    print("|---" * 7 + "|")
    for spec, name in NAMES.items():
        if any(spec.format(task=task) not in found[task] for task in tasks):
            continue
        print(f"| {name} | " + " | ".join(cells(found[task][spec.format(task=task)]) for task in tasks) + " |")
    for task in tasks:
        print_aloha_further(task, found[task])
    for folder in ("libero", "ablation_libero"):
        print()
        print_libero(folder)
    for family in SUITES:
        print_paper(family)


if __name__ == "__main__":
    main()
