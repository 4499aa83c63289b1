"""TFRecord files, record by record: each carries checksums, so that damage is found and often stepped over."""

import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from speedup_patch.errors import InputError

HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
MASK_DELTA = 0xA282EAD8


class RecordFile:
    """A TFRecord file that is open; records are found by walking over those before them, once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._size = 0
        self._offsets = [0]
        """Where each record that was walked to begins, and where the next one would."""

    def __enter__(self) -> "RecordFile":
        try:
            self._file = self.path.open("rb")
            self._size = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"{self.path} cannot be opened: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, index: int) -> bytes:
        """The record of this index, its checksum right."""
        while len(self._offsets) <= index:
            place = len(self._offsets) - 1
            self._offsets.append(self._offsets[place] + self._payload_size(place) + HEADER.size + FOOTER.size)
        size = self._payload_size(index)
        payload = self._bytes(self._offsets[index] + HEADER.size, size, index)
        (checksum,) = FOOTER.unpack(self._bytes(self._offsets[index] + HEADER.size + size, FOOTER.size, index))
        if checksum != masked_checksum(payload):
            raise InputError(f"{self.path}: record {index} is damaged: its checksum does not fit its content")
        return payload

    def _payload_size(self, index: int) -> int:
        start = self._offsets[index]
        if start == self._size:
            raise InputError(f"{self.path} ends after {index} records")
        header = self._bytes(start, HEADER.size, index)
        size, checksum = HEADER.unpack(header)
        if checksum != masked_checksum(header[:8]):
            raise InputError(f"{self.path}: record {index} and all after it are lost: its length is damaged")
        if size > self._size - start - HEADER.size - FOOTER.size:
            raise InputError(f"{self.path} is cut short: it ends inside record {index}")
        return size

    def _bytes(self, start: int, size: int, index: int) -> bytes:
        if self._file is None:
            raise ValueError("the file is not open")
        try:
            self._file.seek(start)
            found = self._file.read(size)
        except OSError as error:
            raise InputError(f"{self.path}: record {index} cannot be read: {error.strerror}") from error
        if len(found) != size:
            raise InputError(f"{self.path} is cut short: it ends inside record {index}")
        return found


def masked_checksum(content: bytes) -> int:
    """The CRC-32C of the bytes, rotated and shifted the way TFRecord does."""
    try:
        import google_crc32c
    except ImportError as error:
        raise InputError("reading RLDS needs google-crc32c: pip install 'speedup-patch[rlds]'") from error
    checksum = int(google_crc32c.value(content))
    return (((checksum >> 15) | (checksum << 17)) + MASK_DELTA) & 0xFFFFFFFF
