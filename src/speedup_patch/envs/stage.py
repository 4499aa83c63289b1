"""What a film of a MuJoCo environment needs: its physics, where to look from, and what to leave out."""

# MuJoCo is a compiled module without type stubs.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import mujoco


class View(NamedTuple):
    """A camera that looks at a point (metres) from a distance (metres), turned and tilted (degrees)."""

    point: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float


@dataclass(frozen=True, eq=False)
class Stage:
    """The moment that an environment is at, ready to be rendered."""

    model: mujoco.MjModel
    data: mujoco.MjData
    view: View | str
    """Where to look from, or the name of one of the model's own cameras."""
    hidden_groups: tuple[int, ...] = ()
    """Geometry that is there for contacts only."""
    headlight: float | None = None
    """The light that comes from the camera, 0 .. 1; None leaves it as the model has it."""


@runtime_checkable
class Filmed(Protocol):
    """An environment that can be rendered."""

    @property
    def stage(self) -> Stage: ...
