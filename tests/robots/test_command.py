"""``sup robots``."""

import json
from dataclasses import asdict

import pytest

from speedup_patch.commands.robots import robots
from speedup_patch.errors import InputError
from speedup_patch.robots import ROBOTS, Robot


def test_lists_one_line_a_robot(capsys: pytest.CaptureFixture[str]):
    robots()
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        [robot.name, str(robot.state_size), str(robot.action_size)] for robot in ROBOTS.values()
    ]
    robots(json=True)
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(ROBOTS)
    assert [entry["control_hz"] for entry in listed] == [robot.control_hz for robot in ROBOTS.values()]


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=lambda robot: robot.name)
def test_shows_every_dimension(robot: Robot, capsys: pytest.CaptureFixture[str]):
    robots(robot.name)
    words = capsys.readouterr().out.split()
    assert [name for name in (*robot.state_names, *robot.action_names) if name not in words] == []
    assert words.count("absolute") == sum(len(group.names) for group in robot.actions if group.mode == "absolute")
    robots(robot.name, json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(asdict(robot)))


def test_an_unknown_robot_is_named():
    with pytest.raises(InputError, match="did you mean 'aloha'"):
        robots("alloha")
