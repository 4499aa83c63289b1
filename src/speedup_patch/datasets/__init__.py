"""Demonstrations from files and back: LeRobot v3.0 folders and ``.npz`` archives, recognised by their path."""

from pathlib import Path

from speedup_patch.data import Demonstrations
from speedup_patch.datasets.numpy_archive import read_numpy_archive, write_numpy_archive
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot

FORMATS = "a LeRobot v3.0 folder or a .npz file (docs/formats.md)"


def read_demonstrations(path: Path) -> Demonstrations:
    """Every episode of the data set at ``path``, whose format is recognised."""
    if _is_archive(path):
        return read_numpy_archive(path)
    from speedup_patch.datasets.lerobot_v3 import read_lerobot_v3  # so that archives need numpy alone

    return read_lerobot_v3(path)


def read_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(state names, action names), one per dimension; empty where the data set does not name them."""
    if _is_archive(path):
        return (), ()
    from speedup_patch.datasets import lerobot_v3

    return lerobot_v3.read_names(path)


def write_demonstrations(
    demonstrations: Demonstrations, path: Path, robot: Robot | None = None, overwrite: bool = False
) -> None:
    """Writes a ``.npz`` file if ``path`` ends so, else a LeRobot v3.0 folder whose dimensions ``robot`` names."""
    if path.suffix == ".npz":
        return write_numpy_archive(demonstrations, path, overwrite)
    from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3

    return write_lerobot_v3(demonstrations, path, robot, overwrite)


def _is_archive(path: Path) -> bool:
    """True for an archive, False for a LeRobot folder; anything else is refused."""
    if not path.exists():
        raise InputError(f"{path} does not exist; a data set is {FORMATS}")
    if path.is_dir():
        if not (path / "meta" / "info.json").exists():
            raise InputError(f"{path} is not a LeRobot data set: it has no meta/info.json; a data set is {FORMATS}")
        return False
    if path.suffix != ".npz":
        raise InputError(f"{path} is of a format that is not known; a data set is {FORMATS}")
    return True
