"""Runs schedulers over seeds in parallel processes; a run that was killed goes on where it stopped."""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from speedup_patch.artefacts import read_json, write_json, write_text_atomically
from speedup_patch.data import EpisodeResult
from speedup_patch.envs import make_env
from speedup_patch.envs.seeds import Scenes, common_scenes
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.episodes import drop_cut_line, episode_line, read_episodes
from speedup_patch.evaluation.floor import Floor, run_floor
from speedup_patch.evaluation.rollout import run_episode, trace_episode
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.evaluation.seconds import Clock, check_latencies
from speedup_patch.evaluation.table import markdown
from speedup_patch.evaluation.traces import write_trace
from speedup_patch.interfaces import Env
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.policies import load_policy
from speedup_patch.reporting import Report, silent
from speedup_patch.workers import worker_pool

SEEDS_PER_TASK = 5
FORMAT_VERSION = 2
"""Of results.json; before 2, a rate counted the whole chunk even where only its first commands were sent."""


@dataclass(frozen=True)
class EvaluationConfig:
    """What is run: every scheduler on every seed."""

    env: str
    policy: str
    schedulers: tuple[str, ...]
    episodes: int
    first_seed: int = 0
    latencies: tuple[float, ...] = ()
    """Seconds per call of the policy that are simulated too; every scheduler also runs without."""

    def __post_init__(self) -> None:
        check_latencies(self.latencies)
        if self.episodes < 1:
            raise InputError(f"at least one episode is needed, not {self.episodes}")
        if len(set(self.schedulers)) != len(self.schedulers):
            raise InputError(f"a scheduler is named twice: {' '.join(self.schedulers)}")
        common_scenes(self.seeds)

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.episodes)

    @property
    def simulated(self) -> tuple[float, ...]:
        """Every latency that is run, rising, the first of them none."""
        return tuple(sorted({0.0, *self.latencies}))

    @property
    def scenes(self) -> Scenes:
        """What the seeds are for."""
        return common_scenes(self.seeds)


@dataclass(frozen=True)
class EvaluationResult:
    """The table of a finished run."""

    config: EvaluationConfig
    schedulers: dict[str, SchedulerSummary]
    clock: Clock
    floor: Floor | None
    """What is possible at best; None without the successes of base, or without their traces."""

    def to_json(self) -> dict[str, object]:
        """The document that ``sup eval --json`` prints."""
        return {
            "format_version": FORMAT_VERSION,
            "env": self.config.env,
            "policy": self.config.policy,
            "episodes": self.config.episodes,
            "first_seed": self.config.first_seed,
            **asdict(self.clock),
            "scenes": self.config.scenes,
            "schedulers": {name: asdict(summary) for name, summary in self.schedulers.items()},
            "floor": asdict(self.floor) if self.floor else None,
        }


def evaluate(
    config: EvaluationConfig, out: Path, *, processes: int, traces: bool = True, report: Report = silent
) -> EvaluationResult:
    """Runs what ``out`` does not hold yet, writes every episode as it ends, and returns the table.

    With ``traces``, every episode that runs without latency also leaves its trace in ``out``.
    """
    env = _load_once(config)
    clock = Clock(env.robot.control_hz, env.max_steps)
    out.mkdir(parents=True, exist_ok=True)
    _refuse_other_run(config, out)
    episodes_file = out / "episodes.jsonl"
    drop_cut_line(episodes_file)
    tasks = _missing_tasks(config, episodes_file)
    total = config.episodes * len(config.schedulers) * len(config.simulated)
    finished = total - sum(len(task.seeds) for task in tasks)
    with episodes_file.open("a") as file:
        for spec, results in _run_tasks(config, tasks, processes, out if traces else None):
            file.writelines(episode_line(spec, result) for result in results)
            file.flush()
            finished += len(results)
            report("evaluation", finished, total, {})
    chosen = {latency: _chosen_episodes(config, episodes_file, latency) for latency in config.simulated}
    immediate = chosen.pop(0.0)
    successes = [result.seed for result in immediate.get("base", []) if result.success]
    patches = [path for spec in config.schedulers if (path := named_path(spec))]
    floor = run_floor(out, env.robot, successes, patches)
    summaries = summarise(immediate, np.random.default_rng(0), clock, chosen)
    result = EvaluationResult(config, summaries, clock, floor)
    write_json(out / "results.json", result.to_json())
    write_text_atomically(out / "table.md", markdown(result.schedulers))
    return result


def _load_once(config: EvaluationConfig) -> Env:
    """The environment; finds a wrong environment, policy or scheduler before any process is started."""
    worker = _Worker(config.env, config.policy, None)
    worker.load_all(config.schedulers)
    return worker.env


class _Task(NamedTuple):
    """Some episodes of one scheduler, for one process."""

    spec: str
    latency: float
    seeds: list[int]


def _missing_tasks(config: EvaluationConfig, episodes_file: Path) -> list[_Task]:
    """What the file does not hold yet."""
    tasks: list[_Task] = []
    for latency in config.simulated:
        done = read_episodes(episodes_file, latency)
        for spec in config.schedulers:
            finished = {result.seed for result in done.get(spec, [])}
            seeds = [seed for seed in config.seeds if seed not in finished]
            tasks += [_Task(spec, latency, seeds[i : i + SEEDS_PER_TASK]) for i in range(0, len(seeds), SEEDS_PER_TASK)]
    return tasks


def _chosen_episodes(config: EvaluationConfig, episodes_file: Path, latency: float) -> dict[str, list[EpisodeResult]]:
    """The episodes that were asked for, in the order of the seeds."""
    everything = read_episodes(episodes_file, latency)
    return {
        spec: sorted((r for r in everything[spec] if r.seed in config.seeds), key=lambda r: r.seed)
        for spec in config.schedulers
    }


def _refuse_other_run(config: EvaluationConfig, out: Path) -> None:
    """A run folder belongs to one environment and policy; more seeds and schedulers may be added to it, but none whose
    patch has changed since: its earlier episodes would pass for the new one's."""
    path = out / "run.json"
    own = {"env": config.env, "policy": config.policy}
    contents = {spec: digest for spec in (config.policy, *config.schedulers) if (digest := content_digest(spec))}
    found = read_json(path) if path.exists() else {}
    if not found and any(out.iterdir()):
        raise InputError(f"{out} is not empty and holds no run; choose another --out")
    before = found.pop("contents", {})
    if found and found != own:
        raise InputError(f"{out} holds a run of {found}, not of {own}; choose another --out")
    for spec, digest in contents.items():
        if before.get(spec, digest) != digest:
            raise InputError(f"{spec} has changed since the episodes in {out} were run; choose another --out")
    write_json(path, {**own, "contents": {**before, **contents}})


def named_path(spec: str) -> Path | None:
    """The file or folder that a policy or scheduler names; None when it names none."""
    paths = [Path(spec.rpartition(mark)[2]) for mark in ("+", ":")]
    return next((path for path in paths if path.exists()), None)


def content_digest(spec: str) -> str | None:
    """A hash of the file or folder that a policy or scheduler names; None when it names none."""
    path = named_path(spec)
    if path is None:
        return None
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


class _Worker:
    """One process's environment and policies, made once and used for many episodes."""

    def __init__(self, env: str, policy: str, traced: Path | None) -> None:
        self.env: Env = make_env(env)
        self.policy = load_policy(policy)
        self.loaded: dict[str, ScheduledPolicy] = {}
        self.traced = traced
        """The run folder that traces go to, if they are kept."""

    def load_all(self, specs: Iterable[str]) -> None:
        for spec in specs:
            self.scheduled(spec)

    def scheduled(self, spec: str) -> ScheduledPolicy:
        if spec not in self.loaded:
            self.loaded[spec] = schedule_policy(spec, self.policy, self.env.robot)
        return self.loaded[spec]

    def run(self, task: _Task) -> list[EpisodeResult]:
        return [self._run_one(task.spec, task.latency, seed) for seed in task.seeds]

    def _run_one(self, spec: str, latency: float, seed: int) -> EpisodeResult:
        policy = self.scheduled(spec)
        try:
            if latency > 0:
                return run_episode(self.env, policy, seed, latency)
            result, trace = trace_episode(self.env, policy, seed)
        except DecisionError as error:
            raise DecisionError(f"scheduler {spec}, seed {seed}: {error}") from error
        if self.traced:
            write_trace(self.traced, spec, seed, trace)
        return result


_worker: _Worker | None = None


def _start_worker(env: str, policy: str, traced: Path | None) -> None:
    global _worker
    _worker = _Worker(env, policy, traced)


def _run_in_worker(task: _Task) -> list[EpisodeResult]:
    assert _worker is not None
    return _worker.run(task)


def _run_tasks(
    config: EvaluationConfig, tasks: Sequence[_Task], processes: int, traced: Path | None
) -> Iterable[tuple[str, list[EpisodeResult]]]:
    """Results in the order in which they finish; an error in any episode stops the run and is raised here."""
    if not tasks:
        return
    arguments = (config.env, config.policy, traced)
    with worker_pool(min(processes, len(tasks)), _start_worker, arguments) as pool:
        futures = {pool.submit(_run_in_worker, task): task.spec for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
