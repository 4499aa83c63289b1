"""What each rule of a patch is worth: the patch with one of them left out, paired with the patch as it is."""

from collections.abc import Mapping, Sequence

import numpy as np

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row
from speedup_patch.bench.runs import SECONDS_TABLES, SUMMARY_COLUMNS, run_schedulers, summary_rows
from speedup_patch.candidates import Retimings
from speedup_patch.data import EpisodeResult
from speedup_patch.errors import InputError
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.rules import rules_of
from speedup_patch.evaluation.run import content_digest
from speedup_patch.reporting import Report
from speedup_patch.retiming import joint_delays
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch

OURS = "PATCH"
OVERDRIVES = (1.0, 1.25, 2.0)
TRACKED_RATES = (2, 3, 4)
_FIRST = ("suite", "scheduler", "success", "95% interval")
_AGAINST_BASE = ("change", "95% interval of the change")

LAYOUT = Layout(
    "ablation",
    "The patch as it is (PATCH), with one rule left out (without-RULE), with another overdrive, its options judged by "
    "greedy MPC (mpc) or run at the demonstrated limits without a choice (retime), and constant rates of which joints "
    "are kept on their path and grippers read ahead (tracked:RATE). Success and control steps of successes are paired "
    "with PATCH on the same seeds: the difference in success, and steps / PATCH's steps over the seeds that both "
    "solved. Speedup is against base.",
    {title: SUMMARY_COLUMNS[title] for title in _FIRST}
    | {
        "success - PATCH's": "{success_to_ours:+.3f}",
        "95% interval of that": "{success_to_ours_low:+.3f} .. {success_to_ours_high:+.3f}",
        "steps / PATCH's": "{steps_to_ours:.3f}",
        "95% interval of the ratio": "{steps_to_ours_low:.3f} .. {steps_to_ours_high:.3f}",
    }
    | {title: cell for title, cell in SUMMARY_COLUMNS.items() if title not in _FIRST + _AGAINST_BASE},
    further=SECONDS_TABLES,
)


def measure(config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    """One row per scheduler; runs are kept, so that a call that was stopped goes on where it was."""
    path = config.patch(suite)
    if not path.is_dir():
        raise InputError(f"there is no {path}")
    run = run_schedulers(config, suite, config.specs(suite, schedulers_of(load_patch(path)), notes), report)
    against = against_ours(run.episodes)
    return [
        row | against[row["scheduler"]] | {"patch_sha256": content_digest(run.specs[row["scheduler"]])}
        for row in summary_rows(suite, run.episodes, run.clock)
    ]


def schedulers_of(patch: LoadedPatch) -> tuple[str, ...]:
    """What is compared for this patch: only rules that it follows are left out, and no row is there twice."""
    left_out = [f"without-{rule}:{OURS}" for rule in rules_of(patch)]
    changed: list[str] = []
    if isinstance(patch.choices, Retimings):
        now = patch.choices.common
        if any(arm.gain > 0 for arm in patch.limits.arms):
            changed += [f"with-overdrive={value:g}:{OURS}" for value in OVERDRIVES if value != now.overdrive]
        if patch.limits.pulls and joint_delays(patch.robot, patch.limits):
            changed.append(f"without-path-tracking+with-joint-lead=on:{OURS}")
    tracked = [f"tracked:{rate}:{OURS}" for rate in TRACKED_RATES]
    return ("base", OURS, f"mpc:{OURS}", f"retime:{OURS}", *tracked, *left_out, *changed)


def against_ours(episodes: Mapping[str, Sequence[EpisodeResult]]) -> dict[str, Row]:
    """Every scheduler paired with the patch as it is."""
    summaries = summarise(episodes, np.random.default_rng(0), reference=OURS)
    return {label: _figures(summary) for label, summary in summaries.items()}


def _figures(summary: SchedulerSummary) -> Row:
    low, high = summary.success_difference_interval or (None, None)
    fast, slow = summary.speedup_interval or (None, None)
    return {
        "success_to_ours": summary.success_difference,
        "success_to_ours_low": low,
        "success_to_ours_high": high,
        "steps_to_ours": 1.0 / summary.speedup if summary.speedup else None,
        "steps_to_ours_low": 1.0 / slow if slow else None,
        "steps_to_ours_high": 1.0 / fast if fast else None,
    }
