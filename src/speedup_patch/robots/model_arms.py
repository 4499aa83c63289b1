"""Arms whose kinematics a TOML file takes from a URDF or MJCF model."""

from collections.abc import Mapping
from math import radians
from pathlib import Path
from typing import cast

from speedup_patch.errors import InputError
from speedup_patch.robots.models import ModelPath, Reading, read_model_path
from speedup_patch.robots.poses import KinematicChain
from speedup_patch.robots.suggestions import nearest
from speedup_patch.robots.toml_tables import Table, as_number, dimension, kind, named

JOINT_KEYS = ("state", "scale", "offset")

Limits = dict[int, tuple[float, float]]
"""State dimension -> the lowest and highest value that the model lets its joint have, in the state's units."""


def read_model_arm(table: Table, state_names: tuple[str, ...], folder: Path) -> tuple[KinematicChain, Limits]:
    """The chain that ``model``, ``body`` or ``site``, ``base``, ``joints``, ``fixed`` and ``degrees`` describe."""
    body, site, base = (table.text(key) if key in table else None for key in ("body", "site", "base"))
    with named(table.place):
        path = read_model_path(folder / table.text("model"), body=body, site=site, base=base)
    fixed = _fixed(table)
    readings = _readings(table, path, state_names, fixed)
    with named(table.place):
        return path.chain(readings, fixed), _limits(path, readings)


def _fixed(table: Table) -> dict[str, float]:
    if "fixed" not in table:
        return {}
    values = table.value("fixed", "a table")
    if not isinstance(values, Mapping):
        raise InputError(f"{table.at('fixed')} must be a table of joint = value, not {kind(values)}")
    return {
        str(name): as_number(value, f"{table.at('fixed')}.{name}")
        for name, value in cast(Mapping[str, object], values).items()
    }


def _readings(
    table: Table, path: ModelPath, state_names: tuple[str, ...], fixed: Mapping[str, float]
) -> dict[str, Reading]:
    hinges = {joint.name for joint in path.joints if not joint.slides}
    scale = radians(1.0) if table.flag("degrees") else 1.0
    if "joints" not in table:
        names = [joint.name for joint in path.joints if joint.name not in fixed and joint.name in state_names]
        given: dict[str, object] = {name: name for name in names}
    else:
        given = _given_joints(table)
    return {
        name: _reading(item, f"{table.at('joints')}.{name}", state_names, scale if name in hinges else 1.0)
        for name, item in given.items()
    }


def _given_joints(table: Table) -> dict[str, object]:
    values = table.value("joints", "an array of joint names")
    if isinstance(values, Mapping):
        return {str(name): item for name, item in cast(Mapping[str, object], values).items()}
    return {name: name for name in table.names("joints")}


def _reading(item: object, place: str, state_names: tuple[str, ...], scale: float) -> Reading:
    if not isinstance(item, Mapping):
        if isinstance(item, str) and item not in state_names:
            raise InputError(
                f"{place}: the state has no dimension {item!r}{nearest(item, state_names)} Joints whose names differ "
                'are given as a table: joints = { joint_in_the_model = "name_in_the_state" }'
            )
        return Reading(dimension(item, place, state_names, "state"), scale)
    part = Table(cast(object, item), place, JOINT_KEYS)
    index = dimension(part.value("state", "the name of a state dimension"), part.at("state"), state_names, "state")
    own_scale = part.number("scale") if "scale" in part else scale
    if own_scale == 0:
        raise InputError(f"{part.at('scale')} must not be 0")
    return Reading(index, own_scale, part.number("offset") if "offset" in part else 0.0)


def _limits(path: ModelPath, readings: Mapping[str, Reading]) -> Limits:
    found: Limits = {}
    for joint in path.joints:
        reading = readings.get(joint.name)
        if reading and joint.limits:
            low, high = sorted((limit - reading.offset) / reading.scale for limit in joint.limits)
            found[reading.index] = (low, high)
    return found
