"""Robots described in a TOML file; docs/robots.md shows how."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast, get_args

from speedup_patch.errors import InputError
from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Mode, Robot
from speedup_patch.robots.model_arms import Limits, read_model_arm
from speedup_patch.robots.poses import ROTATION_SIZES, KinematicChain, Rotation, StatePose
from speedup_patch.robots.toml_tables import Table, as_number, dimensions, named

RATING_KEYS = ("rated_speeds", "rated_torques")
ROBOT_KEYS = ("name", "control_hz", "state", "actions", "arms", *RATING_KEYS)
ACTION_KEYS = ("names", "mode", "unit", "low", "high", "drives", "rotation", "scale")
STATE_POSE_KEYS = ("position", "rotation", "representation")
MODEL_KEYS = ("model", "body", "site", "base", "joints", "fixed", "degrees")
ARM_KEYS = ("name", "gripper", *STATE_POSE_KEYS, *MODEL_KEYS)
GRIPPER_KEYS = ("action", "state", "closed", "open", "stroke_steps", "stroke_seconds")


def read_robot(file: Path) -> Robot:
    """The robot that a TOML file describes."""
    if not file.is_file():
        raise InputError(f"no robot description at {file}")
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file} is not valid TOML: {error}") from error
    return robot_from_toml(document, file)


def robot_from_toml(document: Mapping[str, object], file: Path) -> Robot:
    """The robot in a parsed TOML document; ``file`` is named in errors, and models are found beside it."""
    table = Table(document, str(file), ROBOT_KEYS)
    state_names = table.names("state")
    parts = [
        Table(part, f"{file}: actions[{number}]", ACTION_KEYS)
        for number, part in enumerate(table.items("actions", "an array of action groups"))
    ]
    action_names = tuple(name for part in parts for name in part.names("names"))
    control_hz = table.number("control_hz")
    limits: Limits = {}
    arms = tuple(
        _arm(Table(part, f"{file}: arms[{number}]", ARM_KEYS), state_names, action_names, control_hz, limits, file)
        for number, part in enumerate(table.items("arms", "an array of arms"))
    )
    in_poses = {index for arm in arms if isinstance(arm.pose, StatePose) for index in arm.pose.state_indices}
    groups = tuple(_action_group(part, state_names, limits, in_poses) for part in parts)
    name = table.text("name") if "name" in table else file.stem
    speeds, torques = (_ratings(table, key) for key in RATING_KEYS)
    with named(str(file)):
        return Robot(name, control_hz, state_names, groups, arms, speeds, torques)


def _ratings(table: Table, key: str) -> tuple[float, ...]:
    if key not in table:
        return ()
    return tuple(as_number(item, table.at(key)) for item in table.items(key, "an array with a number for each joint"))


def _action_group(table: Table, state_names: tuple[str, ...], limits: Limits, in_poses: Collection[int]) -> ActionGroup:
    names, mode = table.names("names"), cast(Mode, table.choice("mode", get_args(Mode)))
    drives: tuple[int, ...] = ()
    if "drives" in table:
        drives = dimensions(table, "drives", state_names, "state", empty=True)
    elif mode != "delta" and set(names) <= set(state_names):
        drives = tuple(state_names.index(name) for name in names)
    if any(index in in_poses for index in drives):
        # Where an end-effector is belongs to its pose; only what is beside it counts as driven.
        if "drives" in table:
            raise InputError(f"{table.at('drives')}: an end-effector pose in the state is not driven; leave it out")
        drives = ()
    known = [limits[index] for index in drives if index in limits]
    if mode == "absolute" and len(known) == len(names) and "low" not in table and "high" not in table:
        low, high = tuple(limit[0] for limit in known), tuple(limit[1] for limit in known)
    else:
        low, high = table.numbers("low", len(names)), table.numbers("high", len(names))
    with named(table.place):
        return ActionGroup(
            names=names,
            mode=mode,
            unit=table.text("unit") if "unit" in table else "",
            low=low,
            high=high,
            drives=drives,
            rotation=_rotation(table, "rotation") if "rotation" in table else None,
            scale=table.number("scale") if "scale" in table else 1.0,
        )


def _arm(
    table: Table,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    control_hz: float,
    limits: Limits,
    file: Path,
) -> Arm:
    gripper = None
    if "gripper" in table:
        part = Table(table.value("gripper", "a table"), f"{table.place}.gripper", GRIPPER_KEYS)
        gripper = _gripper(part, state_names, action_names, control_hz)
    name = table.text("name") if "name" in table else "arm"
    return Arm(name, _pose(table, state_names, limits, file), gripper)


def _pose(table: Table, state_names: tuple[str, ...], limits: Limits, file: Path) -> KinematicChain | StatePose:
    given = [key for key in (*STATE_POSE_KEYS, *MODEL_KEYS) if key in table]
    if "model" in table:
        strange = [key for key in given if key in STATE_POSE_KEYS]
        if strange:
            raise InputError(f"{table.place}: {strange[0]!r} has no meaning beside 'model'; give one or the other")
        chain, found = read_model_arm(table, state_names, file.parent)
        limits.update(found)
        return chain
    if "position" not in table:
        raise InputError(
            f"{table.place}: where is the end-effector? Either 'position', 'rotation' and 'representation' name the "
            "state dimensions, or 'model' and 'body' name a URDF or MJCF file and its last link"
        )
    strange = [key for key in given if key in MODEL_KEYS]
    if strange:
        raise InputError(f"{table.place}: {strange[0]!r} has no meaning without 'model'")
    with named(table.place):
        x, y, z = _exactly_three(dimensions(table, "position", state_names, "state"))
        rotation = dimensions(table, "rotation", state_names, "state")
        return StatePose((x, y, z), rotation, _rotation(table, "representation"))


def _gripper(table: Table, state_names: tuple[str, ...], action_names: tuple[str, ...], control_hz: float) -> Gripper:
    (action, *more) = dimensions(table, "action", action_names, "action")
    if more:
        raise InputError(f"{table.at('action')} must name one action, not {1 + len(more)}")
    state = (state_names.index(action_names[action]),) if action_names[action] in state_names else ()
    if "state" in table:
        state = dimensions(table, "state", state_names, "state", empty=True)
    if ("stroke_steps" in table) == ("stroke_seconds" in table):
        raise InputError(
            f"{table.place}: how long does a full stroke take? Give 'stroke_seconds' or 'stroke_steps', one of them"
        )
    if "stroke_steps" in table:
        steps = table.whole_number("stroke_steps")
    else:
        steps = max(1, round(table.number("stroke_seconds") * control_hz))
    with named(table.place):
        return Gripper(action, state, table.number("closed"), table.number("open"), steps)


def _rotation(table: Table, key: str) -> Rotation:
    return cast(Rotation, table.choice(key, tuple(ROTATION_SIZES)))


def _exactly_three(indices: tuple[int, ...]) -> tuple[int, int, int]:
    if len(indices) != 3:
        raise InputError(f"position takes 3 state dimensions, not {len(indices)}")
    return (indices[0], indices[1], indices[2])
