"""Phases of episodes whose course is known."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_arm import SMALL_ARM, demonstrate, follow
from speedup_patch.errors import InputError
from speedup_patch.evaluation.phases import NEAR, PHASES, find_arm_phases, find_phases, trace_limits
from speedup_patch.evaluation.traces import Trace
from speedup_patch.limits import read_limits
from speedup_patch.robots import ALOHA
from stand_ins import DELTA_ROBOT

LIMITS = read_limits(SMALL_ARM, demonstrate())


def ramp(*points):
    """A column that moves in straight lines through (step, value)."""
    steps, values = zip(*points, strict=True)
    return np.interp(np.arange(steps[-1]), steps, values)


def trace_of(states, actions):
    steps = len(actions)
    last = np.concatenate([states, states[-1:]])
    chunk = actions[None].astype(np.float32)
    done = np.arange(1, steps + 1, dtype=np.float32)[None]
    return Trace(last.astype(np.float32), actions, np.array([0]), chunk, done)


def small_arm_trace(gripper, shoulder):
    actions = np.stack([shoulder, np.zeros_like(shoulder), gripper], axis=1)
    return trace_of(follow(actions), actions)


def pick_and_place():
    """Opens on the way, grasps at 1.0 rad, carries back, lets go at 0, and goes on."""
    gripper = ramp((0, 0), (20, 0), (30, 1), (150, 1), (160, 0), (290, 0), (300, 1), (400, 1))
    shoulder = ramp((0, 0), (20, 0), (120, 1), (180, 1), (260, 0), (320, 0), (380, 1), (400, 1))
    return small_arm_trace(gripper, shoulder)


def stretches(phases):
    ends = np.flatnonzero(np.diff(phases, append=-1)) + 1
    return [(PHASES[phase], int(end)) for (phase, _), end in zip(groupby(phases.tolist()), ends, strict=True)]


def test_picking_and_placing_has_every_phase_in_its_order():
    found = stretches(find_phases(SMALL_ARM, LIMITS, pick_and_place()))
    assert [name for name, _ in found] == ["reach", "approach", "grasp", "carry", "approach", "place", "reach"]
    ends = [end for _, end in found]
    assert ends[1] == pytest.approx(150, abs=2)
    assert 160 <= ends[2] <= 180
    assert ends[4] == pytest.approx(290, abs=2)
    assert 300 <= ends[5] <= 320


def test_the_approach_begins_five_centimetres_before_the_grasp():
    trace = pick_and_place()
    (_, far), (_, grasp), *_ = stretches(find_phases(SMALL_ARM, LIMITS, trace))
    path = SMALL_ARM.poses(trace.states.astype(np.float64))[:, 0, :3]
    away = np.linalg.norm(path[:grasp] - path[grasp], axis=1)
    assert away[far - 1] > NEAR
    assert (away[far:] <= NEAR).all()


def test_opening_with_nothing_in_hand_is_part_of_the_reach():
    gripper = ramp((0, 0), (20, 0), (30, 1), (100, 1))
    phases = find_phases(SMALL_ARM, LIMITS, small_arm_trace(gripper, ramp((0, 0), (100, 1))))
    assert stretches(phases) == [("reach", 100)]


@given(st.integers(0, 2**32 - 1))
def test_a_command_that_trembles_about_the_middle_is_one_grasp(seed):
    gripper = ramp((0, 1), (50, 1), (54, 0.5), (70, 0.5), (74, 0), (140, 0))
    gripper[54:70] += np.random.default_rng(seed).uniform(-0.09, 0.09, 16)
    names = [name for name, _ in stretches(find_phases(SMALL_ARM, LIMITS, small_arm_trace(gripper, np.zeros(140))))]
    assert names == ["approach", "grasp", "carry"]


def test_a_place_that_ends_the_episode_lasts_until_its_end():
    """Too few steps to see the fingers come to rest, and no limits that tell how long an opening takes."""
    steps = 90
    actions = np.zeros((steps, 7))
    actions[:, 6] = np.where((np.arange(steps) >= 40) & (np.arange(steps) < 87), 1.0, -1.0)
    states = np.zeros((steps, 7))
    states[:, 6] = ramp((0, 0.04), (40, 0.04), (50, 0.01), (87, 0.01), (90, 0.012))
    trace = trace_of(states, actions)
    limits = trace_limits(DELTA_ROBOT, [trace])
    assert limits.grippers[0].opening.strokes == 0
    assert stretches(find_phases(DELTA_ROBOT, limits, trace))[-1] == ("place", 90)


def test_of_two_arms_the_more_delicate_one_counts():
    steps = 150
    actions = np.tile([0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 1.0] * 2, (steps, 1))
    actions[:, 6], actions[:, 13] = ramp((0, 1), (30, 1), (40, 0), (150, 0)), ramp((0, 1), (100, 1), (110, 0), (150, 0))
    actions[:, [0, 7]] = ramp((0, 0), (30, 0), (100, 0.8), (150, 0.8))[:, None]
    limits = trace_limits(ALOHA, [trace_of(actions.copy(), actions)])
    trace = trace_of(actions.copy(), actions)
    apart, together = find_arm_phases(ALOHA, limits, trace), find_phases(ALOHA, limits, trace)
    assert PHASES[apart[105, 0]] == "carry"
    assert PHASES[apart[105, 1]] == PHASES[together[105]] == "grasp"
    assert PHASES[apart[35, 1]] == "reach"
    assert PHASES[together[35]] == "grasp"
    assert PHASES[together[60]] == "carry"


def test_commands_whose_sign_alone_counts_and_fingers_that_measure_in_metres():
    steps = 120
    actions = np.zeros((steps, 7))
    actions[:, 6] = np.where((np.arange(steps) >= 40) & (np.arange(steps) < 80), 1.0, -1.0)
    finger = ramp((0, 0.04), (40, 0.04), (50, 0.01), (80, 0.01), (90, 0.04), (120, 0.04))
    states = np.zeros((steps, 7))
    states[:, 6], states[:, 0] = finger, ramp((0, 0), (40, 0.4), (50, 0.4), (80, 0), (120, 0))
    trace = trace_of(states, actions)
    found = stretches(find_phases(DELTA_ROBOT, trace_limits(DELTA_ROBOT, [trace]), trace))
    assert [name for name, _ in found] == ["reach", "approach", "grasp", "carry", "approach", "place", "reach"]
    assert found[1][1] == 40
    assert 48 <= found[2][1] <= 54
    assert found[4][1] == 80


def test_episodes_too_short_to_read_limits_from_say_so():
    with pytest.raises(InputError, match="limits cannot be read"):
        trace_limits(SMALL_ARM, [small_arm_trace(np.ones(10), np.zeros(10))])
