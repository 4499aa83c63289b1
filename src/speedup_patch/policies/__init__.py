"""Policies we can load by a short text such as ``onnx:FILE``."""

from collections.abc import Callable
from pathlib import Path

from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy
from speedup_patch.policies.onnx import OnnxPolicy

ASSETS = Path(__file__).parents[1] / "assets"


def load_bundled(name: str) -> ChunkPolicy:
    """A policy that comes with the package, named after its task."""
    path = ASSETS / f"act_{name.replace('/', '_')}.onnx"
    if not path.is_file():
        known = sorted(file.stem.removeprefix("act_").replace("_", "/", 1) for file in ASSETS.glob("act_*.onnx"))
        raise InputError(f"no policy for {name!r} comes with the package; there is one for: {', '.join(known)}")
    return OnnxPolicy(path)


LOADERS: dict[str, Callable[[str], ChunkPolicy]] = {
    "onnx": lambda rest: OnnxPolicy(Path(rest)),
    "bundled": load_bundled,
}


def load_policy(spec: str) -> ChunkPolicy:
    """The policy that ``KIND:ADDRESS`` names."""
    kind, _, rest = spec.partition(":")
    if kind not in LOADERS or not rest:
        known = ", ".join(f"{name}:..." for name in LOADERS)
        raise InputError(f"unknown policy {spec!r}; a policy is written {known}")
    return LOADERS[kind](rest)
