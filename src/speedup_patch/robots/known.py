"""Every robot we know, by name, and any other by its file."""

from difflib import get_close_matches
from pathlib import Path

from speedup_patch.errors import InputError
from speedup_patch.robots.aloha import ALOHA
from speedup_patch.robots.arx5 import ARX5_BIMANUAL
from speedup_patch.robots.description import Robot
from speedup_patch.robots.droid import DROID
from speedup_patch.robots.h1_bigym import H1_BIGYM
from speedup_patch.robots.panda_libero import PANDA_LIBERO, PANDA_LIBERO_JOINTS
from speedup_patch.robots.panda_robomimic import PANDA_ROBOMIMIC
from speedup_patch.robots.so101 import SO101, SO101_DEGREES
from speedup_patch.robots.toml_files import read_robot

ROBOTS: dict[str, Robot] = {
    robot.name: robot
    for robot in (
        ALOHA,
        PANDA_LIBERO,
        PANDA_LIBERO_JOINTS,
        PANDA_ROBOMIMIC,
        H1_BIGYM,
        SO101,
        SO101_DEGREES,
        ARX5_BIMANUAL,
        DROID,
    )
}


def find_robot(name: str) -> Robot:
    """The robot of this name, or the one described by the file at this path when it ends in .toml."""
    if name.endswith(".toml"):
        return read_robot(Path(name))
    if name not in ROBOTS:
        near = get_close_matches(name, ROBOTS, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"unknown robot {name!r}; {guess}known robots: {', '.join(sorted(ROBOTS))}; "
            "any other is described in a .toml file and given by its path"
        )
    return ROBOTS[name]
