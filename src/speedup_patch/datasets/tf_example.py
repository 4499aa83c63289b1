"""Decodes ``tf.train.Example`` messages with numpy alone: only the features that are asked for, pictures untouched.

The messages are nested protocol buffers: Example {1: Features {1: entry {1: name, 2: Feature}, ...}}, and a Feature is
one of {1: BytesList, 2: FloatList, 3: Int64List}, each of which is {1: values}.
"""

from collections.abc import Collection, Iterator

import numpy as np
from jaxtyping import Float32, Int64, UInt8

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10
Feature = list[bytes] | Float32[np.ndarray, " n"] | Int64[np.ndarray, " n"]


class MalformedError(ValueError):
    """The bytes are no ``tf.train.Example``."""


def decode_example(message: bytes, wanted: Collection[str]) -> dict[str, Feature]:
    """The wanted features of an Example that it has, by name."""
    found: dict[str, Feature] = {}
    for features in _submessages(memoryview(message)):
        for entry in _submessages(features):
            name, feature = b"", memoryview(b"")
            for number, value in _fields(entry):
                if number == 1 and isinstance(value, memoryview):
                    name = bytes(value)
                elif number == 2 and isinstance(value, memoryview):
                    feature = value
            key = name.decode("utf-8", errors="replace")
            if key in wanted:
                found[key] = _decode_feature(feature)
    return found


def _decode_feature(message: memoryview) -> Feature:
    decoded: Feature = []
    for number, value in _fields(message):
        if not isinstance(value, memoryview):
            raise MalformedError(f"a feature's field {number} is not a list")
        if number == 1:
            decoded = [bytes(part) for part in _submessages(value)]
        elif number == 2:
            decoded = _floats(value)
        elif number == 3:
            decoded = _integers(value)
    return decoded


def _floats(message: memoryview) -> Float32[np.ndarray, " n"]:
    parts: list[bytes] = []
    for number, value in _fields(message):
        if number != 1 or not isinstance(value, memoryview) or len(value) % 4:
            raise MalformedError("a list of floats holds something else")
        parts.append(bytes(value))
    return np.frombuffer(b"".join(parts), dtype="<f4").astype(np.float32)


def _integers(message: memoryview) -> Int64[np.ndarray, " n"]:
    parts: list[Int64[np.ndarray, " n"]] = []
    for number, value in _fields(message):
        if number != 1:
            raise MalformedError("a list of integers holds something else")
        if isinstance(value, memoryview):
            parts.append(_unpack_varints(np.frombuffer(value, dtype=np.uint8)))
        else:
            parts.append(np.array([value], dtype=np.uint64).view(np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _unpack_varints(packed: UInt8[np.ndarray, " b"]) -> Int64[np.ndarray, " n"]:
    """Whole numbers from seven bits a byte, the low ones first, the top bit set on all but the last byte of each."""
    if len(packed) == 0:
        return np.zeros(0, dtype=np.int64)
    ends = np.flatnonzero(packed < 0x80) + 1
    if len(ends) == 0 or ends[-1] != len(packed):
        raise MalformedError("a packed integer is cut short")
    starts = np.concatenate([[0], ends[:-1]])
    places = np.arange(len(packed)) - np.repeat(starts, ends - starts)
    if places.max() >= LONGEST_VARINT:
        raise MalformedError("a packed integer is too long")
    bits = (packed & np.uint8(0x7F)).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)


def _submessages(message: memoryview) -> Iterator[memoryview]:
    for number, value in _fields(message):
        if number == 1 and isinstance(value, memoryview):
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """(number, content) of every field; the bytes of a fixed-size number are left as they are."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == BYTES:
            size, place = _varint(message, place)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise MalformedError(f"wire type {kind} is not known")
        if size > len(message) - place:
            raise MalformedError("a field is cut short")
        yield number, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(LONGEST_VARINT):
        if place + shift >= len(message):
            raise MalformedError("a number is cut short")
        byte = message[place + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + shift + 1
    raise MalformedError("a number is too long")
