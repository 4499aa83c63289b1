"""Robots from TOML files: the documented examples, every way to say a thing, and every way to get it wrong."""

import re
import tomllib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.errors import InputError
from speedup_patch.maths.poses import pose_distance, quaternion_to_rotation
from speedup_patch.observations import command_matrix, feature_size
from speedup_patch.robots import ROBOTS, ROTATION_SIZES, KinematicChain, Robot, StatePose, find_robot
from speedup_patch.robots.toml_files import robot_from_toml

DOCS = Path(__file__).parents[2] / "docs" / "robots.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)

JOINT = """<link name="link{n}"/><joint name="joint{n}" type="revolute"><origin xyz="0.1 0 0.2" rpy="0.3 0 0"/>
<parent link="{parent}"/><child link="link{n}"/><axis xyz="0 {y} {z}"/>
<limit lower="-2" upper="1.5" effort="1" velocity="1"/></joint>"""
URDF = (
    '<robot name="arm"><link name="base"/>'
    + "".join(JOINT.format(n=n, parent=f"link{n - 1}" if n > 1 else "base", y=n % 2, z=1 - n % 2) for n in range(1, 7))
    + '<link name="tool0"/><joint name="mount" type="fixed"><origin xyz="0 0 0.1"/><parent link="link6"/>'
    '<child link="tool0"/></joint></robot>'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "arm.urdf").write_text(URDF)
    return tmp_path


def read(folder: Path, text: str) -> Robot:
    file = folder / "my_arm.toml"
    file.write_text(text)
    return find_robot(str(file))


def test_the_documented_ten_lines_describe_an_arm(folder: Path):
    lines = [line for line in EXAMPLES[0].splitlines() if line.strip()]
    assert len(lines) <= 10
    robot = read(folder, EXAMPLES[0])
    assert (robot.name, robot.control_hz, robot.state_size, robot.action_size) == ("my_arm", 30.0, 7, 7)
    assert robot.drives == {i: i for i in range(7)}
    np.testing.assert_allclose(robot.action_low, [-2.0] * 6 + [0.0])
    np.testing.assert_allclose(robot.action_high, [1.5] * 6 + [1.0])
    assert robot.grippers[0].stroke_steps == 15
    assert robot.grippers[0].state == (6,)
    chain = robot.arms[0].pose
    assert isinstance(chain, KinematicChain)
    assert chain.joints == tuple(range(6))
    assert chain.tool == (0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0)


def test_the_documented_end_effector_robot(folder: Path):
    robot = read(folder, EXAMPLES[1])
    assert robot.arms[0].pose == StatePose((0, 1, 2), (3, 4, 5, 6), "quaternion_wxyz")
    assert robot.actions[1].rotation == "axis_angle"
    assert robot.actions[0].scale == 0.02
    assert robot.drives == {}
    assert robot.grippers[0].state == (7,)


def test_every_known_robot_is_documented_with_its_sizes():
    rows = re.findall(r"^\| `(\w+)` \| (\d+): .*? \| (.*) \|$", DOCS.read_text(), flags=re.MULTILINE)
    assert [(name, int(state)) for name, state, _ in rows] == [
        (name, robot.state_size) for name, robot in ROBOTS.items()
    ]
    for name, _, action in rows:
        size = re.match(r"\d+", action)
        assert size is None or int(size[0]) == ROBOTS[name].action_size


def test_every_key_is_documented():
    from speedup_patch.robots.model_arms import JOINT_KEYS
    from speedup_patch.robots.toml_files import ACTION_KEYS, ARM_KEYS, GRIPPER_KEYS, ROBOT_KEYS

    text = DOCS.read_text()
    keys = {*ROBOT_KEYS, *ACTION_KEYS, *ARM_KEYS, *GRIPPER_KEYS}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
    assert [key for key in JOINT_KEYS if f"{key} =" not in text] == []
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("representation", ROTATION_SIZES)
def test_every_rotation_can_be_read(folder: Path, representation: str):
    turn = Rotation.from_rotvec([0.3, -0.8, 1.1])
    numbers = quaternion_to_rotation(turn.as_quat(), representation)
    names = [f"r{i}" for i in range(len(numbers))]
    robot = read(
        folder,
        f"""control_hz = 10
        state = ["x", "y", "z", {", ".join(repr(name) for name in names)}]
        actions = [{{ names = {names}, mode = "absolute", rotation = "{representation}", low = -4, high = 4 }}]
        arms = [{{ position = [0, 1, 2], rotation = {names}, representation = "{representation}" }}]""",
    )
    expected = np.array([1.0, 2.0, 3.0, *turn.as_quat()])
    assert pose_distance(robot.poses(np.array([1.0, 2.0, 3.0, *numbers]))[0], expected) < 1e-9
    assert robot.actions[0].rotation == representation


def test_targets_of_a_pose_in_the_state_drive_nothing(folder: Path):
    document = tomllib.loads(EXAMPLES[1])
    document["actions"][0].update(names=["x", "y", "z"], mode="absolute")
    robot = robot_from_toml(document, folder / "a.toml")
    assert robot.drives == {}
    assert command_matrix(robot).shape == (feature_size(robot), 7)
    document["actions"][0].update(drives=["x", "y", "z"])
    with pytest.raises(InputError, match=r"actions\[0\]: drives: an end-effector pose in the state is not driven"):
        robot_from_toml(document, folder / "a.toml")


def test_ratings_are_optional_and_do_not_make_another_robot(folder: Path):
    document = tomllib.loads(EXAMPLES[0])
    plain = robot_from_toml(document, folder / "a.toml")
    assert plain.rated_speeds == plain.rated_torques == ()
    rated = robot_from_toml(document | {"rated_speeds": [3.0] * 6, "rated_torques": [1] * 6}, folder / "a.toml")
    assert rated.rated_speeds == (3.0,) * 6
    assert rated.rated_torques == (1.0,) * 6
    assert rated == plain
    for bad, message in (([3.0, 0.0], "positive"), (["fast"], "finite number"), ([], "rated_speeds is empty")):
        with pytest.raises(InputError, match=message):
            robot_from_toml(document | {"rated_speeds": bad}, folder / "a.toml")
    with pytest.raises(InputError, match="2 rated speeds, but 1 rated torques"):
        robot_from_toml(document | {"rated_speeds": [1, 2], "rated_torques": [1]}, folder / "a.toml")


def arm_document(**arm: object) -> dict[str, Any]:
    """The documented example, with other keys in its arm."""
    document = tomllib.loads(EXAMPLES[0])
    document["arms"][0].update(arm)
    return document


def test_joints_under_other_names_units_and_fixed_ones(folder: Path):
    plain = robot_from_toml(arm_document(), folder / "a.toml")
    in_degrees = robot_from_toml(arm_document(degrees=True), folder / "a.toml")
    angles = np.random.default_rng(0).uniform(-1, 1, size=7)
    np.testing.assert_allclose(in_degrees.poses(np.degrees(angles)), plain.poses(angles), atol=1e-12)
    np.testing.assert_allclose(in_degrees.action_low[:6], np.degrees(-2.0))

    backwards = {f"joint{n}": {"state": f"joint{7 - n}", "scale": -2.0, "offset": 0.5} for n in range(1, 7)}
    turned = robot_from_toml(arm_document(joints=backwards), folder / "a.toml")
    same = np.append((angles[5::-1] - 0.5) / -2.0, 0.0)
    np.testing.assert_allclose(turned.poses(same), plain.poses(angles), atol=1e-12)
    np.testing.assert_allclose(turned.action_low[:6], (1.5 - 0.5) / -2.0)

    document = arm_document(joints=["joint1", "joint2"], fixed={f"joint{n}": 0.1 * n for n in range(3, 7)})
    document["actions"][0].update(low=-1, high=[1, 2, 3, 4, 5, 6])
    stiff = robot_from_toml(document, folder / "a.toml")
    standing = np.array([angles[0], angles[1], 0.3, 0.4, 0.5, 0.6, 0.0])
    np.testing.assert_allclose(stiff.poses(angles), plain.poses(standing), atol=1e-12)
    np.testing.assert_allclose(stiff.action_high[:6], [1, 2, 3, 4, 5, 6])


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "unknown key": (lambda d: d.update(contrl_hz=30), r"my\.toml: unknown key 'contrl_hz'; did you mean 'control_hz'"),
    "unknown arm key": (lambda d: d["arms"][0].update(bdy="x"), r"arms\[0\]: unknown key 'bdy'; did you mean 'body'"),
    "unknown gripper key": (
        lambda d: d["arms"][0]["gripper"].update(close=1),
        r"arms\[0\]\.gripper: unknown key 'close'; did you mean 'closed'",
    ),
    "missing key": (lambda d: d.pop("state"), "'state' is missing; an array of names"),
    "no frequency": (lambda d: d.pop("control_hz"), "'control_hz' is missing; a number would be right"),
    "bad frequency": (lambda d: d.update(control_hz=-1), "must be positive, not -1"),
    "frequency in words": (lambda d: d.update(control_hz="fast"), "control_hz must be a finite number, not 'fast'"),
    "true is no number": (lambda d: d.update(control_hz=True), "must be a finite number, not True"),
    "not finite": (lambda d: d["actions"][1].update(high=float("nan")), r"actions\[1\]: high must be a finite number"),
    "mode": (lambda d: d["actions"][0].update(mode="absolut"), "mode: unknown 'absolut'; did you mean 'absolute'"),
    "table": (lambda d: d.update(arms=[3]), r"arms\[0\] must be a table .* not 3"),
    "limits": (lambda d: d["actions"][0].update(low=[1, 2], high=3), "low holds 2 numbers; 1 or 6 would be right"),
    "half the limits": (lambda d: d["actions"][0].update(low=-1), "'high' is missing"),
    "crossed limits": (lambda d: d["actions"][1].update(low=2.0), "low limit 2.0 must not exceed the high limit 1.0"),
    "delta limits": (lambda d: d["actions"][0].update(mode="delta"), "'low' is missing"),
    "driven name": (
        lambda d: d["actions"][1].update(drives=["griper"]),
        "no dimension 'griper'; did you mean 'gripper",
    ),
    "index": (lambda d: d["actions"][1].update(drives=[7]), r"no dimension 7; 0\.\.6 would be right"),
    "delta drives": (
        lambda d: d["actions"][0].update(mode="delta", low=-1, high=1, drives=[0, 1, 2, 3, 4, 5]),
        "a delta command is no target",
    ),
    "rotation size": (lambda d: d["actions"][0].update(rotation="axis_angle"), "axis_angle takes 3 numbers"),
    "repeated name": (lambda d: d["state"].append("joint1"), r"a name of its own, repeated: \['joint1'\]"),
    "no pose": (lambda d: d.update(arms=[{"name": "a"}]), "where is the end-effector"),
    "two poses": (lambda d: d["arms"][0].update(position=[0, 1, 2]), "'position' has no meaning beside 'model'"),
    "model key alone": (
        lambda d: d.update(arms=[{"position": [0, 1, 2], "degrees": True}]),
        "'degrees' has no meaning without 'model'",
    ),
    "position size": (
        lambda d: d.update(arms=[{"position": [0, 1], "rotation": [3, 4, 5], "representation": "axis_angle"}]),
        "position takes 3 state dimensions, not 2",
    ),
    "no model": (lambda d: d["arms"][0].update(model="gone.urdf"), r"no model file at .*gone\.urdf"),
    "broken model": (lambda d: d["arms"][0].update(model="my.toml"), r"my\.toml cannot be read as URDF or MJCF"),
    "no body": (lambda d: d["arms"][0].update(body="tool1"), "no body 'tool1'; did you mean 'tool0'"),
    "hidden joint": (
        lambda d: d["arms"][0].update(joints=["joint1", "joint2"]),
        "does not show joint3, joint4, joint5, joint6; .* a fixed value",
    ),
    "strange joint": (lambda d: d["arms"][0].update(joints=["elbow"]), r"no dimension 'elbow'; .* joints = \{"),
    "strange fixed joint": (lambda d: d["arms"][0].update(fixed={"elbow": 1}), "no joint 'elbow' on the way"),
    "scale": (
        lambda d: d["arms"][0].update(joints={"joint1": {"state": "joint1", "scale": 0}}),
        r"joints\.joint1: scale must not be 0",
    ),
    "gripper action": (lambda d: d["arms"][0]["gripper"].update(action="joint1"), "action of mode gripper"),
    "gripper commands": (lambda d: d["arms"][0]["gripper"].update(open=0.0), "closed and open commands must differ"),
    "gripper stroke": (lambda d: d["arms"][0]["gripper"].pop("stroke_seconds"), "how long does a full stroke take"),
    "gripper strokes": (lambda d: d["arms"][0]["gripper"].update(stroke_steps=3), "one of them"),
    "no stroke": (
        lambda d: (d["arms"][0]["gripper"].pop("stroke_seconds"), d["arms"][0]["gripper"].update(stroke_steps=0)),
        "at least one control step",
    ),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG.keys())
def test_mistakes_name_the_file_the_key_and_what_would_be_right(folder: Path, change: Change, message: str):
    (folder / "my.toml").write_text(EXAMPLES[0])
    document = arm_document()
    change(document)
    with pytest.raises(InputError, match=message) as caught:
        robot_from_toml(document, folder / "my.toml")
    assert str(folder / "my.toml") in str(caught.value)


def test_files_that_are_missing_or_no_toml(folder: Path):
    with pytest.raises(InputError, match=r"no robot description at .*gone\.toml"):
        find_robot(str(folder / "gone.toml"))
    with pytest.raises(InputError, match=r"my_arm\.toml is not valid TOML: .*line 1"):
        read(folder, "control_hz = = 3")
    (folder / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml is not valid TOML"):
        find_robot(str(folder / "bytes.toml"))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.just(10**400),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["joint1", "gripper", "absolute", "delta", "axis_angle", "matrix", "arm.urdf", "tool0", "link2"]),
    st.lists(st.one_of(st.integers(-1, 8), st.text(max_size=4), st.floats()), max_size=4),
    st.dictionaries(st.sampled_from(["joint1", "state", "scale", "x"]), st.integers(-1, 7), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in ((*path, key), *places(item, (*path, key)))]


@given(data=st.data(), example=st.integers(0, 1), changes=st.integers(1, 3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_documents_give_a_robot_or_an_input_error(
    folder: Path, data: st.DataObject, example: int, changes: int
):
    document = deepcopy(tomllib.loads(EXAMPLES[example]))
    for _ in range(changes):
        place = data.draw(st.sampled_from(places(document) or [("name",)]))
        parent: Any = document
        for key in place[:-1]:
            parent = parent[key]
        if data.draw(st.booleans()) or not isinstance(parent, dict):
            parent[place[-1]] = data.draw(VALUES)
        elif data.draw(st.booleans()):
            parent[data.draw(st.sampled_from(["joints", "fixed", "drives", "site", "base", "scale", "zzz"]))] = (
                data.draw(VALUES)
            )
        else:
            del parent[place[-1]]
    try:
        robot = robot_from_toml(document, folder / "my.toml")
    except InputError:
        return
    assert robot.arms
    for arm in robot.arms:
        if isinstance(arm.pose, KinematicChain):
            assert np.isfinite(arm.pose.pose(np.zeros(robot.state_size))).all()


@given(text=st.text(max_size=60), cut=st.integers(0, 500))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_text_gives_a_robot_or_an_input_error(folder: Path, text: str, cut: int):
    (folder / "cut.toml").write_bytes(
        (EXAMPLES[0][:cut] + text + EXAMPLES[0][cut + 3 :]).encode("utf-8", "surrogatepass")
    )
    try:
        robot = find_robot(str(folder / "cut.toml"))
    except InputError:
        return
    assert robot.arms
