"""Reads a run folder for the report: whatever is there, with a note on everything that is not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from speedup_patch.artefacts import read_json
from speedup_patch.data import EpisodeResult
from speedup_patch.errors import InputError
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.evaluation.episodes import episode_from_json
from speedup_patch.evaluation.run import FORMAT_VERSION
from speedup_patch.evaluation.seconds import Clock
from speedup_patch.evaluation.traces import trace_file
from speedup_patch.report.summaries import summary_from_json

Episodes = Mapping[str, Mapping[int, EpisodeResult]]
"""Scheduler -> seed -> how the episode went."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder as it was found."""

    folder: Path
    env: str
    policy: str
    contents: Mapping[str, str]
    """The digest of every file or folder that a policy or scheduler named, as it was when it ran."""
    versions: Mapping[str, str]
    """What it ran with, where the folder says so."""
    episodes: Episodes
    summaries: Mapping[str, SchedulerSummary]
    asked: tuple[int, int] | None
    """(first seed, episodes per scheduler) that the evaluation was asked for; None when nothing tells."""
    missing: tuple[str, ...]
    """Sentences for the reader: what is not there, and what that means for the page."""

    @property
    def schedulers(self) -> tuple[str, ...]:
        return tuple(self.summaries)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every seed that any scheduler ran, rising."""
        return tuple(sorted({seed for results in self.episodes.values() for seed in results}))

    def traces(self, spec: str) -> dict[int, Path]:
        """The trace files that exist for a scheduler, by seed."""
        files = {seed: trace_file(self.folder, spec, seed) for seed in self.episodes.get(spec, ())}
        return {seed: path for seed, path in files.items() if path.is_file()}


def read_run(folder: Path) -> Run:
    """What a run folder holds; a folder without run.json or results.json is no run and is refused."""
    documents = {name: folder / name for name in ("run.json", "results.json") if (folder / name).is_file()}
    if not documents:
        raise InputError(f"{folder} is not a run folder: it has no run.json; make one with `sup eval ... --out FOLDER`")
    described = read_json(next(iter(documents.values())))
    env, policy = (described.get(key) for key in ("env", "policy"))
    if not isinstance(env, str) or not isinstance(policy, str):
        raise InputError(f"{next(iter(documents.values()))} does not name an env and a policy: {folder} is not a run")
    episodes, damaged = read_episodes(folder / "episodes.jsonl")
    results = read_json(documents["results.json"]) if "results.json" in documents else {}
    published = _published(results, folder)
    summaries = {**published, **_computed(episodes, published, _clock(results))}
    missing = (*damaged, *_missing(folder, episodes, published, "results.json" in documents))
    run = Run(
        folder=folder,
        env=env,
        policy=policy,
        contents=_texts(described, "contents"),
        versions=_texts(described, "versions"),
        episodes=episodes,
        summaries=summaries,
        asked=_asked(results, episodes),
        missing=missing,
    )
    return _note_traces(run)


def read_episodes(path: Path) -> tuple[dict[str, dict[int, EpisodeResult]], list[str]]:
    """(episodes by scheduler and seed, notes on lines that cannot be read); the file itself is left as it is, because
    an evaluation may be writing to it."""
    episodes: dict[str, dict[int, EpisodeResult]] = {}
    bad: list[int] = []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            spec, result = episode_from_json(json.loads(line))
        except InputError as error:
            raise InputError(f"{path}, line {number} cannot be used: {error}; run `sup eval` in a new --out") from error
        except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            bad.append(number)
            continue
        if result.latency == 0:  # an episode with latency has a line of its own; results.json sums them up
            episodes.setdefault(spec, {})[result.seed] = result
    ordered = {spec: dict(sorted(results.items())) for spec, results in episodes.items()}
    if not bad:
        return ordered, []
    return ordered, [f"episodes.jsonl: {in_words(bad, 'line')} cannot be read, and {_is_are(bad)} left out."]


def in_words(numbers: list[int], noun: str) -> str:
    """``seeds 0-4, 7``: numbers with their ranges drawn together."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    listed = ", ".join("-".join(map(str, part)) for part in ranges[:8]) + (", ..." if len(ranges) > 8 else "")
    return f"{noun}{'s' if len(numbers) > 1 else ''} {listed}"


def _is_are(things: list[int]) -> str:
    return "are" if len(things) > 1 else "is"


def _texts(document: Mapping[str, Any], key: str) -> dict[str, str]:
    found = document.get(key)
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _asked(results: Mapping[str, Any], episodes: Episodes) -> tuple[int, int] | None:
    first, count = results.get("first_seed"), results.get("episodes")
    if isinstance(first, int) and isinstance(count, int):
        return first, count
    seeds = [seed for ran in episodes.values() for seed in ran]
    return (min(seeds), max(seeds) - min(seeds) + 1) if seeds else None


def _published(results: Mapping[str, Any], folder: Path) -> dict[str, SchedulerSummary]:
    """The table that the evaluation itself wrote; one of an older release counted a rate of whole chunks."""
    if results and results.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{folder / 'results.json'} is of an older release; run `sup eval` again in a new --out")
    try:
        return {spec: summary_from_json(figures) for spec, figures in results.get("schedulers", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / 'results.json'} is damaged: {error!r}") from error


def _clock(results: Mapping[str, Any]) -> Clock | None:
    """What the evaluation says of its control steps; None in files that were written before it did."""
    hz, limit = results.get("control_hz"), results.get("max_steps")
    return Clock(float(hz), limit) if isinstance(hz, int | float) and hz > 0 and isinstance(limit, int) else None


def _computed(
    episodes: Episodes, published: Mapping[str, SchedulerSummary], clock: Clock | None
) -> dict[str, SchedulerSummary]:
    """Summaries of the schedulers that results.json does not mention, from their episodes."""
    ran = {spec: tuple(results.values()) for spec, results in episodes.items()}
    found = summarise(ran, np.random.default_rng(0), clock)
    return {spec: summary for spec, summary in found.items() if spec not in published}


def _missing(
    folder: Path, episodes: Episodes, published: Mapping[str, SchedulerSummary], has_results: bool
) -> list[str]:
    notes: list[str] = []
    if not (folder / "episodes.jsonl").is_file():
        notes.append("There is no episodes.jsonl: single episodes, timelines and speedups per task cannot be shown.")
    elif not episodes:
        notes.append("episodes.jsonl holds no episodes: nothing has been run yet.")
    if episodes and not has_results:
        notes.append("There is no results.json: the run was not finished. The table is computed from the episodes.")
    extra = [spec for spec in episodes if spec not in published]
    if has_results and extra:
        notes.append(f"results.json does not cover {', '.join(extra)}: computed from the episodes.")
    if episodes and "base" not in episodes:
        notes.append("The unpatched policy (base) was not run: there is nothing to pair with, hence no speedup.")
    seeds = {seed for results in episodes.values() for seed in results}
    for spec, results in episodes.items():
        lacking = sorted(seeds - results.keys())
        if lacking:
            notes.append(f"{spec} was not run on {in_words(lacking, 'seed')}; it is paired on the others.")
    return notes


def _note_traces(run: Run) -> Run:
    """The run, with a note when traces of some or all episodes are missing."""
    total = sum(len(results) for results in run.episodes.values())
    traced = sum(len(run.traces(spec)) for spec in run.episodes)
    if total == traced:
        return run
    found = "No episode has" if traced == 0 else f"Only {traced} of {total} episodes have"
    note = (
        f"{found} a trace (sup eval writes them unless told --no-traces): without one, a timeline shows the rate and "
        "fallbacks, but no phases, gripper or deviation."
    )
    return replace(run, missing=(*run.missing, note))
