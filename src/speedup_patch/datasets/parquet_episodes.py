"""Episodes out of one parquet file of a LeRobot data set, streamed: a few thousand rows are decoded at a time.

The counters are read first and tell where each episode lies; then the columns are decoded and copied straight into
arrays of each episode's own, so that hardly more memory is in use than the episodes themselves take.
"""

# pyright: reportUnknownParameterType=false
# pyarrow ships no types.

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from speedup_patch.datasets.parquet_columns import (
    integers,
    matrix,
    one_line,
    open_parquet,
    refuse_missing,
    refuse_other_types,
)
from speedup_patch.datasets.source import BadEpisode, RawEpisode
from speedup_patch.errors import InputError

ROWS_AT_ONCE = 16384
TIMESTAMP = "timestamp"
COUNTERS = ("episode_index", "frame_index", "task_index")


@dataclass(frozen=True)
class Wanted:
    """What is read from one file: episodes of these lengths, columns of these widths, texts of these tasks."""

    lengths: Mapping[int, int]
    widths: Mapping[str, int]
    tasks: Mapping[int, str]
    listed_in: str
    """Where the lengths were found, for error messages."""
    tasks_in: str


@dataclass
class Run:
    """Neighbouring rows of one episode: ``start`` and ``stop`` in the file, and the values read so far."""

    number: int
    start: int
    stop: int
    task: int
    problem: str = ""
    columns: dict[str, Float[np.ndarray, "T D"]] = field(default_factory=dict[str, np.ndarray])
    timestamps: Float[np.ndarray, " T"] | None = None


def read_file(
    file: Path, wanted: Wanted, listed: Sequence[int], numbers: Sequence[int]
) -> Iterator[RawEpisode | BadEpisode]:
    """These episodes of a file, in the order of its rows; those with a fault come as such.

    ``listed`` are all episodes that should be in the file: rows of any other are a fault too.
    """
    unseen = dict.fromkeys(numbers)
    try:
        with open_parquet(file) as parquet:
            widths = {**wanted.widths, TIMESTAMP: 1}
            refuse_missing(file, parquet.schema_arrow, [*widths, *COUNTERS])
            refuse_other_types(file, parquet.schema_arrow, widths)
            runs = _locate(parquet, file)
            for stray in sorted({run.number for run in runs}.difference(listed)):
                yield BadEpisode(
                    stray, f"{file} has rows of episode {stray}, but {wanted.listed_in} does not place it there"
                )
            for found in _read_runs(parquet, file, wanted, _check(runs, numbers, file, wanted)):
                unseen.pop(found.number, None)
                yield found
    except InputError as error:
        for number in unseen:
            yield BadEpisode(number, f"{error} (episode {number})")


def _locate(parquet: pq.ParquetFile, file: Path) -> list[Run]:
    """Where each episode lies, from the counters alone; a frame index that does not count 0, 1, 2, ... is a problem."""
    runs: list[Run] = []
    row = 0
    for batch in parquet.iter_batches(ROWS_AT_ONCE, columns=list(COUNTERS)):
        episode, frame, task = (integers(batch.column(name), name, file) for name in COUNTERS)
        cuts = [0, *(np.flatnonzero(np.diff(episode)) + 1).tolist(), len(episode)]
        for first, last in pairwise(cuts):
            if first == last:
                continue
            if not runs or runs[-1].number != episode[first]:
                runs.append(Run(int(episode[first]), row + first, row + first, int(task[first])))
            run = runs[-1]
            run.problem = run.problem or _slip(frame[first:last], run, file)
            run.stop = row + last
        row += len(episode)
    return runs


def _slip(frames: Int[np.ndarray, " n"], run: Run, file: Path) -> str:
    """What is wrong with the frame index of rows that go on where the run ends now; empty when nothing is."""
    right = np.arange(run.stop - run.start, run.stop - run.start + len(frames))
    wrong = np.flatnonzero(frames != right)
    if len(wrong) == 0:
        return ""
    return (
        f"{file}: column 'frame_index' must count 0, 1, 2, ... in every episode, "
        f"but it is {frames[wrong[0]]} in episode {run.number}, row {right[wrong[0]]}"
    )


def _check(runs: Sequence[Run], numbers: Sequence[int], file: Path, wanted: Wanted) -> list[Run]:
    """One run for every asked episode, with its problem if it has one; an episode without rows has an empty run."""
    found: dict[int, list[Run]] = {number: [] for number in numbers}
    for run in runs:
        if run.number in found:
            found[run.number].append(run)
    checked: list[Run] = []
    for number, parts in found.items():
        rows, length = sum(run.stop - run.start for run in parts), wanted.lengths[number]
        first = parts[0] if parts else Run(number, 0, 0, -1)
        if rows != length:
            first.problem = f"{file} has {rows} rows of episode {number}, but {wanted.listed_in} says {length}"
        elif len(parts) > 1:
            first.problem = (
                f"{file}: column 'episode_index' must keep the rows of an episode together, "
                f"but those of episode {number} lie in {len(parts)} places"
            )
        elif parts and first.task not in wanted.tasks and not first.problem:
            first.problem = (
                f"{file}: column 'task_index' is {first.task} in episode {number}, "
                f"which {wanted.tasks_in} does not list"
            )
        checked.append(first)
    return sorted(checked, key=lambda run: run.start)


def _read_runs(
    parquet: pq.ParquetFile, file: Path, wanted: Wanted, runs: Sequence[Run]
) -> Iterator[RawEpisode | BadEpisode]:
    """Fills the runs that have no problem yet and yields every run when its last row was read."""
    waiting = list(runs)[::-1]
    for groups, start, stop in _spans(parquet, [run for run in runs if not run.problem]):
        row, fault = start, "its row groups have fewer rows than they say"
        try:
            for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=[*wanted.widths, TIMESTAMP]):
                _fill(runs, batch, row, file, wanted)
                row += batch.num_rows
                while waiting and waiting[-1].stop <= row:
                    yield _finish(waiting.pop(), file, wanted)
        except (OSError, UnicodeDecodeError, MemoryError, pa.ArrowException) as error:
            fault = one_line(error)
        for run in _overlapping(runs, row, stop) if row < stop else ():
            run.problem = run.problem or f"{file} is damaged where episode {run.number} lies: {fault}; copy it again"
    while waiting:
        yield _finish(waiting.pop(), file, wanted)


def _spans(parquet: pq.ParquetFile, runs: Sequence[Run]) -> Iterator[tuple[list[int], int, int]]:
    """(row groups, first row, row after the last): neighbouring groups that are needed, some thousand rows of them."""
    groups: list[int] = []
    start = stop = 0
    for group in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(group).num_rows
        if _overlapping(runs, stop, stop + rows):
            groups.append(group)
        elif groups:
            yield groups, start, stop
            groups = []
        stop += rows
        if groups and stop - start >= ROWS_AT_ONCE:
            yield groups, start, stop
            groups = []
        if not groups:
            start = stop
    if groups:
        yield groups, start, stop


def _overlapping(runs: Sequence[Run], start: int, stop: int) -> Sequence[Run]:
    """The runs, sorted by where they start, that have rows in this stretch."""
    first = bisect_right(runs, start, key=lambda run: run.stop)
    last = bisect_left(runs, stop, lo=first, key=lambda run: run.start)
    return runs[first:last]


def _fill(runs: Sequence[Run], batch: pa.RecordBatch, row: int, file: Path, wanted: Wanted) -> None:
    """Copies a batch that begins at ``row`` of the file to the episodes it belongs to."""
    inside = [run for run in _overlapping(runs, row, row + batch.num_rows) if not run.problem]
    for name, width in {**wanted.widths, TIMESTAMP: 1}.items():
        values, sizes = matrix(batch.column(name), width)
        for run in inside:
            part = slice(max(run.start, row) - row, min(run.stop, row + batch.num_rows) - row)
            if sizes is not None and not run.problem:
                run.problem = _ragged(sizes[part], part.start + row - run.start, run, name, width, file)
            if values is not None and not run.problem:
                place = slice(part.start + row - run.start, part.stop + row - run.start)
                _store(run, name, place, values[part])


def _store(run: Run, name: str, place: slice, values: Num[np.ndarray, "n D"]) -> None:
    rows = run.stop - run.start
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes infinite, and is refused as such
        if name == TIMESTAMP:
            if run.timestamps is None:
                run.timestamps = np.empty(rows)
            run.timestamps[place] = values[:, 0]
            return
        if name not in run.columns:
            run.columns[name] = np.empty((rows, values.shape[1]), dtype=np.float32)
        run.columns[name][place] = values


def _ragged(sizes: Int[np.ndarray, " n"], row: int, run: Run, name: str, width: int, file: Path) -> str:
    wrong = np.flatnonzero(sizes != width)
    if len(wrong) == 0:
        return ""
    return (
        f"{file}: column {name!r} has {sizes[wrong[0]]} values in episode {run.number}, row {row + int(wrong[0])}, "
        f"but meta/info.json says {width}"
    )


def _finish(run: Run, file: Path, wanted: Wanted) -> RawEpisode | BadEpisode:
    """The episode, whose values the run lets go of."""
    if run.problem:
        run.columns, run.timestamps = {}, None
        return BadEpisode(run.number, run.problem)
    columns = {name: run.columns.get(name, np.zeros((0, width), np.float32)) for name, width in wanted.widths.items()}
    timestamps = np.zeros(0) if run.timestamps is None else run.timestamps
    run.columns, run.timestamps = {}, None
    return RawEpisode(run.number, columns, str(file), timestamps, wanted.tasks.get(run.task, ""))
