"""Robots as JSON: what a patch folder holds."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA, ROBOTS, ROTATION_SIZES, Robot
from speedup_patch.robots.files import robot_from_json

numbers = st.floats(-10, 10)
triples = st.lists(numbers, min_size=3, max_size=3)
directions = triples.filter(lambda axis: sum(abs(part) for part in axis) > 0.01)
quaternions = st.tuples(numbers, numbers, numbers, st.floats(0.1, 1)).map(list)
poses = st.builds(lambda place, turn: [*place, *turn], triples, quaternions)
links = st.fixed_dictionaries(
    {
        "position": triples,
        "axis": directions,
        "quaternion": quaternions,
        "slides": st.booleans(),
        "scale": st.floats(0.1, 2),
        "offset": numbers,
    }
)


def indices(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 10), min_size=count, max_size=count)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A robot as JSON holds it: one arm with a chain and a gripper, one with a pose in the state."""
    chain = draw(st.lists(links, min_size=1, max_size=4))
    kind = draw(st.sampled_from(sorted(ROTATION_SIZES)))
    gripper = {"action": 3, "state": draw(indices(2)), "closed": 0.0, "open": 1.0, "stroke_steps": 7}
    turn = {
        "names": ["x", "y", "z"],
        "mode": "delta",
        "unit": "rad",
        "low": [-1.0] * 3,
        "high": draw(triples.map(sorted)),
    }
    grip = {"names": ["g"], "mode": "gripper", "unit": "", "low": [0.0], "high": [1.0], "drives": [11]}
    turn["high"] = [max(-1.0, limit) for limit in turn["high"]]
    return {
        "name": draw(st.text(max_size=5)),
        "control_hz": draw(st.floats(1, 100)),
        "state_names": [f"state {i}" for i in range(12)],
        "actions": [
            {**turn, "drives": [], "rotation": draw(st.sampled_from([None, "axis_angle"])), "scale": draw(numbers)},
            {**grip, "rotation": None, "scale": 1.0},
        ],
        "arms": [
            {
                "name": "a",
                "pose": {"joints": draw(indices(len(chain))), "base": draw(poses), "links": chain, "tool": draw(poses)},
                "gripper": gripper,
            },
            {
                "name": "b",
                "pose": {
                    "position": draw(indices(3)),
                    "rotation": draw(indices(ROTATION_SIZES[kind])),
                    "representation": kind,
                },
                "gripper": None,
            },
        ],
        "rated_speeds": draw(st.lists(st.floats(0.1, 10), max_size=3)),
        "rated_torques": [],
    }


def through_json(robot: Robot) -> Robot:
    return robot_from_json(json.loads(json.dumps(asdict(robot))))


@given(document=documents())
@settings(max_examples=30, deadline=None)
def test_a_robot_survives_json(document: dict[str, Any]):
    robot = robot_from_json(document)
    assert json.loads(json.dumps(asdict(robot))) == document
    assert through_json(robot) == robot


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=lambda robot: robot.name)
def test_every_known_robot_survives_json(robot: Robot):
    assert through_json(robot) == robot
    assert through_json(robot.at(17.0)) == robot.at(17.0)


def test_patches_made_before_slides_and_tools_can_be_read():
    document: Any = json.loads(json.dumps(asdict(ALOHA)))
    for arm in document["arms"]:
        del arm["pose"]["tool"]
        for link in arm["pose"]["links"]:
            for key in ("slides", "scale", "offset"):
                del link[key]
    assert robot_from_json(document) == ALOHA


def test_patches_made_before_ratings_are_of_the_same_robot():
    document: Any = json.loads(json.dumps(asdict(ALOHA)))
    del document["rated_speeds"], document["rated_torques"]
    found = robot_from_json(document)
    assert found == ALOHA
    assert found.rated_speeds == ()
    assert through_json(ALOHA).rated_speeds == ALOHA.rated_speeds


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("arms"),
        lambda d: d.update(control_hz="fast"),
        lambda d: d.update(arms=3),
        lambda d: d["arms"][0].update(pose={"links": [{}], "joints": [0], "base": []}),
        lambda d: d["arms"][0]["pose"]["links"][0].update(axis=[0, 0, 0]),
        lambda d: d["arms"][0]["pose"].update(joints=[99] * 6),
        lambda d: d["actions"][0].update(colour="red"),
        lambda d: d["arms"][0].update(pose={"position": [0, 1, 2], "rotation": [3, 4, 5], "representation": "rpy"}),
    ],
)
def test_damage_is_an_input_error(change: Any):
    document: Any = json.loads(json.dumps(asdict(ALOHA)))
    change(document)
    with pytest.raises(InputError):
        robot_from_json(document)
