"""``sup inspect``."""

from dataclasses import asdict
from pathlib import Path

import tyro

from speedup_patch.commands.terminal import print_json, terminal


def inspect(dataset: tyro.conf.Positional[Path], *, robot: str | None = None, json: bool = False) -> None:
    """Look at a data set: what is in it, what is odd about it, and the training command to run next.

    Args:
        dataset: A LeRobot v3.0 folder or a .npz file.
        robot: Name of the robot; recognised from the data when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.datasets import read_demonstrations, read_names
    from speedup_patch.inspect import inspect_demonstrations, render_inspection
    from speedup_patch.robots import find_robot

    demonstrations = read_demonstrations(dataset)
    state_names, action_names = read_names(dataset)
    found = inspect_demonstrations(
        demonstrations,
        find_robot(robot) if robot else None,
        dataset=str(dataset),
        state_names=state_names,
        action_names=action_names,
    )
    if json:
        print_json(asdict(found))
    else:
        terminal().print(render_inspection(found))
