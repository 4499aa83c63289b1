"""``sup robots``."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import tyro

from speedup_patch.commands.terminal import print_json, terminal

if TYPE_CHECKING:
    from speedup_patch.robots import Robot


def robots(
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None, *, json: bool = False
) -> None:
    """List the robots we know, or every dimension of one.

    Args:
        name: A robot's name, or the path of a .toml file that describes one.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.robots import ROBOTS, find_robot

    if name is not None:
        robot = find_robot(name)
        if json:
            print_json(asdict(robot))
        else:
            _print_dimensions(robot)
        return
    summaries = [_summary(robot) for robot in ROBOTS.values()]
    if json:
        print_json(summaries)
    else:
        _print_table(
            ("robot", "state", "action", "Hz", "arms", "commands", "end-effector pose"),
            [
                [value if isinstance(value, str) else f"{value:g}" for value in summary.values()]
                for summary in summaries
            ],
        )


def _summary(robot: "Robot") -> dict[str, str | float]:
    from speedup_patch.robots import StatePose

    counts: dict[str, int] = {}
    for group in robot.actions:
        counts[group.mode] = counts.get(group.mode, 0) + len(group.names)
    in_state = all(isinstance(arm.pose, StatePose) for arm in robot.arms)
    return {
        "name": robot.name,
        "state_size": robot.state_size,
        "action_size": robot.action_size,
        "control_hz": robot.control_hz,
        "arms": ", ".join(arm.name for arm in robot.arms),
        "commands": ", ".join(f"{count} {mode}" for mode, count in counts.items()),
        "pose": "in the state" if in_state else "from the joints",
    }


def _print_dimensions(robot: "Robot") -> None:
    roles = _state_roles(robot)
    terminal().print(f"{robot.name}, {robot.control_hz:g} Hz\n\nState", markup=False)
    _print_table(
        ("", "name", "what it is"),
        [(str(index), name, roles.get(index, "")) for index, name in enumerate(robot.state_names)],
    )
    rows: list[Sequence[str]] = []
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        for index in range(part.start, part.stop):
            low, high = robot.action_low[index], robot.action_high[index]
            unit = group.unit if group.scale == 1.0 else f"{group.scale:g} {group.unit}"
            driven = robot.state_names[robot.drives[index]] if index in robot.drives else ""
            rows.append((str(index), robot.action_names[index], group.mode, unit, f"{low:g}", f"{high:g}", driven))
    terminal().print("\nAction")
    _print_table(("", "name", "mode", "unit", "low", "high", "moves"), rows)
    for arm in robot.arms:
        if arm.gripper:
            gripper = arm.gripper
            terminal().print(
                f"\nGripper of {arm.name}: {gripper.closed:g} closes, {gripper.open:g} opens, a full stroke takes "
                f"{gripper.stroke_steps} steps ({gripper.stroke_steps / robot.control_hz:.2f} s)",
                markup=False,
            )


def _state_roles(robot: "Robot") -> dict[int, str]:
    """What each state dimension is used for."""
    from speedup_patch.robots import KinematicChain

    roles: dict[int, list[str]] = {}

    def note(index: int, role: str) -> None:
        roles.setdefault(index, []).append(role)

    for arm in robot.arms:
        if isinstance(arm.pose, KinematicChain):
            for number, index in enumerate(arm.pose.joints):
                note(index, f"joint {number + 1} of {arm.name}" + (" (slides)" * arm.pose.links[number].slides))
        else:
            for index in arm.pose.position:
                note(index, f"position of {arm.name}, m")
            for index in arm.pose.rotation:
                note(index, f"rotation of {arm.name}, {arm.pose.representation}")
        for index in arm.gripper.state if arm.gripper else ():
            note(index, f"gripper of {arm.name}")
    return {index: ", ".join(noted) for index, noted in roles.items()}


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    terminal().print(table)
