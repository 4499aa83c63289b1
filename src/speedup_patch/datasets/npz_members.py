"""The arrays inside a ``.npz`` file: what they are without reading them, and their values without copying them."""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from numpy.lib import format as npy

from speedup_patch.errors import InputError

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    SyntaxError,
    KeyError,
    OverflowError,
    MemoryError,
    RuntimeError,
)
"""What zipfile and numpy were seen to raise on damaged files."""
LOCAL_HEADER = struct.Struct("<26xHH")
"""The part of a zip member in front of its name and its further fields, which ends with their lengths."""


@dataclass(frozen=True)
class Member:
    """One array of the archive, not read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    order: str
    """C or F: which index runs fastest."""
    offset: int | None
    """Where its values start in the file, None when they are compressed."""

    def load(self) -> Shaped[np.ndarray, "..."]:
        """The values; those that are not compressed are mapped from the file and read when they are looked at."""
        if self.offset is None or prod(self.shape) == 0:
            return self.read()
        with name_damage(self.path):
            mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F" if self.order == "F" else "C")
            return np.asarray(mapped)

    def read(self) -> Shaped[np.ndarray, "..."]:
        """The values in memory, checked against the archive's check sum."""
        with name_damage(self.path), zipfile.ZipFile(self.path) as archive, archive.open(f"{self.name}.npy") as stream:
            values = npy.read_array(stream, allow_pickle=False)
            stream.read()  # the check sum is compared at the very end
            return values


def list_members(path: Path) -> dict[str, Member]:
    """Every array of the archive by its name; an archive that is damaged or holds Python objects is refused."""
    with name_damage(path), zipfile.ZipFile(path) as archive:
        members: dict[str, Member] = {}
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                member = _describe(archive, info, path)
                members[member.name] = member
        return members


@contextmanager
def name_damage(path: Path) -> Generator[None, None, None]:
    """Turns whatever a damaged archive raises into an error that names it."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except DAMAGE as error:
        raise InputError(f"{path} is not a whole .npz file of plain arrays: {error}; write it again") from error


def _describe(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Member:
    with archive.open(info) as stream:
        shape, fortran, dtype = _read_header(stream)
        header_bytes = stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds Python objects")
    # A false shape must not make numpy reserve memory for it.
    if header_bytes + prod(shape) * dtype.itemsize != info.file_size:
        raise ValueError(f"{info.filename} has {info.file_size} bytes, which is not what {dtype} of {shape} takes")
    offset = None
    if info.compress_type == zipfile.ZIP_STORED:
        offset = _first_byte(path, info) + header_bytes
        if offset + prod(shape) * dtype.itemsize > path.stat().st_size:
            raise ValueError(f"{info.filename} ends after the end of the file")
    return Member(path, info.filename.removesuffix(".npy"), shape, dtype, "F" if fortran else "C", offset)


def _read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        return npy.read_array_header_1_0(stream)
    if version == (2, 0):
        return npy.read_array_header_2_0(stream)
    raise ValueError(f"arrays of .npy version {version} are not read")


def _first_byte(path: Path, info: zipfile.ZipInfo) -> int:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name_bytes, further_bytes = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    return info.header_offset + LOCAL_HEADER.size + name_bytes + further_bytes
