"""The episodes that the RLDS tests write and expect back, as plain arrays: numbers that float32 holds exactly."""

from dataclasses import dataclass

import numpy as np

LIBERO, DROID = "libero_tiny", "droid_tiny"
LIBERO_LENGTHS, DROID_LENGTHS = (5, 1, 8, 3), (4, 6)
LIBERO_TASKS = ("pick up the bowl", "öffne die Schublade", "", "pick up the bowl")
DROID_TASKS = ("put the pen in the cup", "wipe the table")
LIBERO_COLUMNS = {
    "observation/state": (8, "float32"),
    "observation/joint_state": (7, "float32"),
    "observation/contacts": (2, "int32"),
    "observation/packed": (3, "float64"),
    "observation/zipped": (2, "float32"),
    "action": (7, "float32"),
    "discount": (1, "float32"),
    "reward": (1, "float32"),
    "is_first": (1, "bool"),
    "is_last": (1, "bool"),
    "is_terminal": (1, "bool"),
}
"""Every column of a step that is a table of numbers: its width and its type."""
DROID_COLUMNS = {
    "observation/joint_position": (7, "float64"),
    "observation/gripper_position": (1, "float64"),
    "observation/cartesian_position": (6, "float64"),
    "action": (7, "float64"),
    "action_dict/joint_position": (7, "float64"),
    "action_dict/joint_velocity": (7, "float64"),
    "action_dict/gripper_position": (1, "float64"),
    "is_first": (1, "bool"),
    "is_last": (1, "bool"),
}


@dataclass(frozen=True)
class KnownEpisode:
    """One episode: its task and every column as (rows, width)."""

    task: str
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["action"])


def libero_episodes() -> list[KnownEpisode]:
    """Four episodes in the layout of modified_libero_rlds, plus one column in each further encoding."""
    return _draw(LIBERO_COLUMNS, LIBERO_LENGTHS, LIBERO_TASKS, seed=1)


def droid_episodes() -> list[KnownEpisode]:
    """Two episodes in the layout of DROID, which stores float64."""
    return _draw(DROID_COLUMNS, DROID_LENGTHS, DROID_TASKS, seed=2)


def _draw(
    columns: dict[str, tuple[int, str]], lengths: tuple[int, ...], tasks: tuple[str, ...], seed: int
) -> list[KnownEpisode]:
    rng = np.random.default_rng(seed)
    return [
        KnownEpisode(task, {name: _column(rng, length, *columns[name]) for name in columns})
        for length, task in zip(lengths, tasks, strict=True)
    ]


def _column(rng: np.random.Generator, length: int, width: int, dtype: str) -> np.ndarray:
    whole = rng.integers(-(2**20), 2**20, size=(length, width))
    if dtype == "bool":
        return whole > 0
    return (whole if dtype == "int32" else whole / 2**18).astype(dtype)
