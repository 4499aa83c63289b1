"""What ``meta/info.json`` of a LeRobot data set promises; v2 and v3 share it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from speedup_patch.artefacts import read_json
from speedup_patch.datasets.source import Column, ColumnChoice
from speedup_patch.errors import InputError

INFO = "meta/info.json"
STATE, ACTION = "observation.state", "action"
EXECUTED = "executed_action"
"""What was really sent, where a disturbance was added to the demonstrated action."""
STATES, ACTIONS = (STATE, "state"), (ACTION, "actions")
"""Names that mean the state and the action, the usual one first."""
NUMERIC = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
COUNTERS = {"timestamp", "frame_index", "episode_index", "index", "task_index"}


@dataclass(frozen=True)
class LeRobotInfo:
    """The contents of ``meta/info.json``, checked as far as every version needs it."""

    folder: Path
    document: Mapping[str, Any]
    columns: Mapping[str, Column]

    @property
    def file(self) -> Path:
        return self.folder / INFO

    @property
    def version(self) -> str:
        return str(self.document.get("codebase_version"))

    @property
    def control_hz(self) -> float:
        return float(self.document["fps"])

    @property
    def robot_name(self) -> str:
        return str(self.document.get("robot_type") or "")

    @cached_property
    def defaults(self) -> ColumnChoice:
        """State, action, and every other observation of numbers."""
        state = [name for name in STATES if name in self.columns][:1]
        action = [name for name in ACTIONS if name in self.columns][:1]
        extras = [name for name in self.columns if name.startswith("observation.") or name == EXECUTED]
        return ColumnChoice(tuple(state), tuple(action), tuple(name for name in extras if name not in state))

    def data_file(self, default: str, **indices: int) -> Path:
        """The file that ``data_path`` names, or ``default`` where the data set has no template of its own."""
        template = self.document.get("data_path", default)
        try:
            return self.folder / str(template).format(**indices)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            raise InputError(f"{self.file}: data_path must look like {default}, not {template!r}") from error

    def check_totals(self, lengths: Sequence[int], listed_in: str) -> None:
        """Raises an error when the totals are not those of the episodes that ``listed_in`` lists."""
        if not lengths:
            raise InputError(f"{self.folder / listed_in} lists no episodes; record some before reading the data set")
        for key, found in (("total_episodes", len(lengths)), ("total_frames", sum(lengths))):
            if self.document.get(key, found) != found:
                raise InputError(f"{self.file} says {key} is {self.document[key]}, but {listed_in} lists {found}")


def read_info(folder: Path) -> LeRobotInfo:
    """The checked contents of ``meta/info.json``."""
    document = read_json(folder / INFO)
    fps = document.get("fps")
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 0 < fps < 1e9:
        raise InputError(f"{folder / INFO}: fps must be a positive number, not {fps!r}")
    features = document.get("features")
    if not isinstance(features, dict):
        raise InputError(f"{folder / INFO}: features must be an object that describes each column, not {features!r}")
    return LeRobotInfo(folder, document, _columns(cast(dict[str, object], features)))


def _columns(features: Mapping[str, object]) -> dict[str, Column]:
    """Every feature that is one row of numbers per control step; pictures, videos, texts and tables are not."""
    columns: dict[str, Column] = {}
    for name, feature in features.items():
        if name in COUNTERS or not isinstance(feature, dict):
            continue
        description = cast(dict[str, object], feature)
        shape = description.get("shape")
        if description.get("dtype") in NUMERIC and isinstance(shape, list) and len(cast(list[object], shape)) == 1:
            width = cast(list[object], shape)[0]
            if isinstance(width, int) and not isinstance(width, bool) and width > 0:
                columns[name] = Column(width, _names(description.get("names"), width))
    return columns


def _names(names: object, width: int) -> tuple[str, ...]:
    if isinstance(names, dict):  # {"motors": [...]} in older recordings, {name: place} in some conversions
        inner = list(cast(dict[str, object], names).values())
        names = inner[0] if len(inner) == 1 and isinstance(inner[0], list) else list(cast(dict[str, object], names))
    if not isinstance(names, list) or len(cast(list[object], names)) != width:
        return ()
    return tuple(str(name) for name in cast(list[object], names))
