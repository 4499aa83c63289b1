"""Robots as plain dictionaries and lists, the way JSON holds them."""

from typing import Any

from speedup_patch.errors import InputError
from speedup_patch.robots.description import ActionGroup, Arm, Gripper, Robot
from speedup_patch.robots.poses import HERE, KinematicChain, Link, StatePose

Plain = dict[str, Any]


def robot_from_json(document: Any) -> Robot:
    """Rebuilds a robot from what ``dataclasses.asdict`` and JSON make of it."""
    try:
        return Robot(
            name=document["name"],
            control_hz=float(document["control_hz"]),
            state_names=tuple(document["state_names"]),
            actions=tuple(ActionGroup(**_with_tuples(part)) for part in document["actions"]),
            arms=tuple(_arm(part) for part in document["arms"]),
            # Patches made before a robot had ratings have none.
            rated_speeds=tuple(float(rating) for rating in document.get("rated_speeds", ())),
            rated_torques=tuple(float(rating) for rating in document.get("rated_torques", ())),
        )
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"the description of a robot is damaged: {error!r}") from error


def _arm(part: Plain) -> Arm:
    gripper = part.get("gripper")
    return Arm(part["name"], _pose(part["pose"]), Gripper(**_with_tuples(gripper)) if gripper else None)


def _pose(part: Plain) -> KinematicChain | StatePose:
    if "links" not in part:
        return StatePose(**_with_tuples(part))
    links = tuple(Link(**_with_tuples(link)) for link in part["links"])
    # Patches made before a chain could end in a tool have none.
    return KinematicChain(tuple(part["joints"]), tuple(part["base"]), links, tuple(part.get("tool", HERE)))


def _with_tuples(part: Plain) -> Plain:
    """The same dictionary, with the tuples that JSON turned into lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in part.items()}
