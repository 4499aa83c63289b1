"""HDF5 files that are not trusted: what is read stays inside the file, fits in memory, and holds plain numbers."""

# pyright: reportUnknownParameterType=false
# h5py ships no types.

import json
import logging
import math
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.datasets.source import Column
from speedup_patch.errors import InputError

LOG = logging.getLogger(__name__)
"""Every file as it is opened, so that one on which the HDF5 library crashes can be named."""
SUFFIXES = (".hdf5", ".h5")
MOST_BYTES = 2**30
"""Most that one column of one episode may take, so that a false size in a file cannot fill the memory."""
EPISODES_DESCRIBED = 16
"""How many readable episodes tell the columns of a data set; more than one, because one may be damaged."""
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
"""What h5py was seen to raise on damaged files."""


def data_files(path: Path) -> list[Path]:
    """The file itself, or the HDF5 files in a folder in natural order: episode_2 before episode_10."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path} does not exist; it must be an HDF5 file or a folder of them")
    found = [file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file()]
    if not found:
        raise InputError(f"{path} holds no HDF5 file; their names end in {' or '.join(SUFFIXES)}")
    return sorted(found, key=lambda file: natural_order(file.name))


def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """A sorting key that counts: numbers inside a name are compared as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts))


@contextmanager
def open_file(path: Path) -> Generator[Any, None, None]:
    """The ``h5py.File``, for reading only; it is closed when the block ends."""
    try:
        import h5py
    except ImportError as error:
        raise InputError("reading HDF5 needs h5py: pip install 'speedup-patch[hdf5]'") from error
    LOG.debug("%s", path)
    try:
        file = h5py.File(path, "r", locking="best-effort")
    except BlockingIOError as error:
        raise InputError(f"{path} is open for writing in another program; close it there first ({error})") from error
    except DAMAGE as error:
        raise InputError(f"{path} is not a whole HDF5 file: {error}") from error
    try:
        yield file
    finally:
        file.close()


def find(group: Any, name: str, where: str) -> Any:
    """The group or data set of this name, such as ``obs/ee_pos``; links are refused, as they may leave the file."""
    import h5py

    item = group
    for part in name.split("/"):
        try:
            link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
            inner: Any = item[part] if isinstance(link, h5py.HardLink) else None
        except DAMAGE as error:
            raise InputError(f"{where}: {name!r} is damaged: {error}") from error
        if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
            raise InputError(
                f"{where}: {name!r} is a link to {link.path!r}, which is not followed; copy what it points to here"
            )
        if inner is None:
            raise InputError(f"{where} lacks {name!r}; it holds {', '.join(names(group, where)) or 'nothing'}")
        item = inner
    return item


def names(group: Any, where: str) -> list[str]:
    """What a group holds, in natural order."""
    import h5py

    if not isinstance(group, h5py.Group):
        raise InputError(f"{where} must be a group, not a {type(group).__name__}")
    try:
        found = [str(name) for name in group]
        "".join(found).encode()  # fails on a name that is not text and could not be shown
        return sorted(found, key=natural_order)
    except DAMAGE as error:
        raise InputError(f"{where}: its list of contents is damaged: {error}") from error


def find_columns(group: Any, where: str, ignored: tuple[str, ...] = ()) -> dict[str, Column]:
    """The columns of numbers in a group and in the groups directly inside it; pictures and what is damaged are not."""
    import h5py

    columns: dict[str, Column] = {}
    for name in names(group, where):
        if name in ignored:
            continue
        try:
            item = find(group, name, where)
            inner = [f"{name}/{part}" for part in names(item, where)] if isinstance(item, h5py.Group) else [name]
        except InputError:
            continue
        for column in inner:
            try:
                columns[column] = Column(_shape(find(group, column, where), column, where)[1])
            except InputError:
                continue
    return columns


def merge_columns(described: Iterable[Mapping[str, Column]]) -> dict[str, Column]:
    """The columns that any of the first few episodes has, each with the width it has there first."""
    merged: dict[str, Column] = {}
    for columns in islice(described, EPISODES_DESCRIBED):
        merged = {**columns, **merged}
    return merged


def has_attribute(item: Any, name: str) -> bool:
    """Whether there is an attribute of this name; it is not read."""
    try:
        return name in item.attrs
    except DAMAGE:
        return False


def json_attribute(item: Any, name: str) -> dict[str, Any]:
    """The JSON object that an attribute holds as text or bytes; empty when it is missing or damaged."""
    try:
        content = item.attrs.get(name)
        text = content.decode() if isinstance(content, bytes) else content
        document = json.loads(text) if isinstance(text, str) else {}
    except (*DAMAGE, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_table(group: Any, name: str, width: int, where: str) -> Float[np.ndarray, "T {width}"]:
    """A column as float32, (rows, ``width``)."""
    dataset = find(group, name, where)
    rows, found = _shape(dataset, name, where)
    if found != width:
        raise InputError(f"{where}: {name!r} has {found} numbers a row, but {width} in the episodes before it")
    try:
        _refuse_missing_storage(dataset, name, where)
        values = np.asarray(dataset[()])
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for what is not finite
            return values.reshape(rows, width).astype(np.float32)
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"{where}: {name!r} cannot be read: {error}") from error


def count_rows(group: Any, name: str, where: str) -> int:
    """How many rows a column has."""
    return _shape(find(group, name, where), name, where)[0]


def _shape(dataset: Any, name: str, where: str) -> tuple[int, int]:
    import h5py

    if not isinstance(dataset, h5py.Dataset):
        raise InputError(f"{where}: {name!r} must be a data set, not a {type(dataset).__name__}")
    try:
        shape, dtype = dataset.shape, dataset.dtype
    except DAMAGE as error:
        raise InputError(f"{where}: {name!r} is damaged: {error}") from error
    if shape is None or len(shape) not in (1, 2) or dtype.kind not in "fiub" or 0 in shape[1:]:
        raise InputError(f"{where}: {name!r} must be numbers (rows, dimensions), not {dtype} of shape {shape}")
    if math.prod(shape) * max(dtype.itemsize, 4) > MOST_BYTES:
        raise InputError(f"{where}: {name!r} claims the shape {shape}, more than {MOST_BYTES >> 20} MiB in one episode")
    return shape[0], shape[1] if len(shape) == 2 else 1


def _refuse_missing_storage(dataset: Any, name: str, where: str) -> None:
    """Raises an error when rows lie in another file or were never written, which HDF5 would fill with zeros."""
    if dataset.is_virtual or dataset.external:
        raise InputError(f"{where}: {name!r} lies in another file, which is not followed; copy it into this one")
    if dataset.chunks is None:
        wanted, stored = dataset.size * dataset.dtype.itemsize, dataset.id.get_storage_size()
        if stored < wanted:
            raise InputError(f"{where}: {name!r} holds {stored} of {wanted} bytes; its recording was not finished")
        return
    if math.prod(dataset.chunks) * dataset.dtype.itemsize > MOST_BYTES:
        raise InputError(f"{where}: {name!r} claims chunks of {dataset.chunks}, more than {MOST_BYTES >> 20} MiB each")
    wanted = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    stored = dataset.id.get_num_chunks()
    if stored < wanted:
        raise InputError(f"{where}: {name!r} holds {stored} of {wanted} chunks; its recording was not finished")
