"""Safetensors files of numpy arrays, there whole or not at all, and refusals that say which array is wrong."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]


@runtime_checkable
class HasShape(Protocol):
    """An array or a tensor."""

    @property
    def shape(self) -> Any: ...


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Writes one safetensors file that is there whole or not at all, even when the process is killed."""
    with write_file_atomically(path, overwrite=True) as unfinished:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())


def load_arrays(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays of a safetensors file; a file that is cut short or something else is refused."""
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}") from error


def check_same_shapes(found: Mapping[str, HasShape], expected: Mapping[str, HasShape], what: str) -> None:
    """Raises an error that names ``what`` and the first array that is missing, unknown, or of another shape."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found or name not in expected:
            problem = "lacks" if name not in found else "has an unknown"
            raise InputError(f"{what} {problem} tensor {name!r}; it was made for another network")
        if found[name].shape != expected[name].shape:
            shapes = f"{tuple(found[name].shape)} instead of {tuple(expected[name].shape)}"
            raise InputError(f"{what}: tensor {name!r} has shape {shapes}; it was made for another network")
