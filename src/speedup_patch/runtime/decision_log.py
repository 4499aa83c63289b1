"""Every decision as a row of Parquet, for looking back at what a patched robot did."""

import atexit
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError

LOGGER = logging.getLogger("speedup_patch")
ROWS_PER_FILE = 500
FILES_WAITING = 20
"""So many files' worth of decisions are kept for a disk that does not answer; what comes after is lost."""
ONE_WRITER = threading.Lock()
"""Logs of one program write one after the other, for they may share a folder and its numbers."""


@dataclass(frozen=True, eq=False)
class LoggedDecision:
    """One decision: what was seen, what the policy wanted, and what became of it."""

    observation: Float[np.ndarray, " O"]
    """o = (x, change of x), see observations.py."""
    chunk: Float[np.ndarray, "n A"]
    commands: Float[np.ndarray, "l A"]
    """What was sent for the chunk."""
    positions: Float[np.ndarray, " l"]
    """How many of the chunk's actions are done after each command."""
    reason: str | None
    seconds: float
    before: Float[np.ndarray, "M A"]
    """The commands sent last, as many as the world model takes into account."""

    @property
    def executed(self) -> int:
        """How many commands were sent for the chunk's n actions."""
        return len(self.commands)

    @property
    def done(self) -> float:
        """How many of the chunk's actions they do; less than n where only the chunk's beginning was sent."""
        return float(self.positions[-1])


class DecisionLog:
    """A folder of Parquet files, each written whole and beside the control loop, which does not wait for it; a log that
    cannot be written never stops the robot."""

    def __init__(self, folder: Path | str, rows_per_file: int = ROWS_PER_FILE) -> None:
        _pyarrow()
        self.folder = folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.rows_per_file = rows_per_file
        self.lost = 0
        """Decisions that could not be written."""
        self._rows: list[tuple[float, LoggedDecision]] = []
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None
        self._number = self._next_number()
        atexit.register(self.flush)

    def add(self, decision: LoggedDecision) -> None:
        """Remembers a decision, and has a file written when there are enough of them."""
        with self._lock:
            if len(self._rows) >= FILES_WAITING * self.rows_per_file:
                self.lost += 1
                return
            self._rows.append((time.time(), decision))
            busy = self._writer is not None and self._writer.is_alive()
            if len(self._rows) >= self.rows_per_file and not busy:
                self._writer = threading.Thread(target=self.flush, name="decision log", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Writes what is remembered, and waits for it; it also happens when the program ends by itself."""
        with ONE_WRITER:
            with self._lock:
                rows, self._rows = self._rows, []
            if not rows:
                return
            try:
                self._write(rows)
            except Exception as error:  # whatever it is, a robot does not stop for its log
                self.lost += len(rows)
                LOGGER.error("%d decisions could not be logged in %s: %s", len(rows), self.folder, error)

    def _next_number(self) -> int:
        return 1 + max((_number(file) for file in self.folder.glob("decisions-*.parquet")), default=-1)

    @property
    def _file(self) -> Path:
        return self.folder / f"decisions-{self._number:06d}.parquet"

    def _write(self, rows: list[tuple[float, LoggedDecision]]) -> None:
        pa = _pyarrow()
        import pyarrow.parquet as pq

        decisions = [decision for _, decision in rows]
        table = pa.table(
            {
                "time": [moment for moment, _ in rows],
                "observation": _lists(pa, [decision.observation for decision in decisions]),
                "chunk": _lists(pa, [decision.chunk for decision in decisions]),
                "before": _lists(pa, [decision.before for decision in decisions]),
                "commands": _lists(pa, [decision.commands for decision in decisions]),
                "positions": _lists(pa, [decision.positions for decision in decisions]),
                "original": [len(decision.chunk) for decision in decisions],
                "reason": pa.array([decision.reason for decision in decisions], pa.string()),
                "seconds": [decision.seconds for decision in decisions],
            }
        )
        if self._file.exists():  # another log writes to this folder too
            self._number = self._next_number()
        with write_file_atomically(self._file) as unfinished:
            pq.write_table(table, unfinished)
        self._number += 1


def read_decisions(folder: Path) -> list[LoggedDecision]:
    """Every decision of a log, in order."""
    pa = _pyarrow()
    import pyarrow.parquet as pq

    files = sorted(folder.glob("decisions-*.parquet"))
    if not files:
        raise InputError(f"{folder} holds no decision log: there is no decisions-*.parquet in it")
    decisions: list[LoggedDecision] = []
    for file in files:
        try:
            table = pq.read_table(file)
            _refuse_older(table.column_names, file)
            decisions += [_decision(row) for row in table.to_pylist()]
        except InputError:
            raise
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file} is not a whole file of a decision log: {error}") from error
    return decisions


def _refuse_older(columns: list[str], file: Path) -> None:
    if "chunk" in columns and "positions" not in columns:
        raise InputError(
            f"{file} is of an older release, which did not log the commands that were sent: whether a chunk was "
            "shortened or only its beginning sent cannot be told; log again"
        )


def _decision(row: dict[str, Any]) -> LoggedDecision:
    chunk = np.array(row["chunk"], dtype=np.float64).reshape(row["original"], -1)
    commands, before = (
        np.array(row[name], dtype=np.float64).reshape(-1, chunk.shape[1]) for name in ("commands", "before")
    )
    observation, positions = (np.array(row[name], dtype=np.float64) for name in ("observation", "positions"))
    return LoggedDecision(observation, chunk, commands, positions, row["reason"], float(row["seconds"]), before)


def _lists(pa: ModuleType, arrays: list[np.ndarray]) -> object:
    """A column with one list of numbers per array; made without Python's own lists, which would hold up the robot."""
    ends = np.cumsum([0, *(array.size for array in arrays)], dtype=np.int32)
    values = np.concatenate([array.ravel() for array in arrays]).astype(np.float64, copy=False)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values))


def _number(file: Path) -> int:
    digits = file.stem.removeprefix("decisions-")
    return int(digits) if digits.isdecimal() else -1


def _pyarrow() -> ModuleType:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError("the decision log needs pyarrow: pip install 'speedup-patch[log]'") from error
    return pa
