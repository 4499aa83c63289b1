"""Franka Panda: the arm that LIBERO, robomimic and DROID share.

Link offsets are Franka's published Denavit-Hartenberg parameters, as the Panda's URDF and MJCF models write them.
"""

from math import sqrt

from speedup_patch.robots.poses import Link

_QUARTER = (sqrt(0.5), 0.0, 0.0, sqrt(0.5))
_QUARTER_BACK = (-sqrt(0.5), 0.0, 0.0, sqrt(0.5))
_AXIS = (0.0, 0.0, 1.0)

LINKS = (
    Link((0.0, 0.0, 0.333), _AXIS),
    Link((0.0, 0.0, 0.0), _AXIS, _QUARTER_BACK),
    Link((0.0, -0.316, 0.0), _AXIS, _QUARTER),
    Link((0.0825, 0.0, 0.0), _AXIS, _QUARTER),
    Link((-0.0825, 0.384, 0.0), _AXIS, _QUARTER_BACK),
    Link((0.0, 0.0, 0.0), _AXIS, _QUARTER),
    Link((0.088, 0.0, 0.0), _AXIS, _QUARTER),
)
"""From the base to link 7."""

FLANGE = (0.0, 0.0, 0.107, 0.0, 0.0, 0.0, 1.0)
"""Link 8, the flange, on link 7."""

RATED_SPEEDS = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)
"""rad/s, the joint velocity limits of Franka's data sheet."""
RATED_TORQUES = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
"""N m, the joint torque limits of the same sheet."""
