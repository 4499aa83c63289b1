"""Small HDF5 data sets in the layouts of LIBERO, robomimic and ALOHA, as their own writers lay them out."""

import json
from pathlib import Path

import h5py
import numpy as np

LENGTHS = (6, 4, 9)
LIBERO_WIDTHS = {
    "obs/ee_states": 6,
    "obs/ee_pos": 3,
    "obs/ee_ori": 3,
    "obs/gripper_states": 2,
    "obs/joint_states": 7,
    "actions": 7,
    "robot_states": 9,
    "states": 20,
}
ROBOMIMIC_WIDTHS = {
    "obs/robot0_eef_pos": 3,
    "obs/robot0_eef_quat": 4,
    "obs/robot0_gripper_qpos": 2,
    "obs/object": 10,
    "actions": 7,
    "states": 32,
}
ALOHA_WIDTHS = {"observations/qpos": 14, "observations/qvel": 14, "observations/effort": 14, "action": 14}


def draw_columns(widths: dict[str, int], length: int, seed: int) -> dict[str, np.ndarray]:
    """Numbers for every column that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-(2**20), 2**20, (length, width)) / 2**18 for name, width in widths.items()}


def write_robomimic(path: Path, widths: dict[str, int], task: str = "open the drawer") -> list[dict[str, np.ndarray]]:
    """Writes one file as LIBERO's and robomimic's scripts do, and returns what it holds, one dictionary per episode."""
    episodes = [draw_columns(widths, length, seed) for seed, length in enumerate(LENGTHS)]
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Kitchen", "type": 1, "env_kwargs": {"control_freq": 20}})
        data.attrs["problem_info"] = json.dumps({"language_instruction": task})
        data.attrs["total"] = sum(LENGTHS)
        for number, (episode, length) in enumerate(zip(episodes, LENGTHS, strict=True)):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            for name, column in episode.items():
                demo.create_dataset(name, data=column)
            demo.create_dataset("obs/agentview_rgb", data=np.zeros((length, 4, 4, 3), np.uint8), compression="gzip")
            demo.create_dataset("next_obs/joint_states", data=np.zeros((length, 7)))
            for name in ("rewards", "dones"):
                demo.create_dataset(name, data=np.zeros(length, np.uint8))
    return episodes


def write_aloha(path: Path, length: int, seed: int = 0, compressed: bool = False) -> dict[str, np.ndarray]:
    """Writes one episode as ACT's ``record_sim_episodes.py`` does, and returns its columns."""
    columns = draw_columns(ALOHA_WIDTHS, length, seed)
    with h5py.File(path, "w", rdcc_nbytes=1024**2 * 2) as file:
        file.attrs["sim"] = True
        file.attrs["compress"] = compressed
        images = file.create_group("observations").create_group("images")
        shape = (length, 50) if compressed else (length, 4, 6, 3)
        images.create_dataset("top", shape, dtype="uint8", chunks=(1, *shape[1:]))
        for name, column in columns.items():
            file.create_dataset(name, data=column.astype(np.float32))
        if compressed:
            file.create_dataset("compress_len", data=np.full((1, length), 50.0))
    return columns
