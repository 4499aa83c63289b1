"""Raw episodes of any format become episodes here; what every format must not contain is refused here too."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Episode
from speedup_patch.datasets.selection import Chosen, Part
from speedup_patch.datasets.source import Column, RawEpisode
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot, StatePose

SMALLEST_NORM = 1e-6
"""A quaternion shorter than this has no direction."""


def assemble(
    raw: RawEpisode, chosen: Chosen, columns: Mapping[str, Column], control_hz: float, robot: Robot | None = None
) -> Episode:
    """The episode, in float32; anything wrong with it is an error that names file, episode, column and row."""
    _refuse_other_shapes(raw, chosen, columns)
    tables = {name: _as_float32(raw.columns[name]) for name in chosen.columns}
    for name, table in tables.items():
        _refuse_non_finite(table, name, raw)
    episode = Episode(
        states=_side_by_side(chosen.state, tables),
        actions=_side_by_side(chosen.action, tables),
        timestamps=_timestamps(raw, len(tables[chosen.state[0].column]), control_hz),
        task=raw.task,
        extras={name: tables[name] for name in chosen.extras},
    )
    if robot:
        _refuse_empty_quaternions(episode.states, robot, chosen.state, raw)
    return episode


def _refuse_other_shapes(raw: RawEpisode, chosen: Chosen, columns: Mapping[str, Column]) -> None:
    lengths = {name: len(raw.columns[name]) for name in chosen.columns}
    if raw.timestamps is not None:
        lengths["timestamps"] = len(raw.timestamps)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise InputError(
            f"{raw.where}: columns differ in their number of rows in episode {raw.number}: {listed}; "
            f"each needs one row per control step"
        )
    if 0 in lengths.values():
        raise InputError(f"{raw.where}: episode {raw.number} has no rows; it needs at least one control step")
    for name in chosen.columns:
        found, width = raw.columns[name].shape[1], columns[name].width
        if found != width:
            raise InputError(
                f"{raw.where}: column {name!r} has {found} dimensions in episode {raw.number}, "
                f"but {width} in the data set; every episode needs the same"
            )


def _as_float32(table: Float[np.ndarray, "T D"]) -> Float[np.ndarray, "T D"]:
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes infinite, and is refused as such
        return table.astype(np.float32, copy=False)


def _refuse_non_finite(table: Float[np.ndarray, "T D"], name: str, raw: RawEpisode) -> None:
    finite = np.isfinite(table)
    if not finite.all():
        row, dimension = (int(i) for i in np.argwhere(~finite)[0])
        raise InputError(
            f"{raw.where}: column {name!r} holds {table[row, dimension]} in episode {raw.number}, row {row}, "
            f"dimension {dimension}; every value must be a finite float32"
        )


def _side_by_side(parts: Sequence[Part], tables: Mapping[str, Float[np.ndarray, "T _"]]) -> Float[np.ndarray, "T D"]:
    """One whole column as it is; parts are copied, so that the columns they come from need not be kept."""
    if len(parts) == 1 and parts[0].whole:
        return tables[parts[0].column]
    return np.concatenate([tables[part.column][:, part.start : part.stop] for part in parts], axis=1)


def _timestamps(raw: RawEpisode, rows: int, control_hz: float) -> Float[np.ndarray, " T"]:
    if raw.timestamps is None:
        return np.arange(rows) / control_hz
    timestamps = raw.timestamps.astype(np.float64, copy=False)
    wrong = np.flatnonzero(~np.isfinite(timestamps))
    if len(wrong):
        raise InputError(
            f"{raw.where}: timestamps hold {timestamps[wrong[0]]} in episode {raw.number}, row {wrong[0]}; "
            f"every value must be a finite number of seconds"
        )
    back = np.flatnonzero(np.diff(timestamps) < 0) + 1
    if len(back):
        raise InputError(
            f"{raw.where}: timestamps go back from {timestamps[back[0] - 1]:g} to {timestamps[back[0]]:g} s "
            f"in episode {raw.number}, row {back[0]}; rows must be in the order of time"
        )
    return timestamps


def _refuse_empty_quaternions(
    states: Float[np.ndarray, "T S"], robot: Robot, parts: Sequence[Part], raw: RawEpisode
) -> None:
    for arm in robot.arms:
        pose = arm.pose
        if not isinstance(pose, StatePose) or not pose.representation.startswith("quaternion"):
            continue
        empty = np.flatnonzero(np.linalg.norm(states[:, list(pose.rotation)], axis=1) < SMALLEST_NORM)
        if len(empty):
            column = ", ".join(repr(part.column) for part in parts)
            raise InputError(
                f"{raw.where}: the quaternion of arm {arm.name!r} (column {column}, state dimensions "
                f"{list(pose.rotation)}) has norm zero in episode {raw.number}, row {empty[0]}; it must have norm one"
            )
