"""openpi's messages: msgpack maps whose arrays are maps with byte keys ``__ndarray__``, ``data``, ``dtype``, ``shape``.

A message is never decoded whole. It is walked entry by entry, and only the values that are asked for are read, so that
all other bytes can pass as they came and a hostile message cannot make us allocate much more than its own size.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from jaxtyping import Shaped

from speedup_patch.errors import InputError

MAX_ENTRIES = 4096
"""Entries in one map: the walk over them is Python, so it must stay short."""
MAX_SMALL_VALUE = 65536
"""Bytes of any value that is not an array's data: what msgpack builds from it can be 70 times as large."""
MAX_DIMENSIONS = 32
PLAIN_DTYPE = re.compile(r"[<>|][biufmMSU][1-9][0-9]{0,8}(\[[0-9a-zA-Z]{1,8}\])?")
"""What ``dtype.str`` gives for numbers, times and text; no objects, no structures, no sub-arrays."""


@dataclass(frozen=True)
class Entries:
    """Where the entries of one map lie in its message."""

    header: int
    """Bytes of the map's own header."""
    values: dict[str | bytes, slice]


def scan(message: bytes, what: str) -> Entries:
    """Where every value of the map ``message`` lies; an error names ``what`` when it is not one whole map."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(message), 1))
    unpacker.feed(message)
    values: dict[str | bytes, slice] = {}
    try:
        count = unpacker.read_map_header()
        header = unpacker.tell()
        for _ in range(_checked_count(count, what)):
            start = unpacker.tell()
            unpacker.skip()
            middle = unpacker.tell()
            unpacker.skip()
            key = _read_key(message[start:middle], what)
            if key in values:
                raise InputError(f"{what} has the key {key!r} twice")
            values[key] = slice(middle, unpacker.tell())
        end = unpacker.tell()
    except InputError:
        raise
    except (msgpack.UnpackException, ValueError) as error:
        raise InputError(f"{what} is not a msgpack map: {error or type(error).__name__}") from error
    if end != len(message):
        raise InputError(f"{what} has {len(message) - end} bytes after its end")
    return Entries(header, values)


def with_entry(message: bytes, entries: Entries, key: str, value: bytes) -> bytes:
    """The map with ``key`` set to an already packed value, every other byte as it was."""
    place = entries.values.get(key)
    if place is not None:
        return message[: place.start] + value + message[place.stop :]
    header = msgpack.Packer().pack_map_header(len(entries.values) + 1)
    return header + message[entries.header :] + msgpack.packb(key) + value


def pack(value: Any) -> bytes:
    """The bytes that openpi's own packer gives for ``value``: plain values, arrays, numpy scalars, or maps of them."""
    packed: bytes = msgpack.packb(value, default=_pack_numpy)  # pyright: ignore[reportAssignmentType]
    return packed


def read_array(packed: bytes, what: str) -> Shaped[np.ndarray, "..."]:
    """The array, number or list of numbers that ``packed`` holds; arrays are read-only views."""
    if _is_map(packed):
        return _read_numpy(packed, what)
    value = _read_small(packed, what)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{what} is not an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is not an array of numbers but {type(value).__name__}")
    return array


def _pack_numpy(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "VOc":
        raise InputError(f"arrays of {value.dtype} cannot be sent")
    if isinstance(value, np.ndarray):
        return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise InputError(f"{type(value).__name__} cannot be sent")


def _read_numpy(packed: bytes, what: str) -> Shaped[np.ndarray, "..."]:
    values = {key: packed[place] for key, place in scan(packed, what).values.items()}
    missing = {b"data", b"dtype"} - values.keys()
    if missing or not {b"__ndarray__", b"__npgeneric__"} & values.keys():
        raise InputError(f"{what} is a map but not an array: its keys are {list(values)[:8]}")
    dtype = _read_dtype(values[b"dtype"], what)
    if b"__ndarray__" not in values:
        return _read_scalar(values[b"data"], dtype, what)
    if values[b"data"][0] not in (0xC4, 0xC5, 0xC6):
        raise InputError(f"{what}: the data of an array must be binary")
    shape = _read_shape(values.get(b"shape", b"\xc0"), what)
    data: bytes = msgpack.unpackb(values[b"data"])
    if math.prod(shape) * dtype.itemsize != len(data):
        raise InputError(f"{what}: {len(data)} bytes of data do not fill shape {shape} of {dtype}")
    try:
        return np.ndarray(shape, dtype, buffer=data)
    except ValueError as error:
        raise InputError(f"{what}: shape {shape} is impossible: {error}") from error


def _read_scalar(packed: bytes, dtype: np.dtype[Any], what: str) -> Shaped[np.ndarray, ""]:
    value = _read_small(packed, what)
    if dtype.kind not in "biuf" or not isinstance(value, bool | int | float):
        raise InputError(f"{what}: {dtype} of a {type(value).__name__} is not a number")
    try:
        return np.asarray(dtype.type(value))
    except OverflowError as error:
        raise InputError(f"{what}: {value} does not fit {dtype}") from error


def _read_dtype(packed: bytes, what: str) -> np.dtype[Any]:
    text = _read_small(packed, what)
    if not isinstance(text, str) or not PLAIN_DTYPE.fullmatch(text):
        raise InputError(f"{what}: dtype {str(text)[:40]!r} is not a plain one such as '<f4'")
    try:
        return np.dtype(text)
    except TypeError as error:
        raise InputError(f"{what}: numpy knows no dtype {text!r}") from error


def _read_shape(packed: bytes, what: str) -> tuple[int, ...]:
    shape = _read_small(packed, what)
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise InputError(f"{what}: the shape must be a list of at most {MAX_DIMENSIONS} sizes")
    if any(type(size) is not int or size < 0 for size in shape):
        raise InputError(f"{what}: the shape {shape[:8]} holds something other than sizes")
    return tuple(shape)


def _read_small(packed: bytes, what: str) -> Any:
    if len(packed) > MAX_SMALL_VALUE:
        raise InputError(f"{what} holds a value of {len(packed)} bytes outside of an array's data")
    try:
        return msgpack.unpackb(packed)
    except (msgpack.UnpackException, ValueError) as error:
        raise InputError(f"{what} cannot be read: {error or type(error).__name__}") from error


def _read_key(packed: bytes, what: str) -> str | bytes:
    key = _read_small(packed, what)
    if not isinstance(key, str | bytes):
        raise InputError(f"{what} has a key that is not text but {type(key).__name__}")
    return key


def _checked_count(count: int, what: str) -> int:
    if count > MAX_ENTRIES:
        raise InputError(f"{what} has {count} entries; at most {MAX_ENTRIES} are read")
    return count


def _is_map(packed: bytes) -> bool:
    return packed[0] & 0xF0 == 0x80 or packed[0] in (0xDE, 0xDF)
