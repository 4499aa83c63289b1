"""An inspection measures what was put into the data."""

import json
import shlex
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from sample_motions import demonstrate
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.inspect import inspect_demonstrations, look_at, render_inspection, summarise
from speedup_patch.inspect.frames import sample_frames
from speedup_patch.inspect.strokes import find_flips, stroke_steps
from speedup_patch.robots import ALOHA, PANDA_LIBERO, ROBOTS, Robot

STEP, TURN, STROKE = 0.01, 0.02, 10


def straight(length: int = 100, flips: tuple[int, ...] = (30, 70), closing: int = STROKE, still: slice = slice(0, 0)):
    """A hand that moves STEP metres and turns TURN radians a step, but not in ``still``; open until the first flip."""
    states, actions = np.zeros((length, 8)), np.zeros((length, 7))
    moving = np.ones(length, dtype=bool)
    moving[still] = False
    states[:, 0], states[:, 5] = STEP * np.cumsum(moving), TURN * np.cumsum(moving)
    actions[:, 0] = actions[:, 5] = 0.5 * moving
    closed = np.searchsorted(flips, np.arange(length), side="right") % 2 == 1
    actions[:, 6] = np.where(closed, 1.0, -1.0)
    opening = 1.0
    for step in range(length):
        states[step, 6:] = 0.04 * opening, -0.04 * opening
        opening = max(0.0, opening - 1 / closing) if closed[step] else min(1.0, opening + 1 / STROKE)
    return Episode(states.astype(np.float32), actions.astype(np.float32), np.arange(length) / 20, "reach")


def together(*episodes: Episode) -> Demonstrations:
    return Demonstrations(episodes, 20.0, "panda_libero")


def test_sizes_lengths_and_tasks_are_counted() -> None:
    demonstrations = together(straight(100), straight(120), replace(straight(140), task="push"))
    found = inspect_demonstrations(demonstrations, PANDA_LIBERO, dataset="my data")
    assert (found.episodes, found.frames, found.control_hz, found.robot) == (3, 360, 20.0, "panda_libero")
    assert (found.sampled_episodes, found.sampled_frames) == (3, 360)
    assert (found.lengths.minimum, found.lengths.p50, found.lengths.maximum) == (100, 120, 140)
    assert [(count.task, count.episodes) for count in found.tasks] == [("reach", 2), ("push", 1)]
    assert shlex.split(found.train_command) == [
        "sup", "train", "my data", "--robot", "panda_libero", "--out", "my data.patch",
    ]  # fmt: skip


def test_dimensions_have_the_range_of_the_data() -> None:
    demonstrations = demonstrate(ALOHA, episodes=3)
    found = inspect_demonstrations(demonstrations, ALOHA)
    for dimensions, names, tables in (
        (found.state, ALOHA.state_names, [episode.states for episode in demonstrations]),
        (found.action, ALOHA.action_names, [episode.actions for episode in demonstrations]),
    ):
        table = np.concatenate(tables).astype(np.float64)
        assert [dimension.name for dimension in dimensions] == list(names)
        for figures, column in zip(dimensions, table.T, strict=True):
            expected = (column.min(), column.max(), column.std())
            assert (figures.minimum, figures.maximum, figures.std) == pytest.approx(expected, rel=1e-6)


def test_speeds_are_those_of_the_motion_and_do_not_reach_across_episodes() -> None:
    found = inspect_demonstrations(together(straight(100), straight(50)), PANDA_LIBERO)
    (arm,) = found.arms
    for profile, per_step in ((arm.metres_per_second, STEP), (arm.radians_per_second, TURN)):
        figures = (profile.mean, profile.p10, profile.p50, profile.p99, profile.maximum)
        assert figures == pytest.approx((20 * per_step,) * 5, rel=1e-3)
        assert profile.near_top == 1.0


def test_time_near_the_top_speed_is_a_share() -> None:
    found = inspect_demonstrations(together(straight(101, still=slice(51, 101))), PANDA_LIBERO)
    assert found.arms[0].metres_per_second.near_top == pytest.approx(0.5)


@given(flips=st.lists(st.booleans(), min_size=1, max_size=30))
def test_a_flip_is_a_change_of_side(flips: list[bool]) -> None:
    commands = np.where(np.cumsum(flips) % 2 == 1, 0.9, 0.1)
    assert len(find_flips(commands, 0.5)) == sum(flips[1:])


@given(stroke=st.integers(2, 20), start=st.integers(1, 20))
def test_a_stroke_lasts_until_the_finger_is_there(stroke: int, start: int) -> None:
    finger = np.clip((np.arange(80) - start) / stroke, 0, 1)[:, None]
    assert stroke_steps(finger, np.array([start]), np.ones(1), horizon=40) == [(start, stroke)]


def test_fingers_that_creep_on_later_are_not_waited_for() -> None:
    finger = np.clip(np.arange(80) / 10, 0, 1) + 0.2 * (np.arange(80) > 40)
    assert stroke_steps(finger[:, None], np.array([1]), np.full(1, 1.2), horizon=79) == [(1, 9)]


def test_strokes_that_cannot_be_timed_are_left_out() -> None:
    still = np.zeros((50, 1))
    never_resting = np.arange(50.0)[:, None]
    for fingers in (still, never_resting):
        assert stroke_steps(fingers, np.array([10]), np.ones(1), horizon=30) == []
    late = np.clip((np.arange(50) - 40) / 10, 0, 1)[:, None]
    assert stroke_steps(late, np.array([40]), np.ones(1), horizon=30) == []


def test_opening_and_closing_are_timed_apart() -> None:
    found = inspect_demonstrations(together(straight(closing=5), straight(closing=5, flips=(50,))), PANDA_LIBERO)
    (use,) = found.grippers
    assert (use.flips_per_episode, use.robot_stroke_steps) == (1.5, 12)
    assert (use.opening.timed, use.opening.steps_p50, use.opening.seconds_p90) == (1, 10, 0.5)
    assert (use.closing.timed, use.closing.steps_p50, use.closing.seconds_p90) == (2, 5, 0.25)


@pytest.mark.parametrize(
    ("still", "place", "seconds"),
    [(slice(0, 20), "start", 1.0), (slice(75, 105), "middle", 1.5), (slice(160, 200), "end", 2.0)],
)
def test_pauses_are_found_where_they_are(still: slice, place: str, seconds: float) -> None:
    found = inspect_demonstrations(together(straight(200), straight(200, still=still)), PANDA_LIBERO)
    share = (still.stop - still.start) / 400
    assert found.pause_share == pytest.approx(share)
    for pauses in found.pauses:
        here = pauses.place == place
        expected = (share, 1, seconds, 1) if here else (0, 0, 0, None)
        figures = (pauses.share, pauses.episodes, pauses.longest_seconds, pauses.longest_episode)
        assert figures == pytest.approx(expected)


def test_a_short_stillness_is_no_pause() -> None:
    found = inspect_demonstrations(together(straight(100, still=slice(40, 43))), PANDA_LIBERO)
    assert found.pause_share == 0.0


def test_targets_pause_when_they_do_not_change() -> None:
    clean = demonstrate(ALOHA, episodes=2)
    held = [np.concatenate([episode.actions[:60], np.tile(episode.actions[60], (len(episode) - 60, 1))])
            for episode in clean]  # fmt: skip
    paused = replace(clean, episodes=tuple(replace(e, actions=a) for e, a in zip(clean, held, strict=True)))
    found = inspect_demonstrations(paused, ALOHA)
    assert found.pauses[2].episodes == 2
    assert found.pauses[2].longest_seconds == pytest.approx((165 - 61) / 50)
    assert inspect_demonstrations(clean, ALOHA).pause_share == 0.0


@given(
    lengths=st.lists(st.integers(1, 400), min_size=1, max_size=80),
    most=st.integers(50, 2000),
)
def test_a_sample_is_even_and_bounded(lengths: list[int], most: int) -> None:
    rows = {length: np.arange(length, dtype=np.float32)[:, None] for length in lengths}
    episodes = tuple(Episode(rows[n], rows[n], np.arange(n) / 10.0) for n in lengths)
    frames = sample_frames(Demonstrations(episodes, 10.0), most)
    assert frames.lengths.tolist() == lengths
    np.testing.assert_array_equal(frames.states[:, 0], frames.row)
    if sum(lengths) <= most:
        assert len(frames) == sum(lengths)
    else:
        assert len(frames) <= max(2 * most, 3 * len(lengths))
        assert frames.episode[0] == 0
        assert frames.episode[-1] == len(lengths) - 1
    for episode, part in frames.stretches:
        assert (frames.episode[part] == episode).all()
        assert (np.diff(frames.row[part]) == 1).all()


def test_a_large_data_set_is_sampled_and_says_so() -> None:
    demonstrations = demonstrate(PANDA_LIBERO, episodes=40, length=100)
    whole = inspect_demonstrations(demonstrations, PANDA_LIBERO)
    part = summarise(look_at(demonstrations, PANDA_LIBERO, most_frames=4000))
    assert part.frames == whole.frames
    assert (part.state, part.lengths) == (whole.state, whole.lengths)
    assert part.sampled_frames < 6000 < whole.sampled_frames
    assert part.findings == whole.findings == ()
    fast, faster = part.arms[0].metres_per_second.p50, whole.arms[0].metres_per_second.p50
    assert fast == pytest.approx(faster, rel=0.1)
    assert f"an even sample of {part.sampled_frames} frames" in text(part)
    assert "sample" not in text(whole)


def test_the_smallest_data_set_can_be_inspected() -> None:
    for robot in (PANDA_LIBERO, None):
        found = inspect_demonstrations(replace(together(straight(1, flips=())), robot_name=""), robot)
        assert found.arms == ()
        assert "sup train" in text(found)


def text(found) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_inspection(found))
    return capture.get()


@pytest.mark.parametrize("robot", [PANDA_LIBERO, None])
def test_an_inspection_is_json_and_text(robot: Robot | None) -> None:
    data = together(straight(), replace(straight(), task="[red] cup"))
    found = inspect_demonstrations(data, robot, dataset="demos")
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["frames"] == 200
    shown = text(found)
    for expected in ("demos: 2 episodes, 200 frames at 20 Hz", "[red] cup (1)", found.train_command, "add --chunk N"):
        assert expected in shown
    for finding in found.findings:
        assert finding.message[:60] in shown
        assert finding.advice[:60] in shown
    assert "closing takes 10 steps, 0.50 s" in shown
    assert ("looks like panda_libero: the data set says its robot is panda_libero" in shown) == (robot is None)


def test_data_of_no_known_robot_still_shows_much() -> None:
    clean = demonstrate(ALOHA, episodes=3)
    narrow = replace(clean, episodes=tuple(replace(e, states=e.states[:, :9], actions=e.actions[:, :9]) for e in clean))
    found = inspect_demonstrations(narrow)
    assert (found.robot, found.looks_like, found.arms, found.grippers) == (None, (), (), ())
    assert [dimension.name for dimension in found.state][:2] == ["state_0", "state_1"]
    assert found.pause_share == 0.0
    assert "no known robot has 9 state and 9 action dimensions" in text(found)
    assert "describe the robot in that .toml file" in text(found)


@given(
    robot=st.sampled_from(sorted(ROBOTS)),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    scale=st.sampled_from([0.0, 1e-30, 1.0, 1e30]),
    whole=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=10)
def test_any_numbers_can_be_inspected(robot: str, lengths: list[int], scale: float, whole: bool, seed: int) -> None:
    described, rng = ROBOTS[robot], np.random.default_rng(seed)
    episodes = []
    for length in lengths:
        states, actions = (
            scale * rng.normal(size=(length, size)) for size in (described.state_size, described.action_size)
        )
        tables = (
            np.round(table).astype(np.float32) if whole else table.astype(np.float32) for table in (states, actions)
        )
        episodes.append(Episode(*tables, np.arange(length) / described.control_hz))
    demonstrations = Demonstrations(tuple(episodes), described.control_hz)
    for given_robot in (described, None):
        found = inspect_demonstrations(demonstrations, given_robot)
        assert json.dumps(asdict(found), allow_nan=False)
        assert text(found)
