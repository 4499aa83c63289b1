"""Progress on stderr: a bar on a terminal, plain lines otherwise."""

import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from speedup_patch.reporting import Report, silent

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def show_progress(quiet: bool = False) -> Generator[Report]:
    """A report to hand to long work; what it is told appears on stderr."""
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with _bars() as report:
            yield report
    else:
        yield PlainLines()


class PlainLines:
    """One line now and then, and one when a stage is complete."""

    def __init__(self) -> None:
        self._last = -SECONDS_BETWEEN_LINES

    def __call__(self, stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        now = time.monotonic()
        if step < total and now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        print(f"{stage}: {step}/{total}{_text(figures)}", file=sys.stderr, flush=True)


@contextmanager
def _bars() -> Generator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, figures="")
            progress.update(tasks[stage], completed=step, total=total, figures=_text(figures))

        yield report


def _text(figures: Mapping[str, float]) -> str:
    return "".join(f"  {name} {value:.4g}" for name, value in figures.items())
