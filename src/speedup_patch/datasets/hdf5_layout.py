"""Looks inside HDF5 files to see which of the two known layouts they have."""

from pathlib import Path

from speedup_patch.datasets import hdf5_file
from speedup_patch.datasets.aloha_hdf5 import AlohaSource, open_aloha
from speedup_patch.datasets.robomimic_hdf5 import RobomimicSource, open_robomimic
from speedup_patch.errors import InputError

LAYOUTS = "data/demo_*/actions (robomimic, LIBERO), or observations/qpos and action (ALOHA, ACT)"


def open_layout(path: Path) -> RobomimicSource | AlohaSource:
    """The data set in one ``.hdf5`` file or in a folder of them: robomimic, LIBERO, ALOHA or ACT."""
    files = hdf5_file.data_files(path)
    problem: InputError | None = None
    for file in files:
        try:
            with hdf5_file.open_file(file) as content:
                names = hdf5_file.names(content, str(file))
        except InputError as error:
            problem = problem or error
            continue
        if "data" in names:
            return open_robomimic(path, files)
        if "action" in names and "observations" in names:
            return open_aloha(path, files)
        raise InputError(f"{file} has no layout that is known: it holds {', '.join(names) or 'nothing'}, not {LAYOUTS}")
    raise problem or InputError(f"{path} holds no HDF5 file")
