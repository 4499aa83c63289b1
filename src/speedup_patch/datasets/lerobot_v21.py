"""LeRobot v2.1 and v2.0 data sets, read with pyarrow alone: one parquet file for every episode."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from speedup_patch.datasets.lerobot_info import LeRobotInfo, read_info
from speedup_patch.datasets.parquet_episodes import Wanted, read_file
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

EPISODES, TASKS = "meta/episodes.jsonl", "meta/tasks.jsonl"
DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
CHUNK_SIZE = 1000


class LeRobotV21:
    """A LeRobot v2.1 folder."""

    def __init__(self, folder: Path) -> None:
        self._info: LeRobotInfo = read_info(folder)
        if not self._info.version.startswith("v2."):
            raise InputError(f"{self._info.file}: codebase_version must be v2.1, not {self._info.version}")
        self.path = folder
        self.control_hz: float = self._info.control_hz
        self.robot_name: str = self._info.robot_name
        self.columns: Mapping[str, Column] = self._info.columns
        self.defaults: ColumnChoice = self._info.defaults

    def entries(self) -> Sequence[Entry]:
        return list(self._listed.values())

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        wanted = Wanted(
            lengths={entry.number: entry.length or 0 for entry in self._listed.values()},
            widths={name: self.columns[name].width for name in columns},
            tasks=self._tasks,
            listed_in=EPISODES,
            tasks_in=TASKS,
        )
        for number in numbers:
            yield from read_file(self._path(number), wanted, [number], [number])

    def _path(self, number: int) -> Path:
        size = self._info.document.get("chunks_size", CHUNK_SIZE)
        if not isinstance(size, int) or size < 1:
            raise InputError(f"{self._info.file}: chunks_size must be a whole number above 0, not {size!r}")
        return self._info.data_file(DATA_PATH, episode_chunk=number // size, episode_index=number)

    @cached_property
    def _listed(self) -> dict[int, Entry]:
        """Every episode by its number, in order."""
        file = self.path / EPISODES
        entries: list[Entry] = []
        for line, record in _read_lines(file):
            number, length = (_whole(record, key, line, file) for key in ("episode_index", "length"))
            tasks = record.get("tasks")
            only = tasks[0] if isinstance(tasks, list) and len(tasks) == 1 else None
            entries.append(Entry(number, length, only if isinstance(only, str) else None))
        listed = {entry.number: entry for entry in sorted(entries, key=lambda entry: entry.number)}
        if len(listed) < len(entries):
            raise InputError(f"{file} lists {len(entries) - len(listed)} episodes more than once; list each once")
        self._info.check_totals([entry.length or 0 for entry in entries], EPISODES)
        return listed

    @cached_property
    def _tasks(self) -> dict[int, str]:
        file = self.path / TASKS
        return {
            _whole(record, "task_index", line, file): str(record.get("task", "")) for line, record in _read_lines(file)
        }


def _read_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, the object in that line) of a file that holds one JSON object per line."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{file} does not exist, but the data set needs it; copy it again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not readable text: {error}; copy it again") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number} is not JSON: {error}; copy the file again") from error
        if not isinstance(record, dict):
            raise InputError(f"{file}, line {number} must hold a JSON object in braces, not {line[:40]}")
        yield number, record


def _whole(record: Mapping[str, Any], key: str, line: int, file: Path) -> int:
    value = record.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InputError(f"{file}, line {line}: {key} must be a whole number, not {value!r}")
    return value
