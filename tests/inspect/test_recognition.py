"""A robot is told from what the data says and does, with reasons."""

from dataclasses import replace

import numpy as np
import pytest

from sample_motions import change, demonstrate
from speedup_patch.inspect import inspect_demonstrations
from speedup_patch.robots import (
    ALOHA,
    ARX5_BIMANUAL,
    PANDA_LIBERO,
    PANDA_ROBOMIMIC,
    ROBOTS,
    SO101,
    SO101_DEGREES,
    Robot,
)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_every_robot_is_recognised_by_its_motions_alone(robot: Robot) -> None:
    found = inspect_demonstrations(demonstrate(robot))
    assert found.robot == found.looks_like[0] == robot.name
    assert not found.robot_given
    assert len(found.likeness[0].reasons) >= 3
    assert found.likeness[0].doubts == ()


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_clean_demonstrations_of_any_robot_are_not_suspicious(robot: Robot) -> None:
    assert inspect_demonstrations(demonstrate(robot), robot).findings == ()


def _still(robot: Robot, name: str = ""):
    """Too little motion to tell anything by."""
    clean = demonstrate(robot, name=name)
    return change(clean, list(range(6)), states=lambda e: 0 * e.states, actions=lambda e: 0 * e.actions)


def test_a_name_decides_where_values_say_little() -> None:
    for name in ("aloha", "arx5_bimanual"):
        assert inspect_demonstrations(_still(ALOHA, name)).robot == name
    assert inspect_demonstrations(_still(SO101, "so101_follower")).robot == "so101"
    assert inspect_demonstrations(_still(ALOHA), state_names=ARX5_BIMANUAL.state_names).robot == "arx5_bimanual"


def test_names_are_recognised_as_older_writers_wrote_them() -> None:
    names = [f"main_{name.removesuffix('.pos')}" for name in SO101.state_names]
    found = inspect_demonstrations(_still(SO101), state_names=names)
    assert "the state dimensions have its names" in found.likeness[0].reasons


def test_equal_sizes_alone_are_not_enough() -> None:
    found = inspect_demonstrations(_still(ALOHA, "yam"), state_names=("a",) * 14)
    assert found.robot is None
    assert set(found.looks_like) == {"aloha", "arx5_bimanual"}
    assert "the data set calls its robot 'yam'" in found.likeness[0].doubts
    assert "--robot my_robot.toml" in found.train_command


def test_so101_in_degrees_and_in_percent_differ_in_their_values() -> None:
    percent, degrees = (inspect_demonstrations(demonstrate(robot)) for robot in (SO101, SO101_DEGREES))
    assert any("end exactly at a limit" in reason for reason in percent.likeness[0].reasons)
    assert any("wrist_roll.pos leaves the limits" in doubt for doubt in degrees.likeness[1].doubts)


def test_robots_that_cannot_be_told_apart_are_both_named() -> None:
    half = change(
        demonstrate(SO101, name="so101_follower"),
        list(range(6)),
        states=lambda e: e.states * np.array([0.5] * 5 + [1], np.float32),
        actions=lambda e: e.actions * np.array([0.5] * 5 + [1], np.float32),
    )
    found = inspect_demonstrations(half)
    assert found.robot == "so101"
    assert [finding.kind for finding in found.findings] == ["which_robot"]
    assert "--robot so101_degrees" in found.findings[0].advice


def test_quaternions_and_fingers_tell_the_pandas_apart() -> None:
    found = inspect_demonstrations(demonstrate(PANDA_ROBOMIMIC))
    assert "its quaternions have length one" in found.likeness[0].reasons
    assert "its two fingers mirror each other" in found.likeness[0].reasons
    longer = change(
        demonstrate(PANDA_ROBOMIMIC),
        list(range(6)),
        states=lambda e: e.states * np.array([1, 1, 1, 2, 2, 2, 2, 1, 1], np.float32),
    )
    doubts = [doubt for each in inspect_demonstrations(longer).likeness for doubt in each.doubts]
    assert "its quaternions would have lengths 2 .. 2, not one" in doubts


def test_reversed_motions_speak_against_a_robot() -> None:
    backwards = change(demonstrate(PANDA_LIBERO), list(range(6)), actions=lambda e: -e.actions)
    straight = inspect_demonstrations(demonstrate(PANDA_LIBERO)).likeness[0]
    assert inspect_demonstrations(backwards).likeness[0].score < straight.score


def test_a_robot_of_other_sizes_is_named_and_the_data_still_shown() -> None:
    found = inspect_demonstrations(demonstrate(PANDA_LIBERO), ALOHA)
    assert (found.robot, found.robot_given) == ("panda_libero", False)
    assert found.findings[0].kind == "wrong_robot"
    assert "has 14 state and 14 action dimensions, but the data has 8 and 7" in found.findings[0].message
    assert found.findings[0].advice == "try --robot panda_libero"
    assert found.arms


def test_a_robot_of_the_same_sizes_but_other_values_is_doubted() -> None:
    found = inspect_demonstrations(demonstrate(ARX5_BIMANUAL), ALOHA)
    assert (found.robot, found.robot_given) == ("aloha", True)
    assert found.findings[0].kind == "wrong_robot"
    assert "than like 'arx5_bimanual'" in found.findings[0].message


def test_a_robot_that_only_has_another_name_is_not_doubted() -> None:
    mine = replace(ALOHA, name="mine")
    named = demonstrate(ALOHA, name="aloha")
    assert inspect_demonstrations(named, mine, state_names=ALOHA.state_names).findings == ()


def test_a_name_is_believed_but_values_that_contradict_it_are_shown() -> None:
    found = inspect_demonstrations(demonstrate(ARX5_BIMANUAL, name="aloha"))
    assert found.robot == "aloha"
    assert found.findings[0].kind == "wrong_robot"
    assert found.findings[0].advice == "try --robot arx5_bimanual"
