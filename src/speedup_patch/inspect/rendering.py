"""An inspection as text for the terminal."""

from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from speedup_patch.inspect.report import (
    ArmSpeed,
    Dimension,
    GripperLimit,
    GripperUse,
    Inspection,
    Likeness,
    Pauses,
    RobotLimits,
    StrokeLimit,
    StrokeTime,
)

MANY_TASKS = 8


def render_inspection(inspection: Inspection) -> Group:
    """The inspection for the terminal: print it with a rich console."""
    parts: list[Text | Table | Padding] = [Text(line) for line in _summary(inspection)]
    parts += [_dimensions("state", inspection.state), _dimensions("action", inspection.action)]
    if inspection.arms:
        parts.append(_speeds(inspection.arms))
    parts += [Text(_gripper_line(use)) for use in inspection.grippers]
    parts += [Text(line) for line in _limit_lines(inspection)]
    parts += [Text(line) for line in _pause_lines(inspection)]
    parts.append(Text("\nnothing suspicious" if not inspection.findings else "\nsuspicious:"))
    for finding in inspection.findings:
        parts.append(Text(f"- {finding.message}"))
        parts.append(Padding(Text(f"{finding.meaning}\n-> {finding.advice}"), (0, 0, 0, 4), expand=False))
    parts += [Text(line, overflow="fold") for line in _next_lines(inspection)]
    return Group(*parts)


def _summary(inspection: Inspection) -> list[str]:
    lengths, hz = inspection.lengths, inspection.control_hz
    tasks = [f"{count.task or '(no text)'} ({count.episodes})" for count in inspection.tasks[:MANY_TASKS]]
    more = len(inspection.tasks) - len(tasks)
    lines = [
        f"{inspection.dataset}: {inspection.episodes} episodes, {inspection.frames} frames at {hz:g} Hz "
        f"({inspection.frames / hz:.0f} s)"
    ]
    if inspection.sampled_frames < inspection.frames:
        lines.append(
            f"a large data set: speeds, grippers, limits, pauses and suspicions come from an even sample of "
            f"{inspection.sampled_frames} frames in {inspection.sampled_episodes} episodes"
        )
    lines += _robot_lines(inspection)
    lines += [
        f"frames per episode: {lengths.minimum:.0f} .. {lengths.maximum:.0f}, "
        f"p10 {lengths.p10:.0f}, p50 {lengths.p50:.0f}, p90 {lengths.p90:.0f}",
        f"tasks: {'; '.join(tasks)}" + (f"; and {more} more" if more else ""),
    ]
    return lines


def _robot_lines(inspection: Inspection) -> list[str]:
    if inspection.robot and inspection.robot_given:
        return [f"robot: {inspection.robot}"]
    if inspection.robot:
        first, *others = inspection.likeness
        lines = [f"robot: looks like {first.robot}: {_reasons(first)}"]
        return lines + [
            f"       {'less' if other.score < first.score else 'as'} likely {other.robot}: {_reasons(other)}"
            for other in others
        ]
    if not inspection.likeness:
        sizes = f"{len(inspection.state)} state and {len(inspection.action)} action dimensions"
        return [f"robot: not known; no known robot has {sizes}"]
    lines = ["robot: not known; robots with as many dimensions are"]
    return lines + [f"       {other.robot}: {_reasons(other)}" for other in inspection.likeness]


def _reasons(likeness: Likeness) -> str:
    reasons = "; ".join(likeness.reasons) or "nothing speaks for it"
    return f"{reasons}; but {'; '.join(likeness.doubts)}" if likeness.doubts else reasons


def _dimensions(title: str, dimensions: Sequence[Dimension]) -> Table:
    table = _table(title, "min", "max", "std")
    for dimension in dimensions:
        figures = (f"{value:.4g}" for value in (dimension.minimum, dimension.maximum, dimension.std))
        table.add_row(Text(dimension.name), *figures)
    return table


def _speeds(arms: Sequence[ArmSpeed]) -> Table:
    table = _table("end-effector speed", "mean", "p10", "p50", "p90", "p95", "p99", "max", "near top")
    for arm in arms:
        for unit, profile in (("m/s", arm.metres_per_second), ("rad/s", arm.radians_per_second)):
            quantiles = (profile.p10, profile.p50, profile.p90, profile.p95, profile.p99)
            figures = (f"{value:.3f}" for value in (profile.mean, *quantiles, profile.maximum))
            table.add_row(Text(f"{arm.arm}, {unit}"), *figures, f"{profile.near_top:.0%}")
    table.caption = "near top: share of the time at 80% of p99 or faster"
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table()
    table.add_column(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _gripper_line(use: GripperUse) -> str:
    opening, closing = _stroke("opening", use.opening), _stroke("closing", use.closing)
    return (
        f"gripper {use.arm}: {use.flips_per_episode:.1f} flips per episode; {opening}; {closing}; "
        f"the robot says {use.robot_stroke_steps} steps"
    )


def _stroke(what: str, time: StrokeTime) -> str:
    if time.steps_p50 is None or time.steps_p90 is None:
        return f"no {what} could be timed"
    return (
        f"{what} takes {time.steps_p50:.0f} steps, {time.seconds_p50:.2f} s "
        f"(p90 {time.steps_p90:.0f}, {time.seconds_p90:.2f} s; {time.timed} timed)"
    )


def _limit_lines(inspection: Inspection) -> list[str]:
    if inspection.limits is None:
        return [f"limits: not read, because {inspection.no_limits}"]
    return ["limits, as most episodes show them:", *_robot_limits(inspection.limits)]


def _robot_limits(limits: RobotLimits) -> list[str]:
    lines = [
        f"  arm {arm.arm}: {arm.metres_per_second:.2f} m/s, {arm.radians_per_second:.2f} rad/s"
        + (f"; {arm.lag_steps:.1f} steps ({arm.lag_seconds:.2f} s) behind its commands" if arm.lag_steps else "")
        + _axis_lags(arm.axis_lag_steps)
        + (f"; a motion command of 1 moves it {1000 * arm.metres_per_command:.1f} mm" if arm.metres_per_command else "")
        for arm in limits.arms
    ]
    if limits.joints:
        each = (
            f"{joint.name} {joint.per_second:.2f}/s ({joint.pull:.3f}, {joint.lag_steps:.1f} steps)"
            for joint in limits.joints
        )
        lines.append(f"  joints (and how far, and how long, their targets run ahead of them): {', '.join(each)}")
    lines += [
        f"  gripper {grip.arm}: {_stroke_limit('opening', grip.opening)}; {_stroke_limit('closing', grip.closing)}"
        + _letting_go(grip)
        for grip in limits.grippers
    ]
    return lines + [
        f"  {' '.join(group.actions)}: at the action limit in {group.at_limit:.1%} of the frames"
        for group in limits.saturation
    ]


def _axis_lags(lags: tuple[float, ...]) -> str:
    each = ", ".join(f"{axis} {lag:.1f}" for axis, lag in zip("xyz", lags, strict=False))
    return f" ({each})" if lags else ""


def _letting_go(grip: GripperLimit) -> str:
    if grip.letting_go_steps is None or grip.letting_go_seconds is None:
        return ""
    return f"; what it holds it lets go of within {grip.letting_go_steps:.0f} steps ({grip.letting_go_seconds:.2f} s)"


def _stroke_limit(what: str, stroke: StrokeLimit) -> str:
    speed = stroke.approach_metres_per_second
    arm = "" if speed is None else f", the arm slowed to {speed:.3f} m/s before"
    if stroke.delay_steps is None:
        return f"no {what} in free motion{arm}"
    return (
        f"{what} starts after {stroke.delay_steps:.1f} steps ({stroke.delay_seconds:.2f} s), "
        f"takes {stroke.stroke_steps:.1f} ({stroke.stroke_seconds:.2f} s) at full speed "
        f"({stroke.strokes} strokes{', the command jumps' if stroke.jumps else ''}{arm})"
    )


def _pause_lines(inspection: Inspection) -> list[str]:
    what = "nothing commanded moves" if inspection.robot else "the state does not change"
    if inspection.pause_share == 0:
        return ["pauses: none of 0.2 s or longer"]
    places = [_place(pauses) for pauses in inspection.pauses if pauses.episodes]
    return [f"pauses: {what} in {inspection.pause_share:.1%} of the frames; {'; '.join(places)}"]


def _place(pauses: Pauses) -> str:
    where = {"start": "at the start", "middle": "in the middle", "end": "at the end"}[pauses.place]
    return (
        f"{where} {pauses.share:.1%} in {pauses.episodes} episodes, "
        f"longest {pauses.longest_seconds:.1f} s in episode {pauses.longest_episode}"
    )


def _next_lines(inspection: Inspection) -> list[str]:
    lines = [f"\nnext: {inspection.train_command}"]
    if inspection.robot is None:
        lines.append("      first describe the robot in that .toml file: docs/robots.md shows how, in ten lines")
    lines.append("      add --chunk N, where N is how many actions your policy predicts at a time")
    return lines
