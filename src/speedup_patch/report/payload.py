"""The episodes of a run as the page's script reads them, within a budget of bytes."""

import json
from collections.abc import Mapping
from typing import Any

from speedup_patch.report.labels import Style, is_patch
from speedup_patch.report.patches import FoundPatch
from speedup_patch.report.reading import Run, in_words
from speedup_patch.report.tasks import instruction_of, task_of
from speedup_patch.report.timelines import Traces, decision_record, trace_record

Json = dict[str, Any]


def run_payload(
    run: Run, found: Traces, judge: FoundPatch | None, styles: Mapping[str, Style], trace_bytes: int
) -> tuple[Json, list[str]]:
    """(every episode by its decisions, and by its trace as far as ``trace_bytes`` allow; a note if they do not)."""
    episodes: dict[str, dict[str, Json]] = {
        spec: {str(seed): decision_record(result) for seed, result in run.episodes[spec].items()}
        for spec in run.schedulers
        if spec in run.episodes
    }
    whole, cut = _add_traces(run, found, episodes, trace_bytes)
    patch = judge.loaded if judge else None
    payload: Json = {
        "env": run.env,
        "hz": found.robot.control_hz if found.robot else None,
        "schedulers": [{"spec": spec, "label": styles[spec].label} for spec in episodes],
        "tolerance": patch.epsilon if patch else None,
        "judge": judge.named if judge else None,
        "tasks": _tasks(run),
        "episodes": episodes,
        "first": _first(run, episodes, whole),
    }
    if not cut:
        return payload, []
    kept = f"only {in_words(whole, 'seed')}" if whole else "no seed"
    return payload, [f"To keep the page small, {kept} {'has' if len(whole) < 2 else 'have'} a full timeline."]


def script_json(data: Json) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def seeds_by_interest(run: Run) -> list[int]:
    """Seeds that some scheduler solved and another did not come first, then the others; both rising."""

    def agreed(seed: int) -> bool:
        return len({results[seed].success for results in run.episodes.values() if seed in results}) < 2

    return sorted(run.seeds, key=lambda seed: (agreed(seed), seed))


def _add_traces(
    run: Run, found: Traces, episodes: Mapping[str, Mapping[str, Json]], budget: int
) -> tuple[list[int], bool]:
    """(seeds whose traces were added for every scheduler that has one, whether others did not fit)."""
    whole: list[int] = []
    for seed in seeds_by_interest(run):
        records = {spec: trace_record(found, spec, seed) for spec in episodes if (spec, seed) in found.traces}
        if not records:
            continue
        size = sum(len(json.dumps(record, separators=(",", ":"))) for record in records.values())
        if size > budget:
            return whole, True
        budget -= size
        whole.append(seed)
        for spec, record in records.items():
            episodes[spec][str(seed)].update(record)
    return whole, False


def _tasks(run: Run) -> Json:
    """The task of each seed with its words, where tasks differ within the environment."""
    tasks = {seed: task_of(run.env, seed) for seed in run.seeds}
    return {
        str(seed): f"{task}: {instruction_of(task)}" if instruction_of(task) else task
        for seed, task in tasks.items()
        if task != run.env
    }


def _first(run: Run, episodes: Mapping[str, Mapping[str, Json]], whole: list[int]) -> list[Any] | None:
    """The episode that is shown first: of a patch if there is one, with a trace if there is one."""
    if not episodes:
        return None
    spec = next((spec for spec in reversed(list(episodes)) if is_patch(spec)), list(episodes)[-1])
    seed = next((seed for seed in whole if str(seed) in episodes[spec]), int(next(iter(episodes[spec]))))
    return [spec, str(seed)]
