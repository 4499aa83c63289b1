"""What does not agree with the robot's description."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.inspect.frames import View
from speedup_patch.inspect.report import Finding, GripperUse
from speedup_patch.inspect.wording import list_few, name_episodes
from speedup_patch.robots import Robot

COMMAND_SLACK, STATE_SLACK = 1e-3, 0.05
"""Share of the limits by which they may be left: commands hardly, sensors a little."""
SLOWER_STROKE, FEWEST_STROKES = 1.5, 3
"""A gripper is slow when its median stroke is so many times longer than the robot's, and so many were timed."""


def find_limit_faults(view: View, grippers: tuple[GripperUse, ...]) -> Iterator[Finding]:
    """Values outside of the robot's limits, and grippers slower than it says."""
    if view.robot is None:
        return
    yield from _beyond_limits(view, view.robot)
    for use in grippers:
        yield from _slow_gripper(use)


def _beyond_limits(view: View, robot: Robot) -> Iterator[Finding]:
    low, high = robot.action_low, robot.action_high
    beyond = _beyond(view.frames.actions, low, high, COMMAND_SLACK)
    if beyond.any():
        yield Finding(
            "beyond_limits",
            _describe("action", view, beyond, [*robot.action_names], low, high),
            "such commands are cut at the limits, so a patched robot moves less than the demonstrations",
            "check --robot and the action's unit; if the data is right, give the robot's limits in a .toml file",
        )
    drives = robot.drives
    if not drives:
        return
    actions, states = list(drives), list(drives.values())
    low, high = low[actions], high[actions]
    beyond = _beyond(view.frames.states[:, states], low, high, STATE_SLACK)
    if beyond.any():
        yield Finding(
            "state_beyond_limits",
            _describe("state", view, beyond, [robot.state_names[i] for i in states], low, high),
            "the arm is said to be where it cannot be, so its pose may be computed from the wrong unit or order",
            "check --robot, --state and the unit of the state; if they are right, describe the robot in a .toml file",
        )


def _beyond(
    table: Float[np.ndarray, "N D"], low: Float[np.ndarray, " D"], high: Float[np.ndarray, " D"], slack: float
) -> Bool[np.ndarray, "N D"]:
    return (table < low - slack * (high - low)) | (table > high + slack * (high - low))


def _describe(
    kind: str,
    view: View,
    beyond: Bool[np.ndarray, "N D"],
    names: list[str],
    low: Float[np.ndarray, " D"],
    high: Float[np.ndarray, " D"],
) -> str:
    ordered = sorted(np.flatnonzero(beyond.any(axis=0)).tolist(), key=lambda i: -float(beyond[:, i].mean()))
    listed = [f"{names[i]} ({low[i]:.4g} .. {high[i]:.4g}) in {beyond[:, i].mean():.1%}" for i in ordered]
    episodes = np.unique(view.frames.episode[beyond.any(axis=1)]).tolist()
    return f"{kind} leaves the robot's limits: {list_few(listed)} of the frames, " + (
        f"in {name_episodes(episodes, view.frames.sampled)}"
    )


def _slow_gripper(use: GripperUse) -> Iterator[Finding]:
    times = {"opening": use.opening, "closing": use.closing}
    measured = {what: time.steps_p50 for what, time in times.items() if time.timed >= FEWEST_STROKES}
    slow = {what: steps for what, steps in measured.items() if steps and steps > SLOWER_STROKE * use.robot_stroke_steps}
    if slow:
        listed = ", ".join(f"{what} {steps:.0f}" for what, steps in slow.items())
        yield Finding(
            "slow_gripper",
            f"gripper {use.arm} takes longer than the robot's {use.robot_stroke_steps} steps: {listed} steps (p50)",
            "a patch would hurry on before the fingers are there",
            "give the measured stroke as stroke_steps of this gripper in a .toml file (docs/robots.md)",
        )
