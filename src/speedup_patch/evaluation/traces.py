"""What an episode leaves behind: every state and action, and what became of every chunk, in one small file."""

import hashlib
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Shaped

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError

FOLDER = "traces"
SLUG_LENGTH = 60


@dataclass(frozen=True, eq=False)
class Trace:
    """One episode of T control steps and D decisions: ``states[t]`` was seen before ``actions[t]`` was sent."""

    states: Float[np.ndarray, "moments S"]
    """T + 1 moments: the last was seen after the last action."""
    actions: Float[np.ndarray, "T A"]
    """As sent, in the policy's own precision, so that sending them again repeats the episode."""
    decision_steps: Int[np.ndarray, " D"]
    """The step before which each decision was taken."""
    chunks: Float[np.ndarray, "D n A"]
    """The policy's own chunks, before they were shortened; NaN after the end of one that is shorter than others."""
    positions: Float[np.ndarray, "D l"]
    """Original actions done after each executed action of a chunk; NaN after its end."""
    environment_state: Float[np.ndarray, "moments E"] | None = None

    def __post_init__(self) -> None:
        steps = len(self.actions)
        if steps == 0 or len(self.states) != steps + 1:
            raise InputError(f"a trace of {steps} actions needs one more state, not {len(self.states)}")
        if (np.diff(self.decision_steps, prepend=-1, append=steps) <= 0).any() or self.decision_steps[0] != 0:
            raise InputError(f"decisions must begin at step 0, rise and end before step {steps}: {self.decision_steps}")

    def __len__(self) -> int:
        """T, the control steps that were executed."""
        return len(self.actions)

    @property
    def step_decisions(self) -> Int[np.ndarray, " T"]:
        """The decision that each step belongs to."""
        return np.searchsorted(self.decision_steps, np.arange(len(self)), side="right") - 1

    @property
    def step_rates(self) -> Float[np.ndarray, " T"]:
        """How many original actions each executed action stands for."""
        decisions = self.step_decisions
        rates = np.diff(self.positions, axis=1, prepend=np.zeros((len(self.positions), 1), self.positions.dtype))
        return rates[decisions, np.arange(len(self)) - self.decision_steps[decisions]]


def pad_rows(arrays: Sequence[Float[np.ndarray, "_ ..."]]) -> Float[np.ndarray, "D l ..."]:
    """Arrays of different lengths as one, with NaN after the end of the shorter ones."""
    padded = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), np.nan, np.float32)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded


def scheduler_slug(spec: str) -> str:
    """The folder name of a scheduler's traces: readable, and different for every scheduler."""
    readable = re.sub(r"[^A-Za-z0-9.-]", "_", spec)[-SLUG_LENGTH:]
    return f"{readable}-{hashlib.sha256(spec.encode()).hexdigest()[:8]}"


def trace_file(run: Path, spec: str, seed: int) -> Path:
    """Where the trace of one episode lies in a run folder."""
    return run / FOLDER / scheduler_slug(spec) / f"{seed}.npz"


def write_trace(run: Path, spec: str, seed: int, trace: Trace) -> None:
    """Writes or replaces the trace of one episode, whole or not at all."""
    arrays = {name: array for name, array in vars(trace).items() if array is not None}
    with write_file_atomically(trace_file(run, spec, seed), overwrite=True) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)


def read_trace(path: Path) -> Trace:
    """The trace in a file; one that is missing, damaged or something else is refused by name."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; `sup eval` writes it unless told --no-traces") from None
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is not a whole trace: {error}") from error
    _check_arrays(arrays, path)
    try:
        return Trace(**arrays)
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error


AXES = {
    "states": ("moments", "S"),
    "actions": ("T", "A"),
    "decision_steps": ("D",),
    "chunks": ("D", "n", "A"),
    "positions": ("D", "l"),
    "environment_state": ("moments", "E"),
}


def _check_arrays(arrays: dict[str, Shaped[np.ndarray, "..."]], path: Path) -> None:
    missing = AXES.keys() - arrays.keys() - {"environment_state"}
    if missing or arrays.keys() - AXES.keys():
        raise InputError(f"{path} is no trace: it holds {sorted(arrays)}, a trace holds {sorted(AXES)}")
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        axes, kind = AXES[name], "i" if name == "decision_steps" else "f"
        fits = array.ndim == len(axes) and array.dtype.kind == kind and array.size > 0
        if not fits or any(sizes.setdefault(axis, size) != size for axis, size in zip(axes, array.shape, strict=True)):
            raise InputError(f"{path} is damaged: {name} is an array of {array.dtype} with shape {array.shape}")
