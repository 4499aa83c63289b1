"""Demonstrations from files and back; the format of a data set is recognised from its path."""

from pathlib import Path

from speedup_patch.data import Demonstrations
from speedup_patch.datasets.reading import Reading as Reading
from speedup_patch.datasets.reading import read_datasets as read_datasets
from speedup_patch.datasets.reading import read_demonstrations as read_demonstrations
from speedup_patch.datasets.recognition import open_source as open_source
from speedup_patch.datasets.selection import Selection as Selection
from speedup_patch.robots import Robot


def write_demonstrations(
    demonstrations: Demonstrations, path: Path, robot: Robot | None = None, overwrite: bool = False
) -> None:
    """Writes a ``.npz`` file if ``path`` ends so, else a LeRobot v3.0 folder whose dimensions ``robot`` names."""
    if path.suffix == ".npz":
        from speedup_patch.datasets.numpy_archive import write_numpy_archive

        return write_numpy_archive(demonstrations, path, overwrite)
    from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3

    return write_lerobot_v3(demonstrations, path, robot, overwrite)
