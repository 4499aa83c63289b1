"""Which format a data set has, told from its path."""

from pathlib import Path

from speedup_patch.artefacts import read_json
from speedup_patch.datasets.source import Source
from speedup_patch.errors import InputError

FORMATS = (
    "a LeRobot folder (v3.0, v2.1), an HDF5 file or a folder of them (robomimic, LIBERO, ALOHA), "
    "an RLDS folder, or a .npz file (docs/formats.md)"
)
HDF5_SUFFIXES = (".hdf5", ".h5")


def open_source(path: Path) -> Source:
    """The data set at ``path``, opened; a format's library is imported only when it is needed."""
    if not path.exists():
        raise InputError(f"{path} does not exist; a data set is {FORMATS}")
    if path.is_dir():
        return _open_folder(path)
    if path.suffix == ".npz":
        from speedup_patch.datasets.numpy_archive import NumpyArchive

        return NumpyArchive(path)
    if path.suffix in HDF5_SUFFIXES:
        from speedup_patch.datasets.hdf5 import open_hdf5

        return open_hdf5(path)
    raise InputError(f"{path} is of a format that is not known; a data set is {FORMATS}")


def _open_folder(path: Path) -> Source:
    if (path / "meta" / "info.json").exists():
        return _open_lerobot(path)
    if _is_rlds(path):
        from speedup_patch.datasets.rlds import open_rlds

        return open_rlds(path)  # pyright: ignore[reportReturnType]  # a cached_property is not seen to be a property
    if any(file.suffix in HDF5_SUFFIXES for file in path.iterdir()):
        from speedup_patch.datasets.hdf5 import open_hdf5

        return open_hdf5(path)
    raise InputError(
        f"{path} holds no data set that is known: no meta/info.json (LeRobot), no dataset_info.json (RLDS), "
        f"no .hdf5 files; a data set is {FORMATS}"
    )


def _is_rlds(path: Path) -> bool:
    """TFDS keeps a data set in NAME/VERSION; users name either of the two, or the folder above."""
    names = ("dataset_info.json", "features.json")
    return any(next(path.glob(above + name), None) for above in ("", "*/", "*/*/") for name in names)


def _open_lerobot(path: Path) -> Source:
    version = str(read_json(path / "meta" / "info.json").get("codebase_version"))
    if version.startswith("v3."):
        from speedup_patch.datasets.lerobot_v3 import LeRobotV3

        return LeRobotV3(path)
    if version.startswith("v2."):
        from speedup_patch.datasets.lerobot_v21 import LeRobotV21

        return LeRobotV21(path)
    raise InputError(f"{path / 'meta/info.json'}: codebase_version must be v3.0, v2.1 or v2.0, not {version}")
