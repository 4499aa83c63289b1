"""Closed-loop runs of a benchmark: schedulers on the same seeds, kept in run folders and read back with traces."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import FurtherTable, Row
from speedup_patch.data import EpisodeResult
from speedup_patch.envs.libero_tasks import TASK_FILES
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.episodes import read_episodes
from speedup_patch.evaluation.phases import trace_limits
from speedup_patch.evaluation.run import EvaluationConfig, content_digest, evaluate
from speedup_patch.evaluation.seconds import LATENCIES, Clock, LatencySummary
from speedup_patch.evaluation.table import stress_figures
from speedup_patch.evaluation.traces import Trace, read_trace, trace_file
from speedup_patch.limits import Limits
from speedup_patch.policies import load_policy
from speedup_patch.policies.onnx import OnnxPolicy
from speedup_patch.reporting import Report
from speedup_patch.robots import find_robot
from speedup_patch.runtime.patch_folder import read_description


@dataclass(frozen=True)
class Run:
    """The episodes of several schedulers, by the name in our tables."""

    folders: Mapping[str, Path]
    specs: Mapping[str, str]
    episodes: Mapping[str, list[EpisodeResult]]
    """In the order of the seeds."""
    clock: Clock

    def traces(self, label: str, only_successes: bool = False) -> list[Trace]:
        """What the episodes of one scheduler left behind, in the order of the seeds."""
        return [
            read_trace(trace_file(self.folders[label], self.specs[label], result.seed))
            for result in self.episodes[label]
            if result.success or not only_successes
        ]


def run_schedulers(config: BenchConfig, suite: str, specs: Mapping[str, str], report: Report, change: str = "") -> Run:
    """Runs what is missing; ``change`` is added to the environment's name, such as +double_gripper.

    Run folders are named after the content of the policy and of the patch: one that is trained again gets a new run,
    and the others keep theirs.
    """
    home = config.work / "runs" / f"{suite}{change}" / policy_digest(config, suite)[:8]
    folders = {label: home / _folder_name(spec) for label, spec in specs.items()}
    episodes: dict[str, list[EpisodeResult]] = {}
    clock: Clock | None = None
    for folder in dict.fromkeys(folders.values()):
        here = {label: spec for label, spec in specs.items() if folders[label] == folder}
        wanted = EvaluationConfig(
            config.env(suite) + change,
            config.policy_of(suite),
            tuple(here.values()),
            len(config.seeds),
            first_seed=config.first_seed,
        )
        clock = evaluate(wanted, folder, processes=config.processes, report=report).clock
        everything = read_episodes(folder / "episodes.jsonl")
        for label, spec in here.items():
            episodes[label] = sorted((r for r in everything[spec] if r.seed in wanted.seeds), key=lambda r: r.seed)
    assert clock is not None
    return Run(folders, dict(specs), {label: episodes[label] for label in specs}, clock)


def policy_digest(config: BenchConfig, suite: str) -> str:
    """A hash of the base policy's file; of its name where it is no file."""
    policy = load_policy(config.policy_of(suite))
    digest = content_digest(str(policy.path)) if isinstance(policy, OnnxPolicy) else None
    return digest or hashlib.sha256(config.policy_of(suite).encode()).hexdigest()


def _folder_name(spec: str) -> str:
    """Schedulers that read the same patch share a run folder, as do those that read none."""
    digest = content_digest(spec)
    return "rules" if digest is None else f"{re.split('[:+/]', spec)[-1]}-{digest[:8]}"


def summary_rows(suite: str, episodes: Mapping[str, list[EpisodeResult]], clock: Clock | None = None) -> list[Row]:
    """One row per scheduler, paired with ``base``; in seconds too where the ``clock`` is known."""
    summaries = summarise(episodes, np.random.default_rng(0), clock)
    return [{"suite": suite, "scheduler": label, **_figures(summary)} for label, summary in summaries.items()]


def _figures(summary: SchedulerSummary) -> Row:
    difference = summary.success_difference_interval or UNKNOWN
    speedup = summary.speedup_interval or UNKNOWN
    figures: Row = {
        "episodes": summary.episodes,
        "successes": summary.successes,
        "success": summary.success_rate,
        "success_low": summary.success_interval[0],
        "success_high": summary.success_interval[1],
        "difference": summary.success_difference,
        "difference_low": difference[0],
        "difference_high": difference[1],
        "steps": summary.steps_mean,
        "speedup": summary.speedup,
        "speedup_low": speedup[0],
        "speedup_high": speedup[1],
        "rate": summary.rate_mean,
        "policy_calls": summary.policy_calls,
        "fallbacks": sum(summary.fallbacks.values()),
    }
    if over := summary.over_tasks:
        figures["success_tasks_low"], figures["success_tasks_high"] = over.success
        figures["speedup_tasks_low"], figures["speedup_tasks_high"] = over.speedup or UNKNOWN
    for latency, found in summary.latency.items():
        figures |= _latency_figures(f"{1000 * float(latency):g}ms", found)
    return figures | stress_figures(summary.stress)


def _latency_figures(name: str, summary: LatencySummary) -> Row:
    ends = summary.interval or UNKNOWN
    return {
        f"successes_{name}": summary.successes,
        f"seconds_{name}": summary.seconds_mean,
        f"speedup_{name}": summary.speedup_seconds,
        f"speedup_{name}_low": ends[0],
        f"speedup_{name}_high": ends[1],
        f"throughput_{name}": summary.throughput_per_hour,
        f"stalled_{name}": summary.stalled_share,
        f"reckoned_{name}": summary.reckoned,
    }


UNKNOWN = (None, None)
"""The ends of an interval that the data cannot tell."""


SUMMARY_COLUMNS = {
    "suite": "{suite}",
    "scheduler": "{scheduler}",
    "success": "{successes}/{episodes}",
    "95% interval": "{success_low:.2f} .. {success_high:.2f}",
    "change": "{difference:+.2f}",
    "95% interval of the change": "{difference_low:+.2f} .. {difference_high:+.2f}",
    "steps": "{steps:.0f}",
    "speedup": "{speedup:.2f}x",
    "95% interval of the speedup": "{speedup_low:.2f} .. {speedup_high:.2f}",
    "mean rate": "{rate:.2f}",
    "policy calls": "{policy_calls:.1f}",
    "success, tasks drawn anew": "{success_tasks_low:.2f} .. {success_tasks_high:.2f}",
    "speedup, tasks drawn anew": "{speedup_tasks_low:.2f} .. {speedup_tasks_high:.2f}",
}
"""The columns of a table of schedulers."""

WHO = {"suite": "{suite}", "scheduler": "{scheduler}"}
HEADS = {f"{1000 * latency:g} ms{', reckoned' if latency else ''}": f"{1000 * latency:g}ms" for latency in LATENCIES}
"""Heads of the columns of every latency, and how its figures are named. A benchmark's episodes have none, so the rest
is reckoned from their steps and calls."""

SECONDS_TABLES = (
    FurtherTable(
        "Speedup in seconds against base while every call of the policy takes so long and the robot waits, with 95% "
        "intervals that draw tasks anew where a suite has several.",
        WHO
        | {
            f"speedup at {head}": f"{{speedup_{name}:.2f}}x ({{speedup_{name}_low:.2f}} .. {{speedup_{name}_high:.2f}})"
            for head, name in HEADS.items()
        },
    ),
    FurtherTable(
        "Seconds of a success, and successes per hour of trying, where a failure takes the whole time limit.",
        WHO
        | {f"seconds at {head}": f"{{seconds_{name}:.1f}}" for head, name in HEADS.items()}
        | {f"per hour at {head}": f"{{throughput_{name}:.0f}}" for head, name in HEADS.items()},
    ),
    FurtherTable(
        "Stress on the joints, mean over episodes, and ratios to base on the same seeds.",
        WHO
        | {
            "peak joint speed": "{peak_joint_speed:.2f} rad/s",
            "peak joint speed to base": "{peak_joint_speed_ratio:.2f}x",
            "peak joint speed to rating": "{peak_joint_speed_rating_ratio:.2f}x",
            "99% of accelerations": "{acceleration_99:.0f} rad/s2",
            "99% of accelerations to base": "{acceleration_99_ratio:.2f}x",
            "99% of jerks to base": "{jerk_ratio:.2f}x",
            "peak force to base": "{peak_force_ratio:.2f}x",
            "peak force to rating": "{peak_force_rating_ratio:.2f}x",
        },
    ),
)
"""What people get besides steps, under a table of schedulers."""


def find_limits(config: BenchConfig, suite: str, traces: Iterable[Trace]) -> Limits:
    """What the suite's demonstrations showed the robot to do, as its patch says; without a patch, what traces show."""
    robot = find_robot(config.robot_name)
    patch = config.patch(suite)
    return read_description(patch, robot).limits if patch.is_dir() else trace_limits(robot, list(traces))


def find_tasks(traces: Sequence[Trace]) -> Int[np.ndarray, " K"]:
    """The task of every episode, which in LIBERO the last ten numbers of the environment's state tell."""
    number = len(TASK_FILES["spatial"])
    scenes = [trace.environment_state for trace in traces]
    return np.array([0 if scene is None else int(scene[0, -number:].argmax()) for scene in scenes])
