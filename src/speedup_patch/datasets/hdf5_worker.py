"""The process that touches HDF5 files on behalf of ``hdf5.py``: one request in, episodes out, all through pipes.

A request is JSON, ``{"path": ..., "numbers": [...], "columns": [...]}``; without numbers the answer describes the data
set. Every answer is one line of JSON; an episode's line is followed by its columns as raw float32. In between, the
worker names every file as it opens it.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from speedup_patch.datasets import hdf5_file
from speedup_patch.datasets.hdf5_layout import open_layout
from speedup_patch.datasets.source import RawEpisode, Source
from speedup_patch.errors import InputError


def answer(request: dict[str, Any], output: BinaryIO) -> None:
    """Writes everything that was asked for, or what is wrong with the data set."""
    try:
        source = open_layout(Path(request["path"]))
        if request["numbers"] is None:
            _send(output, describe(source))
            return
        for episode in source.read(request["numbers"], request["columns"]):
            if isinstance(episode, RawEpisode):
                shapes = {name: table.shape for name, table in episode.columns.items()}
                _send(output, {"where": episode.where, "task": episode.task, "shapes": shapes})
                for table in episode.columns.values():
                    output.write(np.ascontiguousarray(table, dtype=np.float32).data)
            else:
                _send(output, {"problem": episode.problem})
            output.flush()
    except InputError as error:
        _send(output, {"error": str(error)})


def describe(source: Source) -> dict[str, Any]:
    """Everything a ``Source`` says before its rows are read."""
    return {
        "control_hz": source.control_hz,
        "robot_name": source.robot_name,
        "columns": {name: column.width for name, column in source.columns.items()},
        "state": source.defaults.state,
        "action": source.defaults.action,
        "entries": [(entry.number, entry.length, entry.task) for entry in source.entries()],
    }


class FileNames(logging.Handler):
    """Sends the name of every file that is opened."""

    def __init__(self, output: BinaryIO) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        _send(self._output, {"file": record.getMessage()})


def _send(output: BinaryIO, message: dict[str, Any]) -> None:
    output.write(json.dumps(message).encode() + b"\n")
    output.flush()


if __name__ == "__main__":
    hdf5_file.LOG.addHandler(FileNames(sys.stdout.buffer))
    hdf5_file.LOG.setLevel(logging.DEBUG)
    answer(json.load(sys.stdin), sys.stdout.buffer)
