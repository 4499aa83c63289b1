"""One training loop for every network of the package: held-out evaluation, early stopping, and resuming after a kill.

A learner owns its networks, optimisers and data; the loop owns when things happen. Nothing the loop does depends on
hidden random state: the batch of step i follows from (seed, i), so a resumed run ends with the same weights, bit for
bit, as one that was never interrupted (on CPU; CUDA kernels may not repeat themselves exactly).
"""

import json
import math
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int

from speedup_patch.array_files import check_same_shapes
from speedup_patch.errors import InputError
from speedup_patch.reporting import HELD_OUT, Report, silent
from speedup_patch.tensor_files import load_tensors, save_tensors

BATCHES_AT_ONCE = 256
"""Batches drawn and sent to the device together, so that the device need not wait for every one."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""With either of these a user says himself how many threads torch may use."""

THREADS_WHEN_IMPORTED = torch.get_num_threads()
"""What torch takes by itself; another number later on is one that somebody has set."""

SECONDS_BETWEEN_REPORTS = 1.0
"""How often the steps between two evaluations are told of."""


@dataclass(frozen=True)
class LoopConfig:
    """How long to train, and on what batches."""

    steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 1e-3
    evaluate_every: int = 250
    patience: int = 0
    """Evaluations without improvement before stopping; 0 means never."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate must be positive, not {self.learning_rate}")
        if self.patience < 0 or self.seed < 0:
            raise InputError(f"patience and seed must not be negative, got {self.patience} and {self.seed}")


@runtime_checkable
class Learner(Protocol):
    """Something that gets better one batch at a time."""

    def update(self, batch: Int[torch.Tensor, " B"]) -> dict[str, torch.Tensor]:
        """Takes one gradient step on these sample indices and returns the detached losses, left on the device."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Figures on held-out data; ``loss`` decides which weights are best."""
        ...

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything that changes during training: weights, optimiser moments, target networks, counters."""
        ...

    def load_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Comes back to what ``tensors`` gave."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """One look at the held-out data: ``training`` holds the mean losses since the look before."""

    step: int
    training: Mapping[str, float]
    held_out: Mapping[str, float]


History = list[Evaluation]


@dataclass
class _Progress:
    """Where a run stands: what a checkpoint holds besides the learner's current tensors."""

    step: int
    history: History
    best: dict[str, torch.Tensor]

    @property
    def stale(self) -> int:
        """Evaluations since the best one."""
        losses = [evaluation.held_out["loss"] for evaluation in self.history]
        return len(losses) - 1 - int(np.argmin(losses)) if losses else 0


def train(
    learner: Learner,
    samples: int,
    config: LoopConfig,
    *,
    stage: str,
    device: torch.device,
    checkpoint: Path | None = None,
    made_for: Mapping[str, int] | None = None,
    resume: bool = False,
    report: Report = silent,
) -> History:
    """Trains on batches of sample indices below ``samples``, loads the best weights, and returns every evaluation.

    A checkpoint is written at every evaluation; with ``resume`` a run goes on from it when it is there, and was made
    with the same settings: ``config``, and whatever else the caller names in ``made_for``.
    """
    if samples < 1:
        raise InputError(f"{stage}: there is nothing to train on")
    progress = _Progress(0, [], {})
    settings = {"stage": stage, "samples": samples, **(made_for or {}), **asdict(config)}
    if resume and checkpoint is not None and checkpoint.exists():
        progress = _load_checkpoint(checkpoint, learner, settings, device)
    report(stage, progress.step, config.steps, {})
    moved = _now_and_then(report, stage, config.steps)
    while progress.step < config.steps and not 0 < config.patience <= progress.stale:
        until = min(config.steps, (progress.step // config.evaluate_every + 1) * config.evaluate_every)
        losses = _update_until(learner, samples, config, progress.step, until, device, moved)
        held_out = learner.evaluate()
        if not math.isfinite(held_out["loss"]):
            raise InputError(
                f"{stage}: training diverged before step {until}; try a learning rate below {config.learning_rate}"
            )
        progress.step = until
        progress.history.append(Evaluation(until, losses, held_out))
        if progress.stale == 0:
            progress.best = _copy(learner.tensors())
        if checkpoint is not None:
            _save_checkpoint(checkpoint, learner, progress, settings)
        figures = {**losses, **{f"{HELD_OUT}{name}": value for name, value in held_out.items()}}
        report(stage, until, config.steps, figures)
    learner.load_tensors(progress.best)
    return progress.history


def _now_and_then(report: Report, stage: str, total: int) -> Callable[[int], None]:
    """Tells the report of a step that was taken, but not more often than is worth reading."""
    last = time.monotonic()

    def moved(step: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            report(stage, step, total, {})

    return moved


def _update_until(
    learner: Learner,
    samples: int,
    config: LoopConfig,
    start: int,
    until: int,
    device: torch.device,
    moved: Callable[[int], None],
) -> dict[str, float]:
    """Trains from step ``start`` to ``until`` and returns the mean of each loss."""
    totals: dict[str, torch.Tensor] = {}
    for first in range(start, until, BATCHES_AT_ONCE):
        steps = range(first, min(first + BATCHES_AT_ONCE, until))
        batches = np.stack([batch_indices(samples, config.batch_size, config.seed, step) for step in steps])
        for step, batch in zip(steps, torch.from_numpy(batches).to(device), strict=True):
            for name, loss in learner.update(batch).items():
                totals[name] = totals[name] + loss if name in totals else loss
            moved(step + 1)
    return {name: float(total) / (until - start) for name, total in totals.items()}


def batch_indices(samples: int, batch_size: int, seed: int, step: int) -> Int[np.ndarray, " B"]:
    """The sample indices of one step's batch; they depend on nothing but these four numbers."""
    return np.random.default_rng((seed, step)).integers(samples, size=batch_size)


def _copy(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _save_checkpoint(path: Path, learner: Learner, progress: _Progress, settings: Mapping[str, Any]) -> None:
    metadata = {
        "settings": settings,
        "step": progress.step,
        "history": [asdict(evaluation) for evaluation in progress.history],
    }
    tensors = {f"current.{name}": tensor for name, tensor in learner.tensors().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in progress.best.items()}
    save_tensors(path, tensors, {"checkpoint": json.dumps(metadata)})


def _load_checkpoint(path: Path, learner: Learner, asked: Mapping[str, Any], device: torch.device) -> _Progress:
    tensors, header = load_tensors(path, device)
    if "checkpoint" not in header:
        raise InputError(f"{path} is not a checkpoint of this package; train without resuming to start again")
    metadata = cast(dict[str, Any], json.loads(header["checkpoint"]))
    made = metadata.get("settings", {})
    # More steps may be asked for than the first run had: that is what going on means.
    differing = [name for name in asked if name != "steps" and made.get(name) != asked[name]]
    if differing:
        differences = ", ".join(f"{name} {made.get(name)} instead of {asked[name]}" for name in differing)
        raise InputError(f"checkpoint {path} was made with {differences}; train without resuming to start again")
    split = {
        part: {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
        for part in ("current.", "best.")
    }
    check_same_shapes(split["current."], learner.tensors(), f"checkpoint {path}")
    learner.load_tensors(split["current."])
    names = {field.name for field in fields(Evaluation)}
    history = [Evaluation(**{name: record[name] for name in names}) for record in metadata["history"]]
    return _Progress(metadata["step"], history, split["best."])


def adam_tensors(optimizer: torch.optim.Adam, prefix: str) -> dict[str, torch.Tensor]:
    """The moments and step counts of an Adam optimiser, zeros where it has not stepped yet."""
    tensors: dict[str, torch.Tensor] = {}
    for index, parameter in enumerate(_parameters(optimizer)):
        state = optimizer.state.get(parameter) or _fresh_state(parameter)
        tensors |= {f"{prefix}.{index}.{name}": state[name] for name in ("step", "exp_avg", "exp_avg_sq")}
    return tensors


def load_adam_tensors(optimizer: torch.optim.Adam, tensors: Mapping[str, torch.Tensor], prefix: str) -> None:
    """Comes back to what ``adam_tensors`` gave under the same prefix."""
    for index, parameter in enumerate(_parameters(optimizer)):
        state = _fresh_state(parameter)
        for name, tensor in state.items():
            tensor.copy_(tensors[f"{prefix}.{index}.{name}"])
        optimizer.state[parameter] = state


def _parameters(optimizer: torch.optim.Adam) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _fresh_state(parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    # torch keeps the step count on the CPU unless the optimiser is fused or capturable.
    return {
        "step": torch.zeros((), dtype=torch.float32),
        "exp_avg": torch.zeros_like(parameter, requires_grad=False),
        "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
    }


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Lets torch compute on one CPU thread, as is best for networks this small, and restores its setting afterwards.

    More threads are no faster even alone, and beside other work they wait for each other: with other busy processes on
    two cores the scheduler trained at 1.5 steps/s on two threads and at 75 on one. A number that the user has chosen
    stays: in the environment (``THREAD_VARIABLES``), or by ``torch.set_num_threads`` after this package was imported.
    """
    before = torch.get_num_threads()
    chosen = before != THREADS_WHEN_IMPORTED or any(os.environ.get(name) for name in THREAD_VARIABLES)
    if chosen or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_device(name: str) -> torch.device:
    """The device of this name; ``auto`` takes CUDA, else Apple's MPS, else the CPU."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    kind, _, index = name.partition(":")
    there = available.get(kind, False) and (index == "" or (index.isdecimal() and _has_device(kind, int(index))))
    if not there:
        choices = ", ".join(["auto", *(kind for kind, there in available.items() if there)])
        raise InputError(f"device {name!r} is not available here; choose one of {choices}")
    return torch.device(name)


def _has_device(kind: str, index: int) -> bool:
    return index < (torch.cuda.device_count() if kind == "cuda" else 1)
