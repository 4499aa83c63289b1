"""Progress on stderr: a bar on a terminal, plain lines otherwise, both with figures, time taken and time left."""

import sys
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from speedup_patch.reporting import Report, silent

SECONDS_BETWEEN_LINES = 10.0
STAGE_WIDTH, BAR_WIDTH = 16, 20


@contextmanager
def show_progress(quiet: bool = False) -> Generator[Report]:
    """A report to hand to long work; what it is told appears on stderr."""
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with show_bars(Console(stderr=True)) as report:
            yield report
    else:
        yield PlainLines()


@dataclass
class Stage:
    """What a stage last told of itself; a stage that goes on with earlier work starts at a step above zero."""

    first_step: int
    started: float = field(default_factory=lambda: time.monotonic())
    step: int = 0
    total: int = 0
    told: float = 0.0
    figures: str = ""

    def tell(self, step: int, total: int, figures: Mapping[str, float]) -> None:
        """Takes in a report; one without figures leaves the last ones standing."""
        self.step, self.total, self.told = step, total, time.monotonic()
        self.figures = describe(figures) or self.figures

    def clock(self) -> str:
        """The time taken, and the time left as far as the steps so far tell, such as ``0:12, 0:48 left``."""
        taken = self.told - self.started
        if self.step >= self.total or self.step <= self.first_step:
            return readable(taken)
        left = taken / (self.step - self.first_step) * (self.total - self.step)
        return f"{readable(taken)}, {readable(left)} left"


class PlainLines:
    """One line now and then, and one when a stage is complete."""

    def __init__(self) -> None:
        self._last = -SECONDS_BETWEEN_LINES
        self._stages: dict[str, Stage] = {}

    def __call__(self, stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        state = self._stages.setdefault(stage, Stage(step))
        state.tell(step, total, figures)
        now = time.monotonic()
        if step < total and now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        parts = [f"{stage}: {step}/{total}", state.clock(), state.figures]
        print("  ".join(filter(None, parts)), file=sys.stderr, flush=True)


class BarsAndFigures(Progress):
    """A bar for every stage with its figures on a line of their own, which has room for them."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn, from the top down."""
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if task.fields["figures"]:
                yield Text(f"  {task.fields['figures']}", style="dim")


@contextmanager
def show_bars(console: Console) -> Generator[Report]:
    """A report that draws one bar for every stage."""
    columns = (
        TextColumn("{task.description}", table_column=Column(min_width=STAGE_WIDTH)),
        BarColumn(BAR_WIDTH),
        MofNCompleteColumn(),
        TextColumn("{task.fields[clock]}"),
    )
    with BarsAndFigures(*columns, console=console) as progress:
        stages: dict[str, tuple[TaskID, Stage]] = {}

        def report(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
            if stage not in stages:
                stages[stage] = progress.add_task(stage, clock="", figures=""), Stage(step)
            task, state = stages[stage]
            state.tell(step, total, figures)
            progress.update(task, completed=step, total=total, clock=state.clock(), figures=state.figures)

        yield report


def describe(figures: Mapping[str, float]) -> str:
    """Figures on one line, such as ``loss 0.012  held-out loss 0.034``."""
    return "  ".join(
        f"{name.replace('held_out_', 'held-out ').replace('_', ' ')} {value:.4g}" for name, value in figures.items()
    )


def readable(seconds: float) -> str:
    """A time as minutes and seconds, with hours when there are any, such as ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
