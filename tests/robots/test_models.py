"""Chains taken out of URDF and MJCF files, against MuJoCo's own kinematics of the same files."""

from pathlib import Path

import gym_aloha.constants as gym_constants
import mujoco
import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.robots.models import Reading, read_model_path

HEAVY = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
URDF = f"""<robot name="arm">
  <link name="base_link"/>
  <link name="upper">{HEAVY}</link>
  <link name="rail">{HEAVY}</link>
  <link name="wrist">{HEAVY}</link>
  <link name="tool0"/>
  <joint name="turn" type="revolute">
    <origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/><parent link="base_link"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1.5" effort="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic">
    <origin xyz="0.1 0 0.3" rpy="1 0 0"/><parent link="upper"/><child link="rail"/><axis xyz="0 1 1"/>
    <limit lower="0" upper="0.4" effort="1" velocity="1"/></joint>
  <joint name="roll" type="continuous">
    <origin xyz="0.1 0.2 0.3" rpy="0 0 -1.2"/><parent link="rail"/><child link="wrist"/><axis xyz="1 0 0"/></joint>
  <joint name="mount" type="fixed">
    <origin xyz="0 0 0.1" rpy="0 1.5708 0"/><parent link="wrist"/><child link="tool0"/></joint>
</robot>"""
"""Hinge, slide, hinge without limits, fixed tool; every frame turned."""

MJCF = """<mujoco><compiler angle="degree"/><worldbody>
  <body name="stand" pos="0.1 0.2 0.3" euler="10 20 30">
    <body name="one" pos="0 0.1 0.2" quat="0.8 0.1 -0.3 0.5">
      <joint name="hinge" axis="0 1 0.5" pos="0.02 -0.03 0.04" ref="25" range="-90 90"/>
      <joint name="slide" type="slide" axis="1 0 1" ref="0.1"/>
      <geom size="0.1"/>
      <frame pos="0.1 0 0" euler="0 40 0"><body name="two" pos="0.3 0 0">
        <joint name="wrist" axis="1 2 3" pos="0 0.05 0"/>
        <geom size="0.1"/>
        <site name="tip" pos="0.1 0 0.05" euler="0 90 10"/>
        <body name="finger" pos="0 0 0.1"><joint name="grip" type="slide"/><geom size="0.1"/></body>
      </body></frame>
    </body>
  </body>
  <body name="thing"><freejoint name="loose"/><geom size="0.1"/><body name="lid" pos="0 0 1"/></body>
</worldbody></mujoco>"""
"""Two joints on one body, joints away from the body's origin, references that are not zero, a site."""


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def quaternion_gap(found: np.ndarray, wxyz: np.ndarray) -> float:
    expected = np.roll(wxyz, -1)
    return float(min(np.abs(found - expected).max(), np.abs(found + expected).max()))


def largest_gap(file: Path, joints: list[str], end: dict[str, str], fixed: dict[str, float]) -> float:
    """The largest difference from MuJoCo over random joint values."""
    spec = mujoco.MjSpec.from_file(str(file))
    spec.compiler.fusestatic = False
    model = spec.compile()
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    readings = {name: Reading(index, scale=0.5 + index, offset=0.1) for index, name in enumerate(joints)}
    chain = read_model_path(file, **end).chain(readings, fixed)
    gap = 0.0
    for state in rng.uniform(-1, 1, size=(20, len(joints))):
        for name, reading in readings.items():
            data.qpos[model.joint(name).qposadr[0]] = reading.scale * state[reading.index] + reading.offset
        for name, value in fixed.items():
            data.qpos[model.joint(name).qposadr[0]] = value
        mujoco.mj_kinematics(model, data)
        pose = chain.pose(state)
        if "site" in end:
            place, wxyz = data.site(end["site"]).xpos, np.empty(4)
            mujoco.mju_mat2Quat(wxyz, data.site(end["site"]).xmat)
        else:
            place, wxyz = data.body(end["body"]).xpos, data.body(end["body"]).xquat
        gap = max(gap, float(np.abs(pose[:3] - place).max()), quaternion_gap(pose[3:], wxyz))
    return gap


@pytest.mark.parametrize("fixed", [{}, {"slide": 0.25}, {"turn": -0.4, "roll": 2.0}], ids=["none", "slide", "hinges"])
def test_urdf_chains_match_mujoco(tmp_path: Path, fixed: dict[str, float]):
    file = write(tmp_path, "arm.urdf", URDF)
    joints = [name for name in ("roll", "turn", "slide") if name not in fixed]
    assert largest_gap(file, joints, {"body": "tool0"}, fixed) < 1e-6


@pytest.mark.parametrize("end", [{"site": "tip"}, {"body": "two"}], ids=["site", "body"])
@pytest.mark.parametrize("fixed", [{}, {"hinge": 0.7}, {"slide": -0.2, "wrist": 0.3}], ids=["none", "first", "others"])
def test_mjcf_chains_match_mujoco(tmp_path: Path, end: dict[str, str], fixed: dict[str, float]):
    file = write(tmp_path, "arm.xml", MJCF)
    joints = [name for name in ("slide", "wrist", "hinge") if name not in fixed]
    assert largest_gap(file, joints, end, fixed) < 1e-6


def test_gym_alohas_arms_match_mujoco():
    file = gym_constants.ASSETS_DIR / "bimanual_viperx_transfer_cube.xml"
    parts = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
    for side in ("left", "right"):
        joints = [f"vx300s_{side}/{part}" for part in parts]
        assert largest_gap(file, joints, {"body": f"vx300s_{side}/gripper_link"}, {}) < 1e-6


def test_a_chain_can_start_at_a_body(tmp_path: Path):
    file = write(tmp_path, "arm.xml", MJCF)
    whole = read_model_path(file, site="tip").chain({"hinge": Reading(0)}, {"slide": 0.1, "wrist": 0.0})
    part = read_model_path(file, site="tip", base="stand").chain({"hinge": Reading(0)}, {"slide": 0.1, "wrist": 0.0})
    first, second = np.zeros(1), np.array([0.8])
    moved = [float(np.linalg.norm(np.diff([c.pose(first)[:3], c.pose(second)[:3]], axis=0))) for c in (whole, part)]
    assert moved[0] == pytest.approx(moved[1], abs=1e-12)
    assert np.linalg.norm(whole.pose(first)[:3] - part.pose(first)[:3]) > 0.1
    assert [joint.name for joint in read_model_path(file, body="lid", base="thing").joints] == []


def test_missing_meshes_and_massless_links_do_not_matter(tmp_path: Path):
    mesh = '<visual><geometry><mesh filename="package://gone/upper.dae"/></geometry></visual>'
    bare = write(tmp_path, "bare.urdf", URDF.replace(HEAVY, mesh))
    full = write(tmp_path, "full.urdf", URDF)
    with pytest.raises(ValueError, match=r"upper\.dae|mass"):
        mujoco.MjModel.from_xml_path(str(bare))
    readings = {name: Reading(index) for index, name in enumerate(("turn", "slide", "roll"))}
    chains = [read_model_path(file, body="tool0").chain(readings, {}) for file in (bare, full)]
    assert chains[0] == chains[1]


def test_limits_come_with_the_joints(tmp_path: Path):
    path = read_model_path(write(tmp_path, "arm.urdf", URDF), body="tool0")
    assert [(joint.name, joint.slides, joint.limits) for joint in path.joints] == [
        ("turn", False, (-1.0, 1.5)),
        ("slide", True, (0.0, 0.4)),
        ("roll", False, None),
    ]


def test_mistakes_are_named(tmp_path: Path):
    file = write(tmp_path, "arm.urdf", URDF)
    path = read_model_path(file, body="tool0")
    with pytest.raises(InputError, match=r"does not show slide, roll; .* fixed value"):
        path.chain({"turn": Reading(0)}, {})
    with pytest.raises(InputError, match="no joint 'rol' on the way; did you mean 'roll'"):
        path.chain({"rol": Reading(0)}, {})
    with pytest.raises(InputError, match="never changes"):
        path.chain({}, {"turn": 0.0, "slide": 0.0, "roll": 0.0})
    with pytest.raises(InputError, match=r"arm\.urdf: no body 'tool'; did you mean 'tool0'"):
        read_model_path(file, body="tool")
    with pytest.raises(InputError, match="no site 'tip'; there are none"):
        read_model_path(file, site="tip")
    with pytest.raises(InputError, match="either the body or the site"):
        read_model_path(file)
    with pytest.raises(InputError, match=r"no model file at .*nowhere\.urdf"):
        read_model_path(tmp_path / "nowhere.urdf", body="tool0")
    with pytest.raises(InputError, match=r"bad\.urdf cannot be read as URDF or MJCF"):
        read_model_path(write(tmp_path, "bad.urdf", "<robot><link"), body="tool0")
    scene = write(tmp_path, "arm.xml", MJCF)
    with pytest.raises(InputError, match="loose on the way is free"):
        read_model_path(scene, body="lid")
    with pytest.raises(InputError, match="does not hang on body 'thing'"):
        read_model_path(scene, body="two", base="thing")


def test_without_mujoco_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(InputError, match=r"speedup-patch\[mujoco\]"):
        read_model_path(write(tmp_path, "arm.urdf", URDF), body="tool0")
