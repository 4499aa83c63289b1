"""Runs schedulers over seeds in parallel processes; a run that was killed goes on where it stopped."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from speedup_patch.artefacts import read_json, write_json, write_text_atomically
from speedup_patch.data import EpisodeResult, decisions_from_json
from speedup_patch.envs import make_env
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.floor import Floor, run_floor
from speedup_patch.evaluation.rollout import trace_episode
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.evaluation.table import markdown
from speedup_patch.evaluation.traces import write_trace
from speedup_patch.interfaces import Env
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.policies import load_policy
from speedup_patch.reporting import Report, silent
from speedup_patch.robots import Robot
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

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise InputError(f"at least one episode is needed, not {self.episodes}")
        if len(set(self.schedulers)) != len(self.schedulers):
            raise InputError(f"a scheduler is named twice: {' '.join(self.schedulers)}")

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.episodes)


@dataclass(frozen=True)
class EvaluationResult:
    """The table of a finished run."""

    config: EvaluationConfig
    schedulers: dict[str, SchedulerSummary]
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
            "schedulers": {name: asdict(summary) for name, summary in self.schedulers.items()},
            "floor": asdict(self.floor) if self.floor else None,
        }


def evaluate(
    config: EvaluationConfig, out: Path, *, processes: int, traces: bool = True, report: Report = silent
) -> EvaluationResult:
    """Runs what ``out`` does not hold yet, writes every episode as it ends, and returns the table.

    With ``traces``, every episode that runs also leaves its trace in ``out``.
    """
    robot = _load_once(config)
    out.mkdir(parents=True, exist_ok=True)
    _refuse_other_run(config, out)
    episodes_file = out / "episodes.jsonl"
    _drop_cut_line(episodes_file)
    done = read_episodes(episodes_file)
    missing = [
        (spec, [seed for seed in config.seeds if seed not in {r.seed for r in done.get(spec, [])}])
        for spec in config.schedulers
    ]
    tasks = [
        (spec, seeds[i : i + SEEDS_PER_TASK]) for spec, seeds in missing for i in range(0, len(seeds), SEEDS_PER_TASK)
    ]
    total = config.episodes * len(config.schedulers)
    finished = total - sum(len(seeds) for _, seeds in tasks)
    with episodes_file.open("a") as file:
        for spec, results in _run_tasks(config, tasks, processes, out if traces else None):
            for result in results:
                file.write(json.dumps({"scheduler": spec, **asdict(result)}) + "\n")
            file.flush()
            finished += len(results)
            report("evaluation", finished, total, {})
    everything = read_episodes(episodes_file)
    chosen = {
        spec: sorted((r for r in everything[spec] if r.seed in config.seeds), key=lambda r: r.seed)
        for spec in config.schedulers
    }
    successes = [result.seed for result in chosen.get("base", []) if result.success]
    patches = [path for spec in config.schedulers if (path := named_path(spec))]
    floor = run_floor(out, robot, successes, patches)
    result = EvaluationResult(config, summarise(chosen, np.random.default_rng(0)), floor)
    write_json(out / "results.json", result.to_json())
    write_text_atomically(out / "table.md", markdown(result.schedulers))
    return result


def _load_once(config: EvaluationConfig) -> Robot:
    """The environment's robot; finds a wrong environment, policy or scheduler before any process is started."""
    worker = _Worker(config.env, config.policy, None)
    worker.load_all(config.schedulers)
    return worker.env.robot


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


def read_episodes(path: Path) -> dict[str, list[EpisodeResult]]:
    """Every whole line of an episodes file; a last line that is not whole, or not yet, is left out."""
    results: dict[str, list[EpisodeResult]] = {}
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            record = json.loads(line)
            decisions = decisions_from_json(record.pop("decisions"))
            spec = record.pop("scheduler")
            results.setdefault(spec, []).append(EpisodeResult(**record, decisions=decisions))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number} is damaged: {error}") from error
        except InputError as error:
            raise InputError(f"{path}, line {number} cannot be used: {error}; choose another --out") from error
    return results


def _whole_lines(path: Path) -> list[str]:
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return lines[:-1] if lines and not lines[-1].endswith("\n") else lines


def _drop_cut_line(path: Path) -> None:
    """A last line cut short by a kill is removed, so that lines can be appended; its episode is run again."""
    whole = "".join(_whole_lines(path))
    if path.exists() and path.read_text() != whole:
        write_text_atomically(path, whole)


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

    def run(self, spec: str, seeds: Sequence[int]) -> list[EpisodeResult]:
        return [self._run_one(spec, seed) for seed in seeds]

    def _run_one(self, spec: str, seed: int) -> EpisodeResult:
        try:
            result, trace = trace_episode(self.env, self.scheduled(spec), seed)
        except DecisionError as error:
            raise DecisionError(f"scheduler {spec}, seed {seed}: {error}") from error
        if self.traced:
            write_trace(self.traced, spec, seed, trace)
        return result


_worker: _Worker | None = None


def _start_worker(env: str, policy: str, traced: Path | None) -> None:
    global _worker
    _worker = _Worker(env, policy, traced)


def _run_in_worker(spec: str, seeds: Sequence[int]) -> list[EpisodeResult]:
    assert _worker is not None
    return _worker.run(spec, seeds)


def _run_tasks(
    config: EvaluationConfig, tasks: Sequence[tuple[str, list[int]]], processes: int, traced: Path | None
) -> Iterable[tuple[str, list[EpisodeResult]]]:
    """Results in the order in which they finish; an error in any episode stops the run and is raised here."""
    if not tasks:
        return
    arguments = (config.env, config.policy, traced)
    with worker_pool(min(processes, len(tasks)), _start_worker, arguments) as pool:
        futures = {pool.submit(_run_in_worker, spec, seeds): spec for spec, seeds in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
