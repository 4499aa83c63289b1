"""Closed-loop runs of a benchmark: schedulers on the same seeds, kept in run folders and read back with traces."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Row
from speedup_patch.data import EpisodeResult
from speedup_patch.envs.libero_tasks import TASK_FILES
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.episodes import read_episodes
from speedup_patch.evaluation.phases import trace_limits
from speedup_patch.evaluation.run import EvaluationConfig, content_digest, evaluate
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
    for folder in dict.fromkeys(folders.values()):
        here = {label: spec for label, spec in specs.items() if folders[label] == folder}
        wanted = EvaluationConfig(
            config.env(suite) + change,
            config.policy_of(suite),
            tuple(here.values()),
            config.episodes,
            first_seed=config.first_seed,
        )
        evaluate(wanted, folder, processes=config.processes, report=report)
        everything = read_episodes(folder / "episodes.jsonl")
        for label, spec in here.items():
            episodes[label] = sorted((r for r in everything[spec] if r.seed in wanted.seeds), key=lambda r: r.seed)
    return Run(folders, dict(specs), {label: episodes[label] for label in specs})


def policy_digest(config: BenchConfig, suite: str) -> str:
    """A hash of the base policy's file; of its name where it is no file."""
    policy = load_policy(config.policy_of(suite))
    digest = content_digest(str(policy.path)) if isinstance(policy, OnnxPolicy) else None
    return digest or hashlib.sha256(config.policy_of(suite).encode()).hexdigest()


def _folder_name(spec: str) -> str:
    """Schedulers that read the same patch share a run folder, as do those that read none."""
    digest = content_digest(spec)
    return "rules" if digest is None else f"{re.split('[:+/]', spec)[-1]}-{digest[:8]}"


def summary_rows(suite: str, episodes: Mapping[str, list[EpisodeResult]]) -> list[Row]:
    """One row per scheduler, paired with ``base``."""
    summaries = summarise(episodes, np.random.default_rng(0))
    return [{"suite": suite, "scheduler": label, **_figures(summary)} for label, summary in summaries.items()]


def _figures(summary: SchedulerSummary) -> Row:
    difference = summary.success_difference_interval or (None, None)
    speedup = summary.speedup_interval or (None, None)
    return {
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
}
"""The columns of a table of schedulers."""


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
