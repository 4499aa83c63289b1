"""robomimic and LIBERO recordings: ``data/demo_*`` with ``obs/*`` and ``actions``, one file per task in LIBERO."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.datasets import hdf5_file
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

DEMOS, ACTION = "data", "actions"
NOT_COLUMNS = ("next_obs",)
MOST_HZ = 1e6
LIBERO_STATES = (("obs/ee_states", "obs/gripper_states"), ("obs/ee_pos", "obs/ee_ori", "obs/gripper_states"))
"""Position, axis-angle, both fingers: 8 numbers, in either of the two ways LIBERO stores them."""
LIBERO_MARK = "bddl_file_content"
"""An attribute that LIBERO's own script writes; recordings that others made again from LIBERO's do not have it."""
OBSERVED = ("obs/", "robot_states")
ROBOMIMIC_ARM = ("obs/robot{}_eef_pos", "obs/robot{}_eef_quat", "obs/robot{}_gripper_qpos")


@dataclass(frozen=True)
class DemoFile:
    """One file: its demonstrations by name, in order, and what its attributes say of all of them."""

    path: Path
    demos: tuple[tuple[str, int | None], ...]
    """(name, length); a file that cannot be read counts as one demonstration, so that it is not left out silently."""
    task: str = ""
    control_hz: float | None = None
    late: bool = False
    """Whether row j of an observation was seen after action j: LIBERO's own script records what ``step`` returns."""
    problem: str = ""


@dataclass(frozen=True)
class RobomimicSource:
    """The demonstrations of all files, numbered one after the other; columns are known from the first few."""

    path: Path
    files: tuple[DemoFile, ...]
    columns: Mapping[str, Column]

    @property
    def control_hz(self) -> float | None:
        rates = {file.control_hz: file.path for file in self.files if file.control_hz is not None}
        if len(rates) > 1:
            listed = ", ".join(f"{rate:g} Hz in {path.name}" for rate, path in rates.items())
            raise InputError(f"{self.path}: its files differ in their control frequency: {listed}; read them apart")
        return next(iter(rates), None)

    @property
    def robot_name(self) -> str:
        widths = tuple(self.columns[name].width for name in (*self.defaults.state, *self.defaults.action))
        if self.defaults.state in LIBERO_STATES and sum(widths) == 8 + 7:
            return "panda_libero"
        return "panda_robomimic" if widths == (3, 4, 2, 7) else ""

    @property
    def defaults(self) -> ColumnChoice:
        arms = [tuple(name.format(arm) for name in ROBOMIMIC_ARM) for arm in range(2)]
        choices = (*LIBERO_STATES, arms[0] + arms[1], arms[0])
        state = next((choice for choice in choices if all(name in self.columns for name in choice)), ())
        return ColumnChoice(state, (ACTION,) if ACTION in self.columns else ())

    @cached_property
    def _places(self) -> tuple[tuple[DemoFile, str, int | None], ...]:
        return tuple((file, name, length) for file in self.files for name, length in file.demos)

    def entries(self) -> Sequence[Entry]:
        return [Entry(number, length, file.task) for number, (file, _, length) in enumerate(self._places)]

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        for file, group in groupby(numbers, key=lambda number: self._places[number][0]):
            wanted = list(group)
            try:
                if file.problem:
                    raise InputError(file.problem)
                with hdf5_file.open_file(file.path) as content:
                    while wanted:
                        yield self._read_demo(content, wanted.pop(0), columns)
            except InputError as error:
                yield from (BadEpisode(number, f"episode {number}: {error}") for number in wanted)

    def _read_demo(self, content: Any, number: int, columns: Sequence[str]) -> RawEpisode | BadEpisode:
        file, name, _ = self._places[number]
        where = f"{file.path}: {DEMOS}/{name}"
        try:
            demo = hdf5_file.find(content, f"{DEMOS}/{name}", str(file.path))
            tables = {
                column: hdf5_file.read_table(demo, column, self.columns[column].width, where) for column in columns
            }
            if file.late:
                tables = {column: _in_step(column, table) for column, table in tables.items()}
        except InputError as error:
            return BadEpisode(number, f"episode {number}: {error}")
        return RawEpisode(number, tables, where, task=file.task)


def open_robomimic(path: Path, files: Sequence[Path]) -> RobomimicSource:
    """The demonstrations in these files, numbered over all of them in natural order."""
    listed = tuple(_list_demos(file) for file in files)
    if all(file.problem for file in listed):
        raise InputError(listed[0].problem)
    return RobomimicSource(path, listed, hdf5_file.merge_columns(_demo_columns(listed)))


def _list_demos(path: Path) -> DemoFile:
    try:
        with hdf5_file.open_file(path) as content:
            demos = hdf5_file.find(content, DEMOS, str(path))
            late = hdf5_file.has_attribute(demos, LIBERO_MARK)
            found = tuple((name, _length(demos, name, late)) for name in hdf5_file.names(demos, f"{path}: {DEMOS}"))
            if not found:
                raise InputError(f"{path}: {DEMOS!r} holds no demonstrations")
            return DemoFile(path, found, _task(demos, path), _control_hz(demos), late)
    except InputError as error:
        return DemoFile(path, (("", None),), problem=str(error))


def _in_step(column: str, table: Float[np.ndarray, "T D"]) -> Float[np.ndarray, "S D"]:
    """The rows that belong together when observations are one step late: the first action has none before it."""
    return table[:-1] if column.startswith(OBSERVED) else table[1:]


def _length(demos: Any, name: str, late: bool) -> int | None:
    try:
        return max(hdf5_file.count_rows(demos, f"{name}/{ACTION}", "") - late, 0)
    except InputError:
        return None


def _demo_columns(files: Sequence[DemoFile]) -> Iterator[dict[str, Column]]:
    for file in files:
        if file.problem:
            continue
        with hdf5_file.open_file(file.path) as content:
            for name, _ in file.demos:
                try:
                    demo = hdf5_file.find(content, f"{DEMOS}/{name}", str(file.path))
                    yield hdf5_file.find_columns(demo, name, ignored=NOT_COLUMNS)
                except InputError:
                    continue


def _task(demos: Any, path: Path) -> str:
    instruction = hdf5_file.json_attribute(demos, "problem_info").get("language_instruction")
    if isinstance(instruction, list) and all(isinstance(part, str) for part in instruction):
        instruction = "".join(instruction)
    if isinstance(instruction, str) and instruction:
        return instruction.strip('"').encode(errors="replace").decode()
    named = re.fullmatch(r"(?:[A-Z_]+SCENE[0-9]+_)?(.+)_demo", path.stem)  # LIBERO names its files after the task
    return named[1].replace("_", " ") if named else ""


def _control_hz(demos: Any) -> float | None:
    settings = hdf5_file.json_attribute(demos, "env_args").get("env_kwargs")
    rate = settings.get("control_freq") if isinstance(settings, dict) else None
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate < MOST_HZ:
        return None
    return float(rate)
