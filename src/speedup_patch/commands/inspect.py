"""``sup inspect``."""

from dataclasses import asdict, replace

import tyro

from speedup_patch.commands.reading import Datasets, ReadingOptions, left_out_json, robot_at_data_rate, train_command
from speedup_patch.commands.terminal import print_json, terminal


def inspect(
    datasets: Datasets,
    *,
    reading: tyro.conf.OmitArgPrefixes[ReadingOptions] = ReadingOptions(),  # noqa: B008
    robot: str | None = None,
    json: bool = False,
) -> None:
    """Look at a data set: what is in it, what is odd about it, and the training command to run next.

    Args:
        datasets: One or several data sets of one robot: LeRobot or RLDS folders, HDF5 files or folders, .npz files.
        reading: What is read.
        robot: Name of the robot, or a .toml file that describes it; recognised from the data when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.inspect import inspect_demonstrations, render_inspection
    from speedup_patch.robots import find_robot

    described = find_robot(robot) if robot else None
    read = reading.read(datasets, described)
    found = inspect_demonstrations(
        read.demonstrations,
        robot_at_data_rate(described, read) if described else None,
        dataset=", ".join(map(str, datasets)),
        state_names=read.state_names,
        action_names=read.action_names,
    )
    found = replace(found, train_command=train_command(datasets, reading, robot or found.robot or "ROBOT"))
    if json:
        print_json({**asdict(found), "left_out": left_out_json(read)})
    else:
        terminal().print(render_inspection(found))
