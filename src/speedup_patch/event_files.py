"""The curves of a training in TensorBoard's format: one run for training, one for held-out data, a tag per figure."""

import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from speedup_patch.reporting import HELD_OUT, Report

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

EVENTS = "training"
"""The folder inside a patch that holds them."""

RUNS = ("train", "held_out")
SECONDS_BETWEEN_FLUSHES = 1


def can_write_events() -> bool:
    """Whether the library is there that writes them."""
    return find_spec("tensorboardX") is not None


@contextmanager
def write_events(folder: Path) -> Generator[Report]:
    """A report whose figures TensorBoard can watch in ``folder``; a run that is resumed adds to what it holds."""
    train, held_out = (_open_writer(folder / run) for run in RUNS)

    def report(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer = held_out if name.startswith(HELD_OUT) else train
            writer.add_scalar(f"{stage.replace(' ', '_')}/{name.removeprefix(HELD_OUT)}", value, step)

    try:
        yield report
    finally:
        train.close()
        held_out.close()


def _open_writer(folder: Path) -> "SummaryWriter":
    from tensorboardX import SummaryWriter

    # Files are named by the second; a number keeps a run that is resumed within one from replacing the one before.
    ending = f".{sum(1 for _ in folder.glob('*tfevents*'))}"
    return SummaryWriter(str(folder), flush_secs=SECONDS_BETWEEN_FLUSHES, filename_suffix=ending)


def keep_events(events: Path, patch: Path) -> None:
    """Copies finished event files into a patch folder, under names that no longer tell which machine wrote them."""
    for run in RUNS:
        target = patch / EVENTS / run
        target.mkdir(parents=True)
        for number, file in enumerate(sorted((events / run).glob("*tfevents*"))):
            shutil.copyfile(file, target / f"events.out.tfevents.{number:010d}")
