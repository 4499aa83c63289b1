"""What ``inspect``, ``train`` and ``check`` share: the options that say what to read, and the reading itself."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from speedup_patch.errors import InputError

if TYPE_CHECKING:
    from speedup_patch.datasets import Reading
    from speedup_patch.robots import Robot

Datasets = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATASET [DATASET ...]")]
"""The data sets that a command reads, named one after the other."""


@dataclass(frozen=True)
class ReadingOptions:
    """Which part of the data is read; each of several data sets is read in the same way."""

    state: tuple[str, ...] = ()
    """Columns that are the state, side by side, such as observation.state[0:7]; by default what the format suggests."""
    action: tuple[str, ...] = ()
    """Columns that are the action."""
    episodes: str = ""
    """Episodes to read, such as 0:50,60,70: (a range leaves its end out); by default all."""
    tasks: tuple[str, ...] = ()
    """Read only episodes of these tasks: their texts, or patterns such as 'pick*'."""
    control_hz: Annotated[float | None, tyro.conf.arg(name="hz")] = None
    """Control steps per second, where the data does not say or is wrong."""
    skip_bad: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Leave out episodes that cannot be read, and list them."""

    def arguments(self) -> list[str]:
        """The same options as they are typed."""
        typed = {"--state": self.state, "--action": self.action, "--tasks": self.tasks}
        words = [word for option, values in typed.items() if values for word in (option, *values)]
        words += ["--episodes", self.episodes] if self.episodes else []
        words += ["--hz", f"{self.control_hz:g}"] if self.control_hz is not None else []
        return [*words, "--skip-bad"] if self.skip_bad else words

    def read(self, datasets: Sequence[Path], robot: "Robot | None" = None) -> "Reading":
        """The selected episodes; those that had to be left out are listed on stderr."""
        from speedup_patch.datasets import Selection, read_datasets

        reading = read_datasets(datasets, Selection(**asdict(self)), robot)
        if reading.left_out:
            total = len(reading.left_out) + len(reading.demonstrations)
            print(f"left out {len(reading.left_out)} of {total} episodes:", file=sys.stderr)
        for bad in reading.left_out:
            known = bad.problem.startswith(f"episode {bad.number}")
            print(f"  {bad.problem}" if known else f"  episode {bad.number}: {bad.problem}", file=sys.stderr)
        return reading


def robot_at_data_rate(robot: "Robot", reading: "Reading") -> "Robot":
    """The robot at the control frequency of the data."""
    hz = reading.demonstrations.control_hz
    return robot if hz == robot.control_hz else robot.at(hz)


def left_out_json(reading: "Reading") -> list[dict[str, Any]]:
    """The episodes that were left out, and why."""
    return [{"episode": bad.number, "problem": bad.problem} for bad in reading.left_out]


def refuse_other_rate(robot: "Robot", reading: "Reading", patch: Path) -> None:
    """Raises an error when the data was recorded at another control frequency than a patch was trained for."""
    hz = reading.demonstrations.control_hz
    if hz != robot.control_hz:
        raise InputError(f"{patch} was trained for {robot.control_hz:g} Hz, but the data has {hz:g}; train one for it")
