"""Getting LIBERO ready: no questions on import, its scene assets, and its files of initial states."""

# LIBERO and robosuite have no types.
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false

import importlib.util
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.libero_tasks import SUITE_FOLDERS, LiberoTask
from speedup_patch.errors import InputError

ASSETS_VARIABLE = "SPEEDUP_PATCH_LIBERO_ASSETS"
"""Environment variable that names a folder of LIBERO's scene assets; without it LIBERO looks beside itself, then
downloads them."""

CONFIG_VARIABLE = "LIBERO_CONFIG_PATH"


@cache
def prepare_libero() -> None:
    """Makes LIBERO's modules safe to import: it finds a configuration, and its assets are there."""
    _write_config(_package_folder())
    import libero.libero as library  # pyright: ignore[reportMissingImports]

    folder = Path(os.environ.get(ASSETS_VARIABLE) or library.get_assets_path())
    if not (folder / "scenes").is_dir():
        raise InputError(
            f"LIBERO's scene assets are not in {folder}: set {ASSETS_VARIABLE} to the folder that holds 'scenes', or "
            "let LIBERO download them (pip install huggingface-hub)"
        )
    library._assets_path_cache = str(folder)  # pyright: ignore[reportPrivateUsage]


def task_file(task: LiberoTask) -> Path:
    """The task's definition in BDDL."""
    return _package_folder() / "bddl_files" / SUITE_FOLDERS[task.suite] / f"{task.file}.bddl"


@cache
def initial_states(task: LiberoTask) -> Float[np.ndarray, "50 N"]:
    """LIBERO's 50 initial states of a task: time, then MuJoCo's qpos and qvel."""
    import _codecs

    import torch

    # The files hold one NumPy array. Only the four names that rebuild it may be used, so nothing else can run.
    rebuild = (np._core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct")  # pyright: ignore[reportPrivateUsage]
    allowed: list[Any] = [rebuild, np.ndarray, np.dtype, np.dtypes.Float64DType, _codecs.encode]
    with torch.serialization.safe_globals(allowed):
        path = _package_folder() / "init_files" / SUITE_FOLDERS[task.suite] / f"{task.file}.pruned_init"
        return np.asarray(torch.load(path, weights_only=True), dtype=np.float64)


def _package_folder() -> Path:
    found = importlib.util.find_spec("libero")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'libero'", name="libero")
    return Path(next(iter(found.submodule_search_locations))) / "libero"


def _write_config(package: Path) -> None:
    """LIBERO asks on standard input where to keep data unless it finds a configuration file."""
    if (Path(os.environ.get(CONFIG_VARIABLE, "~/.libero")).expanduser() / "config.yaml").exists():
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "speedup_patch" / "libero"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        "benchmark_root": package,
        "bddl_files": package / "bddl_files",
        "init_states": package / "init_files",
        "datasets": folder / "datasets",
        "assets": package / "assets",
    }
    # JSON is YAML, and needs no further package here.
    (folder / "config.yaml").write_text(json.dumps({name: str(path) for name, path in paths.items()}))
    os.environ[CONFIG_VARIABLE] = str(folder)
