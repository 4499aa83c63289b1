"""Any chunk policy exported to ONNX, run on one thread by onnxruntime.

The file's inputs are named like the observation's keys (``state``, ``environment_state``, ...), float32 with a leading
batch dimension, un-normalised. Its first output is the chunk, (batch, n, A), un-normalised.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.interfaces import Observation
from speedup_patch.onnx_files import open_session


class OnnxPolicy:
    """A ChunkPolicy from one ONNX file."""

    def __init__(self, path: Path) -> None:
        self._session = open_session(path, "policy file")
        self.path = path
        self.metadata: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self._inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self._output: str = self._session.get_outputs()[0].name

    def infer(self, observation: Observation) -> Float[np.ndarray, "n A"]:
        """The chunk, float64."""
        feeds: dict[str, np.ndarray] = {}
        for name, shape in self._inputs.items():
            if name not in observation:
                raise InputError(f"policy {self.path} asks for {name!r}; the observation has {sorted(observation)}")
            value = np.asarray(observation[name], dtype=np.float32)
            if value.shape != tuple(shape[1:]):
                raise InputError(f"policy {self.path} takes {name!r} of shape {tuple(shape[1:])}, not {value.shape}")
            feeds[name] = value[None]
        chunks = np.asarray(self._session.run([self._output], feeds)[0])
        return chunks[0].astype(np.float64)

    def reset(self) -> None:
        pass
