"""An inspection measures what was put into the data and notices what is wrong with it."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.errors import InputError
from speedup_patch.inspect import Inspection, inspect_demonstrations, render_inspection
from speedup_patch.inspect.strokes import find_flips, stroke_steps
from speedup_patch.robots import ALOHA, ActionGroup, Arm, Gripper, Robot, StatePose

PANDA = Robot(
    name="panda",
    control_hz=20.0,
    state_names=("x", "y", "z", "rx", "ry", "rz", "finger"),
    actions=(
        ActionGroup(("dx", "dy", "dz"), "delta", "1", (-1.0,) * 3, (1.0,) * 3),
        ActionGroup(("drx", "dry", "drz"), "delta", "1", (-1.0,) * 3, (1.0,) * 3, rotation="axis_angle"),
        ActionGroup(("gripper",), "gripper", "1", (-1.0,), (1.0,)),
    ),
    arms=(
        Arm(
            "arm",
            StatePose((0, 1, 2), (3, 4, 5), "axis_angle"),
            Gripper(action=6, state=(6,), closed=1.0, open=-1.0, stroke_steps=10),
        ),
    ),
)
STEP, TURN, FINGER = 0.01, 0.02, 0.004


def _panda(length: int = 100, flips: tuple[int, ...] = (30, 70), stroke: int = 10, pause: int = 0) -> Episode:
    """Straight motion at STEP metres and TURN radians a step; every flip moves the finger for ``stroke`` steps."""
    states, actions = np.zeros((length, 7)), np.zeros((length, 7))
    moving = np.arange(length) >= pause
    states[:, 0] = STEP * np.cumsum(moving)
    states[:, 5] = TURN * np.cumsum(moving)
    actions[:, 0] = actions[:, 5] = 0.5 * moving
    opening = np.sum([np.arange(length) >= flip for flip in flips], axis=0) % 2 == 1
    actions[:, 6] = np.where(opening, 1.0, -1.0)
    for step in range(1, length):
        target = FINGER * stroke * opening[step - 1]
        states[step, 6] = states[step - 1, 6] + np.clip(target - states[step - 1, 6], -FINGER, FINGER)
    return Episode(states.astype(np.float32), actions.astype(np.float32), np.arange(length) / 20, "reach")


def _demonstrations(*episodes: Episode, control_hz: float = 20.0) -> Demonstrations:
    return Demonstrations(episodes, control_hz, "panda")


def _kinds(inspection: Inspection) -> set[str]:
    return {finding.kind for finding in inspection.findings}


def test_sizes_lengths_and_tasks_are_counted() -> None:
    demonstrations = _demonstrations(_panda(100), _panda(120), replace(_panda(140), task="push"))
    found = inspect_demonstrations(demonstrations, PANDA, dataset="my data")
    assert (found.episodes, found.frames, found.control_hz, found.robot) == (3, 360, 20.0, "panda")
    assert (found.lengths.minimum, found.lengths.p50, found.lengths.maximum) == (100, 120, 140)
    assert [(count.task, count.episodes) for count in found.tasks] == [("reach", 2), ("push", 1)]
    assert found.train_command == "sup train 'my data' --robot panda --out 'my data.patch'"


def test_dimensions_have_the_range_of_the_data() -> None:
    episode = _panda()
    found = inspect_demonstrations(_demonstrations(episode), PANDA)
    assert [dimension.name for dimension in found.state] == list(PANDA.state_names)
    assert [dimension.name for dimension in found.action] == list(PANDA.action_names)
    assert found.state[0].maximum == pytest.approx(episode.states[:, 0].max())
    assert found.action[6].minimum == -1.0
    assert found.state[5].std == pytest.approx(episode.states[:, 5].std(dtype=np.float64))


def test_speeds_are_those_of_the_motion_and_do_not_reach_across_episodes() -> None:
    found = inspect_demonstrations(_demonstrations(_panda(100), _panda(50)), PANDA)
    (arm,) = found.arms
    for profile, per_step in ((arm.metres_per_second, STEP), (arm.radians_per_second, TURN)):
        assert profile.mean == pytest.approx(20 * per_step, rel=1e-3)
        assert profile.maximum == pytest.approx(20 * per_step, rel=1e-3)


@given(flips=st.lists(st.booleans(), min_size=1, max_size=30))
def test_a_flip_is_a_change_of_side(flips: list[bool]) -> None:
    commands = np.where(np.cumsum(flips) % 2 == 1, 0.9, 0.1)
    assert len(find_flips(commands, 0.5)) == sum(flips[1:])


@given(stroke=st.integers(2, 20), start=st.integers(1, 20))
def test_a_stroke_lasts_until_the_finger_is_there(stroke: int, start: int) -> None:
    finger = np.clip((np.arange(80) - start) / stroke, 0, 1)[:, None]
    (steps,) = stroke_steps(finger, np.array([start]), np.ones(1), horizon=40)
    assert steps == stroke


def test_fingers_that_creep_on_later_are_not_waited_for() -> None:
    finger = np.clip(np.arange(80) / 10, 0, 1) + 0.2 * (np.arange(80) > 40)
    assert stroke_steps(finger[:, None], np.array([1]), np.full(1, 1.2), horizon=79) == [9]


def test_strokes_that_cannot_be_timed_are_left_out() -> None:
    still = np.zeros((50, 1))
    never_resting = np.arange(50.0)[:, None]
    for fingers in (still, never_resting):
        assert stroke_steps(fingers, np.array([10]), np.ones(1), horizon=30) == []
    late = np.clip((np.arange(50) - 40) / 10, 0, 1)[:, None]
    assert stroke_steps(late, np.array([40]), np.ones(1), horizon=30) == []


def test_gripper_use_is_measured() -> None:
    found = inspect_demonstrations(_demonstrations(_panda(), _panda(flips=(50,))), PANDA)
    (use,) = found.grippers
    assert (use.flips_per_episode, use.strokes, use.robot_stroke_steps) == (1.5, 3, 10)
    assert use.stroke_steps_p50 == use.stroke_steps_p90 == 10


def test_pauses_are_frames_without_a_moving_command() -> None:
    assert inspect_demonstrations(_demonstrations(_panda()), PANDA).pause_share == 0.0
    paused = inspect_demonstrations(_demonstrations(_panda(100, flips=(50,), pause=20)), PANDA)
    assert paused.pause_share == pytest.approx(0.2)


def test_a_clean_data_set_shows_only_what_is_there() -> None:
    found = inspect_demonstrations(_demonstrations(_panda(100), _panda(110)), PANDA)
    assert _kinds(found) == {"constant_state", "constant_action"}
    assert "y, z, rx, ry" in found.findings[0].message


def _with_jump(episode: Episode) -> Episode:
    states = episode.states.copy()
    states[40:, 0] += 1.0
    return replace(episode, states=states)


def _wrapping(episode: Episode) -> Episode:
    states = episode.states.copy()
    states[40:, 5] -= 2 * np.pi
    return replace(episode, states=states)


@pytest.mark.parametrize(
    ("episodes", "kind", "message"),
    [
        ([_with_jump(_panda()), _panda(90)], "jump", "state x jumps 1 times, most by 1.01 into episode 0, row 40"),
        ([_panda(), replace(_panda(90), timestamps=np.arange(90) / 10)], "timestamps", "frames come early or late"),
        ([replace(_panda(), timestamps=np.arange(100) / 30)], "timestamps", "timestamps say 30.00 Hz, but"),
        ([replace(_panda(), timestamps=np.zeros(100))], "timestamps", "timestamps say no steady clock"),
        ([_panda()], "one_episode", "only one episode"),
        (
            [_panda(), _panda(24)],
            "short_episodes",
            "1 episodes are not longer than a chunk of 24 actions, first episode 1",
        ),
        ([_panda(), _panda(90), _panda()], "repeated_episodes", "1 episodes repeat another exactly, first 2 repeats 0"),
        ([replace(_panda(), actions=3 * _panda().actions)], "beyond_limits", "action dx leaves -1 .. 1 in 100.00%"),
    ],
)
def test_what_is_suspicious_is_found(episodes: list[Episode], kind: str, message: str) -> None:
    found = inspect_demonstrations(_demonstrations(*episodes), PANDA)
    assert any(finding.kind == kind and message in finding.message for finding in found.findings), found.findings


def test_a_rotation_that_wraps_around_is_no_jump() -> None:
    assert "jump" not in _kinds(inspect_demonstrations(_demonstrations(_wrapping(_panda())), PANDA))


def test_another_frequency_than_the_robots_is_noticed() -> None:
    episode = replace(_panda(), timestamps=np.arange(100) / 10)
    assert "control_hz" in _kinds(inspect_demonstrations(_demonstrations(episode, control_hz=10.0), PANDA))


def _aloha(length: int = 60, names: str = "aloha") -> Demonstrations:
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(scale=0.01, size=(length + 1, 14)), axis=0).astype(np.float32)
    return Demonstrations((Episode(states[:-1], states[1:], np.arange(length) / 50),), 50.0, names)


@pytest.mark.parametrize("robot_name", ["aloha", "unknown"])
def test_actions_copied_from_the_next_state_are_noticed(robot_name: str) -> None:
    assert "actions_are_next_states" in _kinds(inspect_demonstrations(_aloha(names=robot_name)))
    episode = _aloha().episodes[0]
    same = Demonstrations((replace(episode, actions=episode.states),), 50.0, robot_name)
    assert "actions_are_states" in _kinds(inspect_demonstrations(same))


def test_a_robot_is_recognised_by_name_or_names_but_not_by_sizes_alone() -> None:
    assert inspect_demonstrations(_aloha()).robot == "aloha"
    assert inspect_demonstrations(_aloha(names=""), state_names=ALOHA.state_names).robot == "aloha"
    unknown = inspect_demonstrations(_aloha(names="yam"))
    assert (unknown.robot, unknown.looks_like) == (None, ("aloha",))
    assert (unknown.arms, unknown.grippers, unknown.pause_share) == ((), (), None)
    assert unknown.state[0].name == "state_0"
    assert "--robot ROBOT" in unknown.train_command
    assert inspect_demonstrations(_demonstrations(_panda())).looks_like == ()


def test_a_robot_of_other_sizes_is_refused() -> None:
    with pytest.raises(InputError, match="demos has 7 state and 7 action dimensions, but robot 'aloha' has 14 and 14"):
        inspect_demonstrations(_demonstrations(_panda()), ALOHA, dataset="demos")


def test_the_smallest_data_set_can_be_inspected() -> None:
    found = inspect_demonstrations(_demonstrations(_panda(1, flips=())), PANDA)
    assert found.arms == ()
    assert found.grippers[0].stroke_steps_p50 is None


@pytest.mark.parametrize("robot", [PANDA, None])
def test_an_inspection_is_json_and_text(robot: Robot | None) -> None:
    found = inspect_demonstrations(
        _demonstrations(_panda(), replace(_panda(), task="[red] cup")), robot, dataset="demos"
    )
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["frames"] == 200
    console = Console(width=100)
    with console.capture() as capture:
        console.print(render_inspection(found))
    text = capture.get()
    for expected in ("demos: 2 episodes, 200 frames at 20 Hz", "[red] cup (1)", found.train_command):
        assert expected in text
    assert ("a stroke takes 10 steps" in text) == (robot is not None)
