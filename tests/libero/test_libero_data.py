"""A real LIBERO episode in LIBERO's own HDF5 layout, as ``.npz`` and as LeRobot v3.0: all read as the same."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("robosuite", reason="needs the LIBERO environment")
h5py = pytest.importorskip("h5py")

from speedup_patch.data import Demonstrations, Episode  # noqa: E402
from speedup_patch.datasets import read_demonstrations, write_demonstrations  # noqa: E402
from speedup_patch.envs import make_env  # noqa: E402
from speedup_patch.envs.libero import LiberoEnv  # noqa: E402
from speedup_patch.envs.libero_setup import task_file  # noqa: E402

pytestmark = pytest.mark.libero
STEPS = 40
JOINTS = "observation.joint_states"


@pytest.fixture(scope="module")
def recorded() -> Demonstrations:
    """Two short episodes of one task, driven at random."""
    env = make_env("libero/spatial/2")
    assert isinstance(env, LiberoEnv)
    return Demonstrations(tuple(record(env, seed) for seed in (0, 1)), env.robot.control_hz, env.robot.name)


def record(env: LiberoEnv, seed: int) -> Episode:
    observation = env.reset(seed)
    rng = np.random.default_rng(seed)
    states, actions, joints = [], [], []
    for _ in range(STEPS + seed):
        action = rng.uniform(-1, 1, 7)
        states.append(observation["state"])
        joints.append(env.simulator.arm_joints())
        actions.append(action)
        observation, _ = env.step(action)
    times = np.arange(len(states)) / env.robot.control_hz
    return Episode(np.array(states), np.array(actions), times, env.instruction, {JOINTS: np.array(joints)})


def write_like_libero(demonstrations: Demonstrations, path: Path) -> None:
    """What LIBERO's create_dataset script writes, without its pictures: each row holds what its action led to."""
    bddl = task_file(make_env("libero/spatial/2").task)  # pyright: ignore[reportAttributeAccessIssue]
    problem = {
        "problem_name": "libero_tabletop_manipulation",
        "domain_name": "robosuite",
        "language_instruction": demonstrations.episodes[0].task,
    }
    env_args = {
        "type": 1,
        "env_name": "Libero_Tabletop_Manipulation",
        "problem_name": problem["problem_name"],
        "bddl_file": str(bddl),
        "env_kwargs": {"robots": ["Panda"], "control_freq": 20, "camera_names": ["robot0_eye_in_hand", "agentview"]},
    }
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_name"] = env_args["env_name"]
        data.attrs["problem_info"] = json.dumps(problem)
        data.attrs["env_args"] = json.dumps(env_args)
        data.attrs["macros_image_convention"] = "opengl"
        data.attrs["bddl_file_name"] = str(bddl)
        data.attrs["bddl_file_content"] = bddl.read_text()
        for number, episode in enumerate(demonstrations):
            write_demo(data.create_group(f"demo_{number}"), episode)
        data.attrs["num_demos"] = len(demonstrations)
        data.attrs["total"] = demonstrations.frames


def write_demo(demo: "h5py.Group", episode: Episode) -> None:
    pose, fingers = episode.states[1:, :6], episode.states[1:, 6:]
    last = np.zeros(len(pose), dtype=np.uint8)
    last[-1] = 1
    obs = {
        "gripper_states": fingers,
        "joint_states": episode.extras[JOINTS][1:],
        "ee_states": pose,
        "ee_pos": pose[:, :3],
        "ee_ori": pose[:, 3:],
    }
    for name, column in obs.items():
        demo.create_dataset(f"obs/{name}", data=column)
    demo.create_dataset("actions", data=episode.actions[:-1])
    demo.create_dataset("states", data=np.zeros((len(pose), 92)))
    demo.create_dataset("robot_states", data=np.zeros((len(pose), 9)))
    demo.create_dataset("rewards", data=last)
    demo.create_dataset("dones", data=last)
    demo.attrs["num_samples"] = len(pose)
    demo.attrs["model_file"] = "<mujoco/>"
    demo.attrs["init_state"] = np.zeros(92)


def without_ends(episode: Episode) -> Episode:
    """What LIBERO's file can tell: its first action has no observation before it, its last observation no action."""
    inner = {name: column[1:-1] for name, column in episode.extras.items()}
    times = episode.timestamps[1:-1] - episode.timestamps[1]
    return Episode(episode.states[1:-1], episode.actions[1:-1], times, episode.task, inner)


def test_hdf5_npz_and_lerobot_give_the_same_demonstrations(recorded: Demonstrations, tmp_path: Path) -> None:
    hdf5 = tmp_path / "pick_up_the_black_bowl_from_table_center_and_place_it_on_the_plate_demo.hdf5"
    write_like_libero(recorded, hdf5)
    recorded = replace(recorded, episodes=tuple(map(without_ends, recorded)))
    write_demonstrations(recorded, tmp_path / "episodes.npz")
    write_demonstrations(recorded, tmp_path / "lerobot")
    read = {path.name: read_demonstrations(path) for path in (hdf5, tmp_path / "episodes.npz", tmp_path / "lerobot")}
    for name, demonstrations in read.items():
        assert demonstrations.control_hz == recorded.control_hz, name
        assert demonstrations.robot_name == "panda_libero", name
        assert [episode.task for episode in demonstrations] == [episode.task for episode in recorded], name
        for episode, original in zip(demonstrations, recorded, strict=True):
            np.testing.assert_array_equal(episode.states.astype(np.float32), original.states.astype(np.float32))
            np.testing.assert_array_equal(episode.actions.astype(np.float32), original.actions.astype(np.float32))
            np.testing.assert_allclose(episode.timestamps, original.timestamps, atol=1e-5)
    assert len({demonstrations.fingerprint() for demonstrations in read.values()}) == 1
