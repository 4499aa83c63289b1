"""What an inspection finds, as plain values that print and turn into JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

MANY_TASKS = 8


@dataclass(frozen=True)
class Spread:
    """How a quantity is spread."""

    minimum: float
    p10: float
    p50: float
    p90: float
    maximum: float


@dataclass(frozen=True)
class Profile:
    """How fast something moves."""

    mean: float
    p50: float
    p95: float
    maximum: float


@dataclass(frozen=True)
class Dimension:
    """One state or action dimension over all frames."""

    name: str
    minimum: float
    maximum: float
    std: float


@dataclass(frozen=True)
class ArmSpeed:
    """How fast one arm's end-effector moves and turns from one frame to the next."""

    arm: str
    metres_per_second: Profile
    radians_per_second: Profile


@dataclass(frozen=True)
class GripperUse:
    """How one arm's gripper is used; stroke steps run from a flip of the command until the fingers are still."""

    arm: str
    flips_per_episode: float
    strokes: int
    """How many flips were followed by a motion that could be timed."""
    stroke_steps_p50: float | None
    stroke_steps_p90: float | None
    robot_stroke_steps: int
    """What the robot's description says."""


@dataclass(frozen=True)
class TaskCount:
    """One task and how many episodes show it."""

    task: str
    episodes: int


@dataclass(frozen=True)
class Finding:
    """Something suspicious: its kind, for programs, and what it is and means, for people."""

    kind: str
    message: str


@dataclass(frozen=True)
class Inspection:
    """A data set at a glance."""

    dataset: str
    episodes: int
    frames: int
    control_hz: float
    lengths: Spread
    """Frames per episode."""
    tasks: tuple[TaskCount, ...]
    state: tuple[Dimension, ...]
    action: tuple[Dimension, ...]
    robot: str | None
    """The robot that gave the dimensions their meaning; without one there are no speeds, grippers and pauses."""
    looks_like: tuple[str, ...]
    """Known robots with these dimensions."""
    arms: tuple[ArmSpeed, ...]
    grippers: tuple[GripperUse, ...]
    pause_share: float | None
    """Share of frames at which nothing commanded moves."""
    findings: tuple[Finding, ...]
    train_command: str


def render_inspection(inspection: Inspection) -> Group:
    """The inspection for the terminal: print it with a rich console."""
    parts: list[Text | Table] = [Text(line) for line in _summary(inspection)]
    parts += [_dimensions("state", inspection.state), _dimensions("action", inspection.action)]
    if inspection.arms:
        parts.append(_speeds(inspection.arms))
    parts += [Text(_gripper_line(use, inspection.control_hz)) for use in inspection.grippers]
    if inspection.pause_share is not None:
        parts.append(Text(f"pauses: nothing commanded moves in {inspection.pause_share:.1%} of the frames"))
    parts.append(Text("\nnothing suspicious" if not inspection.findings else "\nsuspicious:"))
    parts += [Text(f"  - {finding.message}") for finding in inspection.findings]
    parts.append(Text(f"\nnext: {inspection.train_command}", overflow="fold"))
    return Group(*parts)


def _summary(inspection: Inspection) -> list[str]:
    lengths, hz = inspection.lengths, inspection.control_hz
    tasks = [f"{count.task or '(no text)'} ({count.episodes})" for count in inspection.tasks[:MANY_TASKS]]
    more = len(inspection.tasks) - len(tasks)
    if inspection.robot:
        robot = inspection.robot
    elif inspection.looks_like:
        robot = f"not known; the dimensions are those of {', '.join(inspection.looks_like)}"
    else:
        robot = "not known; no known robot has these dimensions"
    return [
        f"{inspection.dataset}: {inspection.episodes} episodes, {inspection.frames} frames at {hz:g} Hz "
        f"({inspection.frames / hz:.0f} s)",
        f"robot: {robot}",
        f"frames per episode: {lengths.minimum:.0f} .. {lengths.maximum:.0f}, "
        f"p10 {lengths.p10:.0f}, p50 {lengths.p50:.0f}, p90 {lengths.p90:.0f}",
        f"tasks: {'; '.join(tasks)}" + (f"; and {more} more" if more else ""),
    ]


def _dimensions(title: str, dimensions: Sequence[Dimension]) -> Table:
    table = _table(title, "min", "max", "std")
    for dimension in dimensions:
        figures = (f"{value:.4g}" for value in (dimension.minimum, dimension.maximum, dimension.std))
        table.add_row(Text(dimension.name), *figures)
    return table


def _speeds(arms: Sequence[ArmSpeed]) -> Table:
    table = _table("end-effector speed", "mean", "p50", "p95", "max")
    for arm in arms:
        for unit, profile in (("m/s", arm.metres_per_second), ("rad/s", arm.radians_per_second)):
            figures = (profile.mean, profile.p50, profile.p95, profile.maximum)
            table.add_row(Text(f"{arm.arm}, {unit}"), *(f"{value:.3f}" for value in figures))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table()
    table.add_column(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _gripper_line(use: GripperUse, control_hz: float) -> str:
    line = f"gripper {use.arm}: {use.flips_per_episode:.1f} flips per episode"
    if use.stroke_steps_p50 is None or use.stroke_steps_p90 is None:
        return f"{line}; no stroke could be timed"
    return (
        f"{line}; a stroke takes {use.stroke_steps_p50:.0f} steps (p90 {use.stroke_steps_p90:.0f}, "
        f"{use.stroke_steps_p90 / control_hz:.2f} s; {use.strokes} timed), the robot says {use.robot_stroke_steps}"
    )
