"""Policies we can load by a short text such as ``onnx:FILE``."""

from collections.abc import Callable
from pathlib import Path

from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy
from speedup_patch.policies.onnx import OnnxPolicy

LOADERS: dict[str, Callable[[str], ChunkPolicy]] = {"onnx": lambda rest: OnnxPolicy(Path(rest))}


def load_policy(spec: str) -> ChunkPolicy:
    """The policy that ``KIND:ADDRESS`` names."""
    kind, _, rest = spec.partition(":")
    if kind not in LOADERS or not rest:
        known = ", ".join(f"{name}:..." for name in LOADERS)
        raise InputError(f"unknown policy {spec!r}; a policy is written {known}")
    return LOADERS[kind](rest)
