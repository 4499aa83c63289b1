"""Puts what `sup bench strangers` measured where `sup check` finds it; run it from the root of the repository."""

import json
from pathlib import Path
from typing import Any

from speedup_patch.artefacts import read_json, write_text_atomically
from speedup_patch.envs.strangers.spec import GROUP
from speedup_patch.known_outcomes import ASSET

RESULTS = Path("benchmarks/results/strangers/robots.json")
OURS = "PATCH"


def outcomes(results: dict[str, Any]) -> dict[str, Any]:
    """The patch's rows, as the package keeps them: of robots that nothing was developed on, once they are measured."""
    rows = [row for suite in results["suites"].values() for row in suite["rows"] if row["scheduler"] == OURS]
    rows = [row for row in rows if row["robot"] >= GROUP] or rows
    episodes = {row["episodes"] for row in rows}
    if len(episodes) != 1:
        raise SystemExit(f"robots were run for different numbers of episodes: {sorted(episodes)}")
    return {"episodes": episodes.pop(), "robots": [_outcome(row) for row in sorted(rows, key=lambda row: row["robot"])]}


def _outcome(row: dict[str, Any]) -> dict[str, Any]:
    violating = (row["predicted_violating"], row["predicted_violating_at_speed"])
    return {
        "robot": row["robot"],
        "predicted_speedup": row["predicted_speedup"],
        "predicted_violating": max(share for share in violating if share is not None),
        "speedup": row["speedup"],
        "success_change": row["difference"],
    }


if __name__ == "__main__":
    write_text_atomically(ASSET, json.dumps(outcomes(read_json(RESULTS)), indent=1) + "\n")
    print(ASSET.name)
