"""Opens HDF5 data sets: robomimic, LIBERO, ALOHA and ACT.

The HDF5 library itself crashes, or never returns, on some damaged files. It therefore runs in a process of its own, and
a file that ends or halts that process is reported like any other that cannot be read.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, NoReturn, cast

import numpy as np
from jaxtyping import Float32

from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

WORKER = "speedup_patch.datasets.hdf5_worker"
PATIENCE = 120.0
"""Seconds that looking into one file, or reading one episode, may take."""


class LibraryDiedError(InputError):
    """A file on which the HDF5 library crashed or did not finish."""


@dataclass(frozen=True)
class Hdf5Source:
    """An HDF5 data set as the process that read it describes it."""

    path: Path
    control_hz: float | None
    robot_name: str
    columns: Mapping[str, Column]
    defaults: ColumnChoice
    listed: tuple[Entry, ...]
    patience: float = PATIENCE

    def entries(self) -> Sequence[Entry]:
        return self.listed

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        left = [int(number) for number in numbers]
        while left:  # a worker is started again after the episode that ended it
            with Worker(self.path, left, columns, self.patience) as worker:
                try:
                    while left:
                        yield worker.episode(left[0])
                        left.pop(0)
                except LibraryDiedError as error:
                    yield BadEpisode(left[0], f"episode {left[0]}: {error}")
                    left.pop(0)
                except InputError as error:  # the data set as a whole is no longer what it was
                    yield from (BadEpisode(number, f"episode {number}: {error}") for number in left)
                    return


def open_hdf5(path: Path, patience: float = PATIENCE) -> Hdf5Source:
    """The data set in one ``.hdf5`` file or a folder of them; each file and episode may take ``patience`` seconds."""
    with Worker(path, None, (), patience) as worker:
        found = worker.receive()
    return Hdf5Source(
        path,
        found["control_hz"],
        found["robot_name"],
        {name: Column(width) for name, width in found["columns"].items()},
        ColumnChoice(tuple(found["state"]), tuple(found["action"])),
        tuple(Entry(*entry) for entry in found["entries"]),
        patience,
    )


class Worker:
    """One process that answers one request; it ends with the block."""

    def __init__(self, path: Path, numbers: Sequence[int] | None, columns: Sequence[str], patience: float) -> None:
        self._file = str(path)
        self._request = {"path": str(path), "numbers": numbers, "columns": list(columns)}
        self._patience = patience
        self._problem = ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)

    def __enter__(self) -> "Worker":
        search = os.pathsep.join(part for part in sys.path if part)
        with tempfile.TemporaryFile() as request:
            request.write(json.dumps(self._request).encode())
            request.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER],
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=os.environ | {"PYTHONPATH": search},
            )
        self._answers = cast(BufferedReader, self._process.stdout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._log.close()

    def receive(self) -> dict[str, Any]:
        """The worker's next answer; the files it names in between are signs of life."""
        while True:
            with self._impatience():
                line = self._answers.readline()
            if not line.endswith(b"\n"):
                self._fail()
            message = json.loads(line)
            if "error" in message:
                raise InputError(message["error"])
            if "file" not in message:
                return message
            self._file = message["file"]

    def episode(self, number: int) -> RawEpisode | BadEpisode:
        """The worker's next answer, which is the episode of this number."""
        header = self.receive()
        if "problem" in header:
            return BadEpisode(number, header["problem"])
        tables = {name: self._table(rows, width) for name, (rows, width) in header["shapes"].items()}
        return RawEpisode(number, tables, header["where"], task=header["task"])

    def _table(self, rows: int, width: int) -> Float32[np.ndarray, "{rows} {width}"]:
        table = np.empty((rows, width), dtype=np.float32)
        with self._impatience():
            received = self._answers.readinto(table.reshape(-1).view(np.uint8).data)
        if received != table.nbytes:
            self._fail()
        return table

    @contextmanager
    def _impatience(self) -> Generator[None, None, None]:
        """Ends the worker when the block takes too long; what waits for it then sees the end of its output."""
        watchdog = Timer(self._patience, self._give_up)
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()

    def _give_up(self) -> None:
        self._problem = f"the HDF5 library did not finish within {self._patience:g} s"
        self._process.kill()

    def _fail(self) -> NoReturn:
        """Raises an error that says how the worker ended and which file it had open."""
        status = self._process.wait()
        if status >= 0:
            self._log.seek(0)
            raise RuntimeError(f"{WORKER} ended with status {status}:\n{self._log.read().decode(errors='replace')}")
        problem = self._problem or f"the HDF5 library crashed ({signal.strsignal(-status)})"
        raise LibraryDiedError(f"{self._file} is damaged: {problem} while reading it")
