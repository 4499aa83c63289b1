"""``sup inspect``."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from speedup_patch.commands.reading import Datasets, ReadingOptions, left_out_json
from speedup_patch.commands.terminal import print_json, terminal
from speedup_patch.errors import InputError

if TYPE_CHECKING:
    from speedup_patch.datasets import Reading
    from speedup_patch.robots import Robot


def inspect(
    datasets: Datasets,
    *,
    reading: tyro.conf.OmitArgPrefixes[ReadingOptions] = ReadingOptions(),  # noqa: B008
    robot: str | None = None,
    plot: Path | None = None,
    json: bool = False,
) -> None:
    """Look at a data set: what is in it, what is odd about it, and the training command to run next.

    Args:
        datasets: One or several data sets of one robot: LeRobot or RLDS folders, HDF5 files or folders, .npz files.
        reading: What is read.
        robot: Name of the robot, or a .toml file that describes it; recognised from the data when not given.
        plot: Also draw a picture to this file: .png, .pdf or .svg (needs the extra plot).
        json: Print one JSON document instead of text.
    """
    from speedup_patch.inspect import UNKNOWN_ROBOT, look_at, render_inspection, summarise, train_command
    from speedup_patch.inspect.plot import plot_view, refuse_other_formats
    from speedup_patch.robots import find_robot

    if plot:
        refuse_other_formats(plot)
    described = find_robot(robot) if robot else None
    read = _read(reading, datasets, described)
    look = look_at(read.demonstrations, described, state_names=read.state_names, action_names=read.action_names)
    found = summarise(look, dataset=", ".join(map(str, datasets)))
    name = robot if robot and look.robot_given else found.robot or UNKNOWN_ROBOT
    found = replace(found, train_command=train_command([str(path) for path in datasets], name, reading.arguments()))
    if plot:
        plot_view(look.view, ", ".join(path.name for path in datasets), plot)
    if json:
        picture = {"plot": str(plot)} if plot else {}
        print_json({**asdict(found), "left_out": left_out_json(read), **picture})
        return
    terminal().print(render_inspection(found))
    if read.left_out or reading.episodes or reading.tasks or len(datasets) > 1:
        print("episodes are counted from 0 in what was read, not as the data set numbers them")
    if plot:
        print(f"picture -> {plot}")


def _read(reading: ReadingOptions, datasets: Sequence[Path], robot: "Robot | None") -> "Reading":
    """What is selected; a robot of other sizes is no reason to show nothing."""
    try:
        return reading.read(datasets, robot)
    except InputError:
        if robot is None:
            raise
        read = reading.read(datasets)
        data = read.demonstrations
        if (data.state_size, data.action_size) == (robot.state_size, robot.action_size):
            raise
        return read
