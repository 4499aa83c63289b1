"""Chains with units, slides and tools; poses in the state; what is refused."""

import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA, ActionGroup, Arm, Gripper, KinematicChain, Link, Robot, StatePose
from speedup_patch.robots.poses import HERE

UP, ALONG = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)


def test_a_crane_by_hand():
    """A column that turns, a trolley that slides out, a hook that hangs 0.5 m below it."""
    chain = KinematicChain(
        joints=(1, 0),
        base=(1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        links=(Link((0.0, 0.0, 3.0), UP, scale=np.pi / 180), Link((0.2, 0.0, 0.0), ALONG, slides=True, offset=0.1)),
        tool=(0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 2.0),
    )
    pose = chain.pose(np.array([[0.7, 90.0], [0.0, 0.0]]))
    np.testing.assert_allclose(pose[0], [1.0, 3.0, 2.5, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)], atol=1e-12)
    np.testing.assert_allclose(pose[1], [1.3, 2.0, 2.5, 0.0, 0.0, 0.0, 1.0], atol=1e-12)


def test_a_rotation_that_is_none_is_named():
    pose = StatePose((0, 1, 2), (3, 4, 5, 6), "quaternion_xyzw")
    states = np.ones((5, 7))
    states[3, 3:] = 0.0
    with pytest.raises(InputError, match=r"\(3, 4, 5, 6\) hold no quaternion_xyzw: .* index \(3,\)"):
        pose.pose(states)


def test_bad_chains_are_refused():
    with pytest.raises(InputError, match="axis must be 3 finite numbers"):
        Link((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    with pytest.raises(InputError, match="quaternion"):
        Link((0.0, 0.0, 0.0), UP, (0.0, 0.0, 0.0, 0.0))
    with pytest.raises(InputError, match="scale"):
        Link((0.0, 0.0, 0.0), UP, scale=0.0)
    with pytest.raises(InputError, match="one link per joint"):
        KinematicChain((0, 1), HERE, (Link((0.0, 0.0, 0.0), UP),))
    with pytest.raises(InputError, match="base must be 7"):
        KinematicChain((0,), (0.0,) * 7, (Link((0.0, 0.0, 0.0), UP),))
    with pytest.raises(InputError, match="axis_angle takes 3"):
        StatePose((0, 1, 2), (3, 4, 5, 6), "axis_angle")


def test_robots_refer_only_to_what_they_have():
    pose = StatePose((0, 1, 2), (3, 4, 5), "axis_angle")
    command = ActionGroup(("grip",), "gripper", "", (0.0,), (1.0,))
    names = ("a", "b", "c", "d", "e", "f")
    with pytest.raises(InputError, match=r"state indices must lie in 0\.\.4"):
        Robot("r", 10.0, names[:5], (command,), (Arm("arm", pose),))
    with pytest.raises(InputError, match="commanded by action 1"):
        Robot("r", 10.0, names, (command,), (Arm("arm", pose, Gripper(1, (), 0.0, 1.0, 5)),))
    for hertz in (0.0, -5.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="frequency must be positive"):
            ALOHA.at(hertz)
