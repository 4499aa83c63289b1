"""Which columns of numbers an RLDS data set has, from its ``features.json``, and how each is stored in a record."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from speedup_patch.artefacts import read_json
from speedup_patch.datasets.tf_example import Feature
from speedup_patch.errors import InputError

STEPS = "steps"
NUMBERS = ("bool", *(f"float{n}" for n in (16, 32, 64)), *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
ENCODINGS = ("none", "bytes", "zlib")
MOST_NUMBERS = 2**16
"""Most numbers that a row may have, so that a false shape cannot fill the memory."""


@dataclass(frozen=True)
class StepFeature:
    """One column of the steps: ``width`` numbers a row; ``encoding`` is none, bytes or zlib."""

    key: str
    width: int
    dtype: str
    encoding: str = "none"

    def decode(self, example: Mapping[str, Feature], where: str) -> Float32[np.ndarray, "T {self.width}"]:
        """The column of one episode, float32."""
        if self.key not in example:
            raise InputError(f"{where} lacks the column {self.key!r}")
        values = self._numbers(example[self.key], where)
        if len(values) % self.width:
            raise InputError(
                f"{where}: column {self.key!r} holds {len(values)} numbers, which are not rows of {self.width}"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for what is not finite
            return values.reshape(-1, self.width).astype(np.float32)

    def _numbers(self, feature: Feature, where: str) -> Shaped[np.ndarray, " n"]:
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if isinstance(feature, list) and not feature:  # an episode without steps
            return np.zeros(0, dtype=dtype)
        if self.encoding == "none" and not isinstance(feature, list):
            return feature.view(np.uint64) if self.dtype == "uint64" and feature.dtype == np.int64 else feature
        if self.encoding == "none" or not isinstance(feature, list):
            raise InputError(f"{where}: column {self.key!r} must hold {self.dtype}, as features.json says")
        rows = [self._unpack(row, self.width * dtype.itemsize, where) for row in feature]
        return np.frombuffer(b"".join(rows), dtype=dtype)

    def _unpack(self, row: bytes, size: int, where: str) -> bytes:
        try:
            content = zlib.decompressobj().decompress(row, size + 1) if self.encoding == "zlib" else row
        except zlib.error as error:
            raise InputError(f"{where}: column {self.key!r} cannot be decompressed: {error}") from error
        if len(content) != size:
            raise InputError(f"{where}: a row of column {self.key!r} must have {size} bytes")
        return content


def read_features(file: Path) -> dict[str, StepFeature]:
    """The columns of numbers that every step has, by names such as ``observation/state``; the rest is left out."""
    document = read_json(file)
    if "featuresDict" not in document:
        raise InputError(f"{file} must hold featuresDict, as tensorflow-datasets 4.5 and later write it")
    features = _inner(document, "featuresDict", "features")
    if STEPS not in features:
        raise InputError(f"{file}: an RLDS data set needs the feature {STEPS!r}; this one has {', '.join(features)}")
    step = _inner(features[STEPS], "sequence", "feature")
    if "featuresDict" not in step:
        raise InputError(f"{file}: {STEPS!r} must be a sequence of feature dictionaries")
    try:
        return dict(_walk(step, ""))
    except RecursionError:
        raise InputError(f"{file}: its features are nested too deeply") from None


def _walk(feature: object, name: str) -> Iterator[tuple[str, StepFeature]]:
    for part, inner in _inner(feature, "featuresDict", "features").items():
        path = f"{name}/{part}" if name else part
        yield from _walk(inner, path)
        tensor = _inner(inner, "tensor")
        shape, encoding = _shape(tensor), tensor.get("encoding", "none")
        if shape is None or len(shape) > 1 or tensor.get("dtype") not in NUMBERS or encoding not in ENCODINGS:
            continue
        width = shape[0] if shape else 1
        if 0 < width <= MOST_NUMBERS and path.isprintable():
            yield path, StepFeature(f"{STEPS}/{path}", width, tensor["dtype"], encoding)


def _shape(tensor: Mapping[str, Any]) -> list[int] | None:
    dimensions = _inner(tensor, "shape").get("dimensions", [])
    return [_whole(size) for size in dimensions] if isinstance(dimensions, list) else None


def _whole(size: object) -> int:
    """A size that JSON holds as text or as a number; -1 where it is neither, as TFDS does for an unknown one."""
    text = str(size)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _inner(document: object, *path: str) -> dict[str, Any]:
    """The object at this path of a JSON document; empty when there is none."""
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
