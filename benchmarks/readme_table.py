"""Prints the tables of README and docs/libero.md from the committed results: `python benchmarks/readme_table.py`."""

import json
from pathlib import Path
from typing import Any

from speedup_patch.bench.config import LIBERO_SUITES

RESULTS = Path(__file__).parent / "results"
NAMES = {
    "base": "unpatched policy",
    "fixed:2": "fixed 2",
    "fixed:3": "fixed 3",
    "fixed:4": "fixed 4",
    "dwell+fixed:4": "fixed 4 with gripper dwell",
    "speedcap:runs/bench/{task}.patch": "speed cap",
    "mpc:runs/bench/{task}_paper.patch": "greedy MPC, paper's preset",
    "runs/bench/{task}_paper.patch": "SuP, paper's preset",
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


def libero_cells(rows: list[dict[str, Any] | None]) -> str:
    """Every suite's success and speedup of one scheduler, and their means where all suites have been measured."""
    each = [f"{row['successes']}/{row['episodes']}, {row['speedup']:.2f}x" if row else "-" for row in rows]
    known = [row for row in rows if row]
    if len(known) < len(rows):
        return " | ".join([*each, "-", "-"])
    success, speedup = (sum(row[name] for row in known) / len(known) for name in ("success", "speedup"))
    return " | ".join([*each, f"{100 * success:.1f}%", f"{speedup:.2f}x"])


def print_libero(folder: str) -> None:
    """One row per scheduler, LIBERO's suites side by side."""
    found = json.loads((RESULTS / folder / "main.json").read_text())["suites"]
    rows = {suite: {row["scheduler"]: row for row in found[suite]["rows"]} for suite in LIBERO_SUITES}
    print("| | " + " | ".join(LIBERO_SUITES) + " | mean success | mean speedup |")
    print("|---" * 7 + "|")
    for spec, name in LIBERO_NAMES.items():
        if any(spec in rows[suite] for suite in LIBERO_SUITES):
            print(f"| {name} | {libero_cells([rows[suite].get(spec) for suite in LIBERO_SUITES])} |")
    floors = [rows[suite]["base"]["floor_speedup"] for suite in LIBERO_SUITES]
    print("| physical floor | " + " | ".join(f"{floor:.2f}x" for floor in floors) + f" | | {sum(floors) / 4:.2f}x |")


def main() -> None:
    """ALOHA: one row per scheduler, both tasks side by side; then LIBERO, and what each part is worth there."""
    tasks = ("insertion", "transfer")
    found = {task: json.loads((RESULTS / f"aloha_{task}" / "results.json").read_text())["schedulers"] for task in tasks}
    print("| | " + " | ".join(f"{task}: success | steps | speedup" for task in tasks) + " |")
    print("|---" * 7 + "|")
    for spec, name in NAMES.items():
        print(f"| {name} | " + " | ".join(cells(found[task][spec.format(task=task)]) for task in tasks) + " |")
    for folder in ("libero", "ablation_libero"):
        print()
        print_libero(folder)


if __name__ == "__main__":
    main()
