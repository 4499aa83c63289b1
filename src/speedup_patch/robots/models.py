"""Kinematic chains out of a URDF or MJCF file: MuJoCo parses it once, and nothing else ever needs it again."""

# pyright: reportAttributeAccessIssue=false
# mujoco ships no types.

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.maths.poses import axis_angle_to_quaternion, compose_poses
from speedup_patch.robots.poses import HERE, KinematicChain, Link
from speedup_patch.robots.suggestions import nearest

Pose = Float[np.ndarray, "7"]
"""Position in metres, quaternion (x, y, z, w)."""


@dataclass(frozen=True)
class Reading:
    """How the state shows a joint: it stands at ``scale * states[index] + offset``, in radians or metres."""

    index: int
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class ModelJoint:
    """One hinge or slide on the way to the end-effector."""

    name: str
    slides: bool
    frame: Pose
    """Where it sits, in the frame of the joint before it when that one stands at its reference."""
    axis: Float[np.ndarray, "3"]
    reference: float
    """The joint value at which the model is drawn, radians or metres."""
    limits: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class ModelPath:
    """The joints from a model's base to a named body or site, and what follows the last of them."""

    what: str
    joints: tuple[ModelJoint, ...]
    tool: Pose

    def chain(self, readings: Mapping[str, Reading], fixed: Mapping[str, float]) -> KinematicChain:
        """The chain whose joints the state shows as ``readings`` say; those in ``fixed`` stand still at that value."""
        names = [joint.name for joint in self.joints]
        for given in (*readings, *fixed):
            if given not in names:
                raise InputError(f"{self.what}: no joint {given!r} on the way{nearest(given, names)}")
        missing = [name for name in names if name not in readings and name not in fixed]
        if missing:
            raise InputError(
                f"{self.what}: the state does not show {', '.join(missing)}; name the state dimension of each, "
                "or give it a fixed value"
            )
        return self._chain(readings, fixed)

    def _chain(self, readings: Mapping[str, Reading], fixed: Mapping[str, float]) -> KinematicChain:
        links: list[Link] = []
        indices: list[int] = []
        pending: Pose = np.array(HERE)
        for joint in self.joints:
            frame = compose_poses(pending, joint.frame)
            pending = np.array(HERE)
            if joint.name in fixed:
                pending = compose_poses(frame, _moved(joint, fixed[joint.name] - joint.reference))
                continue
            reading = readings[joint.name]
            links.append(
                Link(
                    position=_triple(frame[:3]),
                    axis=_triple(joint.axis),
                    quaternion=_quadruple(frame[3:]),
                    slides=joint.slides,
                    scale=reading.scale,
                    offset=reading.offset - joint.reference,
                )
            )
            indices.append(reading.index)
        tool = compose_poses(pending, self.tool)
        if not links:
            raise InputError(f"{self.what}: no joint on the way moves, so the pose never changes")
        return KinematicChain(tuple(indices), HERE, tuple(links), tuple(tool.tolist()))


def read_model_path(
    file: Path, *, body: str | None = None, site: str | None = None, base: str | None = None
) -> ModelPath:
    """The way from the world, or from the body ``base``, to a body or site of a URDF or MJCF file."""
    model = _compile(file)
    if (body is None) == (site is None):
        raise InputError(f"{file}: name either the body or the site whose pose counts")
    what = f"{file}: {'body' if body else 'site'} {body or site!r}"
    tool = np.array(HERE)
    if site is not None:
        number = _find(model.nsite, model.site, site, f"{file}: no site")
        end, tool = int(model.site_bodyid[number]), _pose(model.site_pos[number], model.site_quat[number])
    else:
        end = _find(model.nbody, model.body, body or "", f"{file}: no body")
    start = _find(model.nbody, model.body, base, f"{file}: no body") if base else 0
    return _walk(model, start, end, tool, what, base)


def _walk(model: Any, start: int, end: int, tool: Pose, what: str, base: str | None) -> ModelPath:
    bodies: list[int] = []
    while end != start:
        if end == 0:
            raise InputError(f"{what} does not hang on body {base!r}; a body between the world and it would be right")
        bodies.insert(0, end)
        end = int(model.body_parentid[end])
    joints: list[ModelJoint] = []
    pending: Pose = np.array(HERE)
    for body in bodies:
        pending = compose_poses(pending, _pose(model.body_pos[body], model.body_quat[body]))
        first = int(model.body_jntadr[body])
        for number in range(first, first + int(model.body_jntnum[body])):
            anchor = _pose(model.jnt_pos[number])
            joints.append(_joint(model, number, compose_poses(pending, anchor), what))
            pending = _pose(-model.jnt_pos[number])
    return ModelPath(what, tuple(joints), compose_poses(pending, tool))


def _joint(model: Any, number: int, frame: Pose, what: str) -> ModelJoint:
    import mujoco

    kind, name = int(model.jnt_type[number]), model.joint(number).name or f"(unnamed joint {number})"
    if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
        raise InputError(f"{what}: joint {name} on the way is free or a ball; start behind it with a base body")
    limits = model.jnt_range[number].tolist() if model.jnt_limited[number] else None
    return ModelJoint(
        name=name,
        slides=kind == mujoco.mjtJoint.mjJNT_SLIDE,
        frame=frame,
        axis=model.jnt_axis[number].copy(),
        reference=float(model.qpos0[model.jnt_qposadr[number]]),
        limits=(limits[0], limits[1]) if limits else None,
    )


def _compile(file: Path) -> Any:
    """The compiled model without anything that has a shape, so that missing mesh files do not matter."""
    try:
        import mujoco
    except ImportError as error:
        raise InputError(
            f"reading {file} needs MuJoCo: pip install 'speedup-patch[mujoco]' (only here: the patch does not need it)"
        ) from error
    if not file.is_file():
        raise InputError(f"no model file at {file}; a URDF or MJCF file would be right")
    try:
        spec = mujoco.MjSpec.from_file(str(file))
        _strip(spec)
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        complaint = " ".join(str(error).split())
        raise InputError(f"{file} cannot be read as URDF or MJCF: {complaint}") from error


def _strip(spec: Any) -> None:
    """Leaves bodies, joints and sites; what is massless gets a mass, since MuJoCo insists on it."""
    kinds = (
        *("keys", "sensors", "actuators", "tendons", "equalities", "pairs", "excludes", "skins", "flexes", "tuples"),
        *("cameras", "lights", "geoms", "meshes", "hfields", "materials", "textures", "plugins"),
    )
    for kind in kinds:
        for element in list(getattr(spec, kind)):
            spec.delete(element)
    spec.compiler.fusestatic = False  # a URDF's fixed links would lose their names
    for body in spec.bodies[1:]:
        body.explicitinertial = True
        body.mass, body.inertia = 1.0, np.ones(3)
        body.ipos, body.iquat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        body.fullinertia = np.array([np.nan, 0.0, 0.0, 0.0, 0.0, 0.0])


def _find(count: int, element: Any, name: str, complaint: str) -> int:
    names = [str(element(number).name) for number in range(count)]
    if name not in names:
        raise InputError(f"{complaint} {name!r}{nearest(name, names)}")
    return names.index(name)


def _pose(position: Float[np.ndarray, "3"], wxyz: Float[np.ndarray, "4"] | None = None) -> Pose:
    return np.concatenate([position, np.array(HERE[3:]) if wxyz is None else np.roll(wxyz, -1)])


def _moved(joint: ModelJoint, value: float) -> Pose:
    if joint.slides:
        return _pose(value * joint.axis)
    return np.concatenate([np.zeros(3), axis_angle_to_quaternion(value * joint.axis)])


def _triple(values: Float[np.ndarray, "3"]) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return (x, y, z)


def _quadruple(values: Float[np.ndarray, "4"]) -> tuple[float, float, float, float]:
    x, y, z, w = values.tolist()
    return (x, y, z, w)
