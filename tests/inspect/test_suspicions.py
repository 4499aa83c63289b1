"""Data with exactly one defect gives exactly one kind of finding, which names where it is and what to do."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sample_motions import change, demonstrate
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.inspect import Inspection, inspect_demonstrations
from speedup_patch.robots import ALOHA, PANDA_LIBERO, PANDA_ROBOMIMIC, Robot

ALL = list(range(6))
GRIPPERS = [6, 13]
JOINTS = [i for i in range(14) if i not in GRIPPERS]


def _kinds(found: Inspection) -> set[str]:
    return {finding.kind for finding in found.findings}


def _edit(table: np.ndarray, rows: slice, columns: int | list[int], edit: Callable[[np.ndarray], object]) -> np.ndarray:
    edited = table.copy()
    edited[rows, columns] = edit(edited[rows, columns])
    return edited


def _states(data: Demonstrations, numbers: list[int], columns, edit, rows: slice = slice(None)) -> Demonstrations:
    return change(data, numbers, states=lambda e: _edit(e.states, rows, columns, edit))


def _actions(data: Demonstrations, numbers: list[int], columns, edit, rows: slice = slice(None)) -> Demonstrations:
    return change(data, numbers, actions=lambda e: _edit(e.actions, rows, columns, edit))


def _both(data: Demonstrations, numbers: list[int], columns, edit) -> Demonstrations:
    return _actions(_states(data, numbers, columns, edit), numbers, columns, edit)


def _differences(episode: Episode) -> np.ndarray:
    deltas = np.diff(episode.states, axis=0)
    deltas = np.concatenate([deltas, deltas[-1:]])
    return np.where(np.isin(np.arange(14), GRIPPERS), episode.actions, deltas)


def _targets(episode: Episode) -> np.ndarray:
    actions = episode.actions.copy()
    actions[:, :3] = np.roll(episode.states[:, :3], -1, axis=0)
    actions[-1] = actions[-2]
    return np.clip(actions, -1, 1)


def _standardise(data: Demonstrations) -> Demonstrations:
    table = np.concatenate([episode.actions for episode in data])
    return _actions(data, ALL, slice(None), lambda a: (a - table.mean(axis=0)) / table.std(axis=0))


def _scale_to_one(data: Demonstrations) -> Demonstrations:
    table = np.concatenate([episode.actions for episode in data])
    low, high = table.min(axis=0), table.max(axis=0)
    return _actions(data, ALL, slice(None), lambda a: 2 * (a - low) / (high - low) - 1)


def _wait(episode: Episode, steps: int, at_end: bool) -> Episode:
    pad = ((0, steps), (0, 0)) if at_end else ((steps, 0), (0, 0))
    states, actions = (np.pad(table, pad, mode="edge") for table in (episode.states, episode.actions))
    return replace(episode, states=states, actions=actions, timestamps=np.arange(len(states)) / 50)


def _with(data: Demonstrations, number: int, episode: Episode) -> Demonstrations:
    return replace(data, episodes=(*data.episodes[:number], episode, *data.episodes[number + 1 :]))


def _cut(episode: Episode, length: int) -> Episode:
    states, actions = episode.states[:length], episode.actions[:length]
    return replace(episode, states=states, actions=actions, timestamps=episode.timestamps[:length])


ALOHA_DATA, LIBERO_DATA = demonstrate(ALOHA), demonstrate(PANDA_LIBERO)
ROBOMIMIC_DATA = demonstrate(PANDA_ROBOMIMIC)
DEFECTS: dict[str, tuple[Robot, Demonstrations, set[str], str]] = {
    "constant state": (ALOHA, _states(ALOHA_DATA, ALL, 3, np.zeros_like), {"constant_state"}, "left_forearm_roll"),
    "constant action": (PANDA_LIBERO, _actions(LIBERO_DATA, ALL, 4, np.zeros_like),
        {"constant_action"}, "1 of 7 action dimensions never change: turn_y"),
    "jump in a state": (ALOHA, _states(ALOHA_DATA, [2], 0, lambda x: -3.1 * np.sign(x), slice(80, 81)),
        {"jump"}, "state left_waist (2 times) jumps in 1 of 6 episodes (2)"),
    "jump in an action": (ALOHA, _actions(ALOHA_DATA, [4], 7, lambda x: np.clip(-x + 2, -3, 3), slice(70, 71)),
        {"action_jump"}, "action right_waist (2 times) jumps in 1 of 6 episodes (4)"),
    "gripper in another range": (ALOHA, _actions(ALOHA_DATA, [1, 5], 6, lambda x: 0.04 * x),
        {"gripper_range"}, "gripper left is commanded in another range in 2 of 6 episodes (1, 5)"),
    "gripper with another sign": (PANDA_LIBERO, _actions(LIBERO_DATA, [3], 6, lambda x: -x),
        {"gripper_sign"}, "gripper arm has its sign reversed in 1 of 6 episodes (3)"),
    "quaternions that flip": (PANDA_ROBOMIMIC,
        _states(ROBOMIMIC_DATA, [0], [3, 4, 5, 6], lambda q: -q, slice(50, None)),
        {"quaternion_sign"}, "changes its sign 1 times in 1 of 6 episodes (0), first into episode 0, row 50"),
    "an episode in degrees": (ALOHA, _both(ALOHA_DATA, [2], JOINTS, np.degrees),
        {"degrees_between_episodes", "beyond_limits", "state_beyond_limits"}, "in 1 of 6 episodes (2)"),
    "states in degrees": (ALOHA, _states(ALOHA_DATA, ALL, JOINTS, np.degrees),
        {"degrees_against_radians", "state_beyond_limits"}, "states in degrees, actions in radians?"),
    "actions in degrees": (ALOHA, _actions(ALOHA_DATA, ALL, JOINTS, np.degrees),
        {"degrees_against_radians", "beyond_limits"}, "actions in degrees, states in radians?"),
    "some deltas among targets": (ALOHA, change(ALOHA_DATA, [0, 1], actions=_differences),
        {"absolute_and_delta"}, "actions behave like delta ones in 2 of 6 episodes (0, 1), like absolute ones"),
    "some targets among deltas": (PANDA_LIBERO, change(LIBERO_DATA, [4], actions=_targets),
        {"absolute_and_delta"}, "actions behave like absolute ones in 1 of 6 episodes (4), like delta ones"),
    "deltas for a robot of targets": (ALOHA, change(ALOHA_DATA, ALL, actions=_differences),
        {"other_kind_of_action"}, "robot aloha takes absolute actions, but these behave like delta ones in 6 of 6"),
    "actions are next states": (ALOHA,
        change(ALOHA_DATA, ALL, actions=lambda e: np.concatenate([e.states[1:], e.states[-1:]])),
        {"actions_are_next_states"}, "all 14 target dimensions"),
    "actions are states": (ALOHA, change(ALOHA_DATA, ALL, actions=lambda e: e.states),
        {"actions_are_states"}, "equal the states of the same row"),
    "a wrong clock": (ALOHA, change(ALOHA_DATA, ALL, timestamps=lambda e: e.timestamps * 50 / 30),
        {"timestamps"}, "timestamps say 30.00 Hz, but the data set says 50 Hz"),
    "a stopped clock": (ALOHA, change(ALOHA_DATA, ALL, timestamps=lambda e: e.timestamps * 0),
        {"timestamps"}, "no steady clock"),
    "a dropped frame": (ALOHA,
        change(ALOHA_DATA, [5], timestamps=lambda e: e.timestamps + (np.arange(len(e)) > 9) / 50),
        {"timestamps"}, "1 frames come early or late by more than half a control step in 1 of 6 episodes (5)"),
    "a copied episode": (ALOHA, _with(ALOHA_DATA, 3, ALOHA_DATA.episodes[0]),
        {"repeated_episodes"}, "1 of 6 episodes repeat another exactly (3 repeats 0)"),
    "a short episode": (ALOHA, _with(ALOHA_DATA, 3, _cut(ALOHA_DATA.episodes[3], 40)), {"odd_lengths"}, "(3: 40)"),
    "an episode shorter than a chunk": (ALOHA, _with(ALOHA_DATA, 3, _cut(ALOHA_DATA.episodes[3], 24)),
        {"odd_lengths", "short_episodes"}, "1 of 6 episodes (3) are not longer than a chunk of 24 actions"),
    "a wait at the start": (ALOHA, _with(ALOHA_DATA, 2, _wait(ALOHA_DATA.episodes[2], 150, at_end=False)),
        {"waits_at_start"}, "1 of 6 episodes (2) start with a long wait, up to 3.0 s in episode 2"),
    "a wait at the end": (ALOHA, _with(ALOHA_DATA, 1, _wait(ALOHA_DATA.episodes[1], 150, at_end=True)),
        {"waits_at_end"}, "1 of 6 episodes (1) end with a long wait, up to 3.0 s in episode 1"),
    "actions beyond limits": (PANDA_LIBERO, _actions(LIBERO_DATA, [1], [0, 1, 2], lambda x: 5 * np.sign(x) + x),
        {"beyond_limits"}, "in 1 of 6 episodes (1)"),
    "states beyond limits": (ALOHA, _states(ALOHA_DATA, ALL, 1, lambda x: x - 0.5),
        {"state_beyond_limits"}, "left_shoulder (-1.85 .. 1.257)"),
    "standardised actions": (ALOHA, _standardise(ALOHA_DATA), {"normalised_actions", "beyond_limits"}, "mean 0"),
    "actions scaled to -1 .. 1": (ALOHA, _scale_to_one(ALOHA_DATA),
        {"normalised_actions", "beyond_limits"}, "fill -1 .. 1, the states do not"),
    "a robot that stands": (ALOHA, _states(ALOHA_DATA, [0, 4], slice(None), lambda s: np.tile(s[:1], (len(s), 1))),
        {"never_moves"}, "the robot never moves in 2 of 6 episodes (0, 4)"),
    "a slow gripper": (replace(PANDA_LIBERO, arms=(replace(PANDA_LIBERO.arms[0],
        gripper=replace(PANDA_LIBERO.arms[0].gripper, stroke_steps=5)),)), LIBERO_DATA,
        {"slow_gripper"}, "gripper arm takes longer than the robot's 5 steps: opening 12, closing 12"),
    "another frequency": (ALOHA,
        replace(change(ALOHA_DATA, ALL, timestamps=lambda e: e.timestamps * 2), control_hz=25.0),
        {"control_hz", "slow_gripper"}, "the data set runs at 25 Hz, but robot aloha at 50 Hz"),
    "no rotation": (PANDA_ROBOMIMIC, _states(ROBOMIMIC_DATA, [1], [3, 4, 5, 6], np.zeros_like),
        {"no_rotation"}, "state dimensions (3, 4, 5, 6) hold no quaternion_xyzw"),
}  # fmt: skip


@pytest.mark.parametrize(("robot", "data", "kinds", "words"), DEFECTS.values(), ids=DEFECTS)
def test_one_defect_is_found_and_nothing_else(robot: Robot, data: Demonstrations, kinds: set[str], words: str) -> None:
    found = inspect_demonstrations(data, robot)
    assert _kinds(found) == kinds
    assert any(words in finding.message for finding in found.findings), found.findings
    for finding in found.findings:
        assert finding.meaning
        assert finding.advice


@pytest.mark.parametrize("data", [ALOHA_DATA, LIBERO_DATA, ROBOMIMIC_DATA])
def test_the_same_data_without_the_defect_is_clean_without_a_robot_too(data: Demonstrations) -> None:
    wide = change(data, ALL, states=lambda e: _widen(e.states), actions=lambda e: _widen(e.actions))
    assert inspect_demonstrations(data).findings == inspect_demonstrations(wide).findings == ()


def test_one_episode_cannot_be_held_out() -> None:
    assert _kinds(inspect_demonstrations(ALOHA_DATA.select([0]), ALOHA)) == {"one_episode"}


def _widen(table: np.ndarray) -> np.ndarray:
    """Two dimensions twice: no known robot has so many."""
    return np.concatenate([table, table[:, :2]], axis=1)


@pytest.mark.parametrize(
    "defect", ["jump in a state", "actions are next states", "states in degrees", "some deltas among targets",
               "a robot that stands", "standardised actions"]
)  # fmt: skip
def test_much_is_found_without_a_robot_too(defect: str) -> None:
    _, data, kinds, _ = DEFECTS[defect]
    wide = change(data, ALL, states=lambda e: _widen(e.states), actions=lambda e: _widen(e.actions))
    found = inspect_demonstrations(wide)
    assert (found.robot, found.looks_like) == (None, ())
    assert {kind for kind in kinds if "limits" not in kind} <= _kinds(found)


def test_a_rotation_that_wraps_around_is_no_jump() -> None:
    wrapped = _states(LIBERO_DATA, [0], 3, lambda x: x - 2 * np.pi, slice(80, None))
    assert _kinds(inspect_demonstrations(wrapped, PANDA_LIBERO)) == set()
