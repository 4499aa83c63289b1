"""ONNX files run by onnxruntime on one thread."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as failures  # pyright: ignore[reportAttributeAccessIssue]

from speedup_patch.errors import DecisionError, InputError

FAILURES = (
    failures.Fail,
    failures.InvalidArgument,
    failures.InvalidGraph,
    failures.InvalidProtobuf,
    failures.NoSuchFile,
    failures.NotImplemented,
    failures.RuntimeException,
)
"""What onnxruntime raises for a file that is no model, or a model that does not run; they share no base class."""


def compute(session: ort.InferenceSession, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first output of a model; what can go wrong in onnxruntime while a robot runs is a ``DecisionError``."""
    try:
        return np.asarray(session.run(None, dict(feeds))[0])
    except (failures.Fail, failures.RuntimeException) as error:
        raise DecisionError(f"onnxruntime: {error}") from error


def open_session(path: Path, what: str) -> ort.InferenceSession:
    """A session on one thread; ``what`` is named when the file is missing or is no model."""
    if not path.is_file():
        raise InputError(f"{what} {path} does not exist")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except FAILURES as error:
        raise InputError(f"{path} is not a model that onnxruntime can run: {error}") from error
