"""The tolerance: what the learned scheduler and greedy MPC do with a smaller or larger epsilon."""

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SUMMARY_COLUMNS, WHO, run_schedulers, summary_rows
from speedup_patch.reporting import Report

EPSILONS = (0.01, 0.015, 0.02)

LAYOUT = Layout(
    "epsilon",
    "The learned scheduler (sup) and greedy MPC (mpc) with patches that were trained with this tolerance, the largest "
    "deviation that counts as the same motion.",
    WHO | {"epsilon": "{epsilon:g}"} | SUMMARY_COLUMNS,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per tolerance and scheduler whose patch, such as SUITE_eps0.01.patch, is there."""
    specs: dict[str, str] = {}
    tolerances: dict[str, float] = {}
    for epsilon in EPSILONS:
        patch = config.patch(suite, f"eps{epsilon:g}")
        if not patch.is_dir():
            notes.append(f"epsilon {epsilon:g} left out: there is no {patch}")
            continue
        for name, spec in ((f"sup {epsilon:g}", str(patch)), (f"mpc {epsilon:g}", f"mpc:{patch}")):
            specs[name], tolerances[name] = spec, epsilon
    if not specs:
        return []
    run = run_schedulers(config, suite, {"base": "base", **specs}, report)
    rows = summary_rows(suite, run.episodes, run.clock)
    return [
        row | {"scheduler": row["scheduler"].split()[0], "epsilon": tolerances.get(row["scheduler"])} for row in rows
    ]
