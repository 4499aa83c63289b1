"""The limits that an inspection shows are those that a patch is made with, and those that were put into the data."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from rich.console import Console

from sample_motions import demonstrate
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.inspect import inspect_demonstrations, look_at, render_inspection, summarise
from speedup_patch.limits import read_limits
from speedup_patch.robots import ALOHA, PANDA_LIBERO, ROBOTS

HZ, STEP, TURN, STROKE = 20.0, 0.01, 0.02, 10


def reach(saturated: int = 0) -> Episode:
    """A hand that moves STEP metres and turns TURN radians a step, and closes once, in STROKE steps.

    In the first ``saturated`` of its 100 steps it is commanded to its limit.
    """
    states, actions = np.zeros((100, 8)), np.zeros((100, 7))
    states[:, 0], states[:, 5] = STEP * np.arange(100), TURN * np.arange(100)
    actions[:, 0], actions[:, 5] = 0.5, 0.5
    actions[:saturated, 1] = PANDA_LIBERO.action_low[1]
    actions[:, 6] = np.where(np.arange(100) < 40, -1.0, 1.0)
    opening = 1.0 - np.clip((np.arange(100) - 40) / STROKE, 0.0, 1.0)
    states[:, 6], states[:, 7] = 0.04 * opening, -0.04 * opening
    return Episode(states, actions, np.arange(100) / HZ, "reach")


def reaches(saturated: int = 0) -> Demonstrations:
    return Demonstrations((reach(saturated),) * 3, HZ, "panda_libero")


def text(found) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_inspection(found))
    return capture.get()


def test_how_long_fingers_press_what_they_hold_is_shown() -> None:
    episode, steps = reach(), np.arange(100)
    opening = np.where(steps < 67, 0.5, np.minimum(0.5 + (steps - 66) / STROKE, 1.0))
    states, actions = episode.states.copy(), episode.actions.copy()
    states[:, 6], states[:, 7] = 0.04 * opening, -0.04 * opening
    actions[:, 6] = np.where((steps < 20) | (steps >= 60), -1.0, 1.0)
    demonstrations = Demonstrations((reach(), replace(episode, states=states, actions=actions)), HZ, "panda_libero")
    found = inspect_demonstrations(demonstrations, PANDA_LIBERO)
    assert found.limits is not None
    (gripper,) = found.limits.grippers
    assert gripper.letting_go_steps == 7  # told at step 60, and further open at step 67
    assert gripper.letting_go_seconds == pytest.approx(7 / HZ)
    assert "what it holds it lets go of within 7 steps (0.35 s)" in text(found)


def test_speeds_and_strokes_are_those_of_the_data_in_seconds() -> None:
    found = inspect_demonstrations(reaches(), PANDA_LIBERO)
    assert found.limits is not None
    assert found.no_limits is None
    (arm,), (gripper,) = found.limits.arms, found.limits.grippers
    assert (arm.metres_per_second, arm.radians_per_second) == pytest.approx((HZ * STEP, HZ * TURN))
    assert (arm.lag_steps, arm.lag_seconds) == (0, 0)  # motions are no targets
    assert gripper.closing.strokes == 3
    assert gripper.closing.stroke_steps == pytest.approx(STROKE, rel=0.02)
    assert gripper.closing.stroke_seconds == pytest.approx(STROKE / HZ, rel=0.02)
    assert gripper.closing.delay_seconds == pytest.approx(gripper.closing.delay_steps / HZ)
    assert asdict(gripper.opening) == {
        "strokes": 0, "delay_steps": None, "delay_seconds": None, "stroke_steps": None, "stroke_seconds": None,
        "jumps": False, "approach_metres_per_second": None,
    }  # fmt: skip
    assert gripper.closing.jumps
    shown = text(found)
    assert f"arm {arm.arm}: 0.20 m/s, 0.40 rad/s" in shown
    assert "behind its commands" not in shown
    assert "no opening in free motion; closing starts after" in shown
    assert (gripper.letting_go_steps, gripper.letting_go_seconds) == (None, None)
    assert "lets go" not in shown
    assert "3 strokes, the command jumps" in shown


@pytest.mark.parametrize("saturated", [0, 25, 100])
def test_saturation_is_the_share_of_frames_at_the_limit(saturated: int) -> None:
    limits = inspect_demonstrations(reaches(saturated), PANDA_LIBERO).limits
    assert limits is not None
    shares = {group.actions: group.at_limit for group in limits.saturation}
    groups = [group.names for group in PANDA_LIBERO.actions if group.mode == "delta"]
    assert list(shares) == groups
    assert [shares[names] for names in groups] == pytest.approx(
        [saturated / 100 if PANDA_LIBERO.action_names[1] in names else 0.0 for names in groups]
    )


def test_targets_have_a_lag_and_no_saturation() -> None:
    demonstrations = demonstrate(ALOHA, episodes=4)
    found = inspect_demonstrations(demonstrations, ALOHA)
    read = read_limits(ALOHA, demonstrations)
    assert found.limits is not None
    assert found.limits.saturation == ()
    assert [arm.lag_steps for arm in found.limits.arms] == [arm.lag for arm in read.arms]
    assert all(arm.lag_seconds == arm.lag_steps / ALOHA.control_hz > 0 for arm in found.limits.arms)
    assert [joint.pull for joint in found.limits.joints] == [
        pull
        for action, pull in zip(ALOHA.drives, read.pulls, strict=True)
        if "gripper" not in ALOHA.action_names[action]
    ]
    assert [joint.lag_steps for joint in found.limits.joints] == [
        lag for action, lag in zip(ALOHA.drives, read.lags, strict=True) if "gripper" not in ALOHA.action_names[action]
    ]
    assert all(joint.per_second > 0 for joint in found.limits.joints)
    assert found.limits.joints[0].name in text(found)
    assert "behind its commands" in text(found)
    assert "at the action limit" not in text(found)


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_every_robot_shows_the_limits_of_its_patch(name: str) -> None:
    robot = ROBOTS[name]
    demonstrations = demonstrate(robot, episodes=3)
    limits = inspect_demonstrations(demonstrations, robot).limits
    read = read_limits(robot, demonstrations)
    assert limits is not None
    assert [arm.arm for arm in limits.arms] == [arm.name for arm in robot.arms]
    for shown, arm in zip(limits.arms, read.arms, strict=True):
        assert (shown.metres_per_second, shown.radians_per_second) == (
            robot.control_hz * arm.speed,
            robot.control_hz * arm.turn,
        )
    for shown, gripper in zip(limits.grippers, read.grippers, strict=True):
        assert (shown.opening.strokes, shown.closing.strokes) == (gripper.opening.strokes, gripper.closing.strokes)


def test_a_large_data_set_shows_the_limits_of_its_sample() -> None:
    demonstrations = demonstrate(PANDA_LIBERO, episodes=40, length=100)
    whole = inspect_demonstrations(demonstrations, PANDA_LIBERO).limits
    part = summarise(look_at(demonstrations, PANDA_LIBERO, most_frames=4000)).limits
    assert whole is not None
    assert part is not None
    assert 0 < part.grippers[0].closing.strokes < whole.grippers[0].closing.strokes
    assert part.arms[0].metres_per_second == pytest.approx(whole.arms[0].metres_per_second, rel=0.15)


def test_without_a_robot_or_enough_frames_it_says_why_there_are_no_limits() -> None:
    clean = demonstrate(ALOHA, episodes=3)
    narrow = replace(clean, episodes=tuple(replace(e, states=e.states[:, :9], actions=e.actions[:, :9]) for e in clean))
    found = inspect_demonstrations(narrow)
    assert (found.limits, found.no_limits) == (None, "the robot is not known")
    assert "limits: not read, because the robot is not known" in text(found)
    short = inspect_demonstrations(demonstrate(ALOHA, episodes=3, length=10), ALOHA)
    assert short.limits is None
    assert "limits: not read, because no episode is longer than its start" in text(short)
