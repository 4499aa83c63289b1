"""``sup inspect`` as it is typed."""

import json
import shlex
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from sample_motions import demonstrate
from speedup_patch.commands.train import train
from speedup_patch.datasets import write_demonstrations
from speedup_patch.robots import ALOHA, PANDA_LIBERO, find_robot

TOML = """
name = "slider"
control_hz = 20.0
state = ["x", "y", "z", "rx", "ry", "rz", "left", "right"]
[[actions]]
names = ["dx", "dy", "dz", "drx", "dry", "drz"]
mode = "delta"
low = -1.0
high = 1.0
[[actions]]
names = ["grip"]
mode = "gripper"
low = -1.0
high = 1.0
[[arms]]
position = ["x", "y", "z"]
rotation = ["rx", "ry", "rz"]
representation = "axis_angle"
gripper = { action = "grip", state = ["left", "right"], closed = 1.0, open = -1.0, stroke_steps = 12 }
"""


@pytest.fixture
def libero(tmp_path) -> Path:
    path = tmp_path / "my demos.npz"
    write_demonstrations(demonstrate(PANDA_LIBERO, episodes=4, length=60), path)
    return path


def parse_training(words: list[str]) -> dict[str, Any]:
    """What ``sup train`` would be called with."""

    @wraps(train)
    def record(datasets, **options):
        return {"datasets": datasets, **options}

    return tyro.cli(record, args=words)


def test_the_next_command_works_as_typed(sup, libero, tmp_path) -> None:
    robot = tmp_path / "my slider.toml"
    robot.write_text(TOML)
    options = ["--state", "states[0:8]", "--action", "actions", "--episodes", "0:3", "--hz", "25"]
    code, out, _ = sup("inspect", libero, *options, "--robot", robot, "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["robot"], report["episodes"], report["control_hz"]) == ("slider", 3, 25)
    words = shlex.split(report["train_command"])
    assert words[:3] == ["sup", "train", str(libero)]
    assert words[-4:] == ["--robot", str(robot), "--out", "my demos.patch"]
    assert words[3:-4] == options
    typed = parse_training(words[2:])
    described = find_robot(typed["robot"])
    read = typed["reading"].read(typed["datasets"], described)
    assert (described.name, len(read.demonstrations), read.demonstrations.control_hz) == ("slider", 3, 25)
    assert typed["out"] == Path("my demos.patch")


def test_a_robot_that_does_not_fit_still_shows_the_data(sup, libero) -> None:
    code, out, _ = sup("inspect", libero, "--robot", "aloha", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["findings"][0]["kind"] == "wrong_robot"
    assert report["looks_like"] == ["panda_libero"]
    assert "--robot panda_libero" in report["train_command"]


def test_an_unknown_robot_is_answered_with_those_that_are_known(sup, libero) -> None:
    code, _, error = sup("inspect", libero, "--robot", "panda_libera")
    assert code == 2
    assert "did you mean 'panda_libero'" in error


def test_data_at_fault_is_refused_with_or_without_a_robot(sup, tmp_path) -> None:
    path = tmp_path / "broken.npz"
    write_demonstrations(demonstrate(ALOHA, episodes=2, length=60), path)
    arrays = dict(np.load(path))
    arrays["states"][10, 3] = np.nan
    np.savez(path, **arrays)
    for robot in ((), ("--robot", "aloha"), ("--robot", "panda_libero")):
        code, _, error = sup("inspect", path, *robot)
        assert code == 2
        assert "row 10" in error


def test_a_picture_is_drawn_beside_the_text(sup, libero, tmp_path) -> None:
    code, out, _ = sup("inspect", libero, "--plot", tmp_path / "look.png")
    assert code == 0
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    assert "robot: looks like panda_libero" in out
    code, _, error = sup("inspect", libero, "--plot", tmp_path / "look.jpeg")
    assert code == 2
    assert ".png, .pdf, .svg" in error
