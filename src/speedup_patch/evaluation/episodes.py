"""The file in which a run keeps its episodes: one line of JSON each, written as they end."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from speedup_patch.artefacts import write_text_atomically
from speedup_patch.data import EpisodeResult, Stress, decisions_from_json
from speedup_patch.errors import InputError


def episode_line(spec: str, result: EpisodeResult) -> str:
    """The line of one scheduler's episode."""
    return json.dumps({"scheduler": spec, **asdict(result)}) + "\n"


def episode_from_json(record: Mapping[str, Any]) -> tuple[str, EpisodeResult]:
    """(scheduler, episode) of a line; lines written before episodes had a task, a latency or stress lack them."""
    fields = dict(record)
    decisions = decisions_from_json(fields.pop("decisions"))
    spec, stress = str(fields.pop("scheduler")), fields.pop("stress", None)
    return spec, EpisodeResult(**fields, decisions=decisions, stress=Stress(**stress) if stress else None)


def read_episodes(path: Path, latency: float = 0.0) -> dict[str, list[EpisodeResult]]:
    """The episodes of an episodes file that were run with this latency (seconds), by scheduler; a last line that is not
    whole, or not yet, is left out."""
    results: dict[str, list[EpisodeResult]] = {}
    for number, line in enumerate(whole_lines(path), start=1):
        try:
            spec, result = episode_from_json(json.loads(line))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number} is damaged: {error}") from error
        except InputError as error:
            raise InputError(f"{path}, line {number} cannot be used: {error}; choose another --out") from error
        if result.latency == latency:
            results.setdefault(spec, []).append(result)
    return results


def whole_lines(path: Path) -> list[str]:
    """The lines of a file, without a last one that has no end."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return lines[:-1] if lines and not lines[-1].endswith("\n") else lines


def drop_cut_line(path: Path) -> None:
    """A last line cut short by a kill is removed, so that lines can be appended; its episode is run again."""
    whole = "".join(whole_lines(path))
    if path.exists() and path.read_text() != whole:
        write_text_atomically(path, whole)
