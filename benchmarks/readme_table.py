"""Prints the README's table from the committed results: `python benchmarks/readme_table.py`."""

import json
from pathlib import Path
from typing import Any

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


def cells(summary: dict[str, Any]) -> str:
    """Success, steps and speedup of one scheduler, with intervals."""
    low, high = summary["success_interval"]
    slow, fast = summary["speedup_interval"]
    success = f"{summary['successes']}/{summary['episodes']} ({low:.2f}-{high:.2f})"
    return f"{success} | {summary['steps_mean']:.0f} | {summary['speedup']:.2f}x ({slow:.2f}-{fast:.2f})"


def main() -> None:
    """One row per scheduler, both tasks side by side."""
    tasks = ("insertion", "transfer")
    found = {task: json.loads((RESULTS / f"aloha_{task}" / "results.json").read_text())["schedulers"] for task in tasks}
    print("| | " + " | ".join(f"{task}: success | steps | speedup" for task in tasks) + " |")
    print("|---" * 7 + "|")
    for spec, name in NAMES.items():
        print(f"| {name} | " + " | ".join(cells(found[task][spec.format(task=task)]) for task in tasks) + " |")


if __name__ == "__main__":
    main()
