"""ALOHA and ACT recordings: one HDF5 file per episode, with ``observations/qpos`` and ``action``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from speedup_patch.datasets import hdf5_file
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

STATE, ACTION = "observations/qpos", "action"
CONTROL_HZ = 50.0
"""ACT's DT of 0.02 s; the files do not say."""
ALOHA_SIZE = 14
NOT_PER_STEP = ("compress_len",)
"""The sizes of compressed pictures, (cameras, steps)."""


@dataclass(frozen=True)
class AlohaSource:
    """A folder of episodes, or one; columns are known from the first few that can be read."""

    path: Path
    files: tuple[Path, ...]
    columns: Mapping[str, Column]

    @property
    def control_hz(self) -> float:
        return CONTROL_HZ

    @property
    def robot_name(self) -> str:
        sizes = [self.columns[name].width for name in (STATE, ACTION) if name in self.columns]
        return "aloha" if sizes == [ALOHA_SIZE, ALOHA_SIZE] else ""

    @property
    def defaults(self) -> ColumnChoice:
        return ColumnChoice(*((name,) if name in self.columns else () for name in (STATE, ACTION)))

    @cached_property
    def _entries(self) -> tuple[Entry, ...]:
        return tuple(Entry(number, _length(file), "") for number, file in enumerate(self.files))

    def entries(self) -> Sequence[Entry]:
        return self._entries

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        for number in numbers:
            where = str(self.files[number])
            try:
                with hdf5_file.open_file(self.files[number]) as file:
                    tables = {
                        name: hdf5_file.read_table(file, name, self.columns[name].width, where) for name in columns
                    }
            except InputError as error:
                yield BadEpisode(number, f"episode {number}: {error}")
            else:
                yield RawEpisode(number, tables, where)


def open_aloha(path: Path, files: Sequence[Path]) -> AlohaSource:
    """The episodes in these files, numbered in their order."""
    return AlohaSource(path, tuple(files), hdf5_file.merge_columns(_file_columns(files)))


def _file_columns(files: Sequence[Path]) -> Iterator[dict[str, Column]]:
    for file in files:
        try:
            with hdf5_file.open_file(file) as content:
                columns = hdf5_file.find_columns(content, str(file), ignored=NOT_PER_STEP)
        except InputError:
            continue
        yield columns


def _length(file: Path) -> int | None:
    try:
        with hdf5_file.open_file(file) as content:
            return hdf5_file.count_rows(content, ACTION, str(file))
    except InputError:
        return None
