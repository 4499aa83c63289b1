"""A film shows what the traces say: same clock on both sides, and an end that is held."""

import json
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.data import Decision, EpisodeResult
from speedup_patch.envs import make_env
from speedup_patch.errors import InputError
from speedup_patch.evaluation.traces import Trace, read_trace, trace_file, write_trace
from speedup_patch.video.drawing import FOOTER, GAP, HEADER, Panel, draw_frame
from speedup_patch.video.side_by_side import HEIGHT, WIDTH, render_side_by_side, short_name

STEPS = {"base": 9, "fixed:2": 5}
LEFT, RIGHT = np.s_[HEADER:-FOOTER, :WIDTH], np.s_[HEADER:-FOOTER, WIDTH + GAP :]
MIDDLE = np.s_[60:-60]
"""The part of a picture that no rate and no outcome is drawn on."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of ALOHA insertion with one short episode of base and one of fixed:2, in which the arms turn."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "run.json").write_text(json.dumps({"env": "aloha/insertion", "policy": "none"}))
    env, lines = make_env("aloha/insertion"), []
    for rate, (spec, steps) in enumerate(STEPS.items(), start=1):
        states = [env.reset(3)["state"]]
        actions = states[0] + 0.05 * rate * np.arange(1, steps + 1)[:, None]
        states += [env.step(action)[0]["state"] for action in actions]
        done = rate * np.arange(1, steps + 1, dtype=np.float32)[None]
        write_trace(folder, spec, 3, Trace(np.stack(states), actions, np.array([0]), actions[None], done))
        result = EpisodeResult(3, spec == "fixed:2", steps, (Decision(0, rate * steps, steps, float(rate * steps)),))
        lines.append(json.dumps({"scheduler": spec, **asdict(result)}) + "\n")
    (folder / "episodes.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def film(run):
    try:
        made = render_side_by_side(run, "fixed:2", 3)
    except InputError as error:
        if "OpenGL" not in str(error):
            raise
        pytest.skip(str(error))
    return made.fps, len(made), list(made.frames())


def test_a_film_runs_in_real_time_and_holds_its_end(film):
    fps, length, frames = film
    assert length == len(frames)
    assert fps == 25.0  # two control steps of 50 Hz a frame
    assert length == 1 + 5 + 2 * fps
    assert {frame.shape for frame in frames} == {(HEADER + HEIGHT + FOOTER, 2 * WIDTH + GAP, 3)}


def test_each_side_moves_until_it_has_finished_and_then_stays(film):
    _, _, frames = film
    for side, moving in ((LEFT, 5), (RIGHT, 3)):
        pictures = [frame[side][MIDDLE] for frame in frames]
        changed = [not np.array_equal(before, after) for before, after in pairwise(pictures)]
        assert changed == [True] * moving + [False] * (len(frames) - 1 - moving)
    np.testing.assert_array_equal(frames[0][LEFT][MIDDLE], frames[0][RIGHT][MIDDLE])


def test_an_episode_that_the_simulator_does_not_repeat_is_refused(run, tmp_path):
    for file in run.rglob("*.*"):
        (tmp_path / file.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.relative_to(run)).write_bytes(file.read_bytes())
    trace = read_trace(trace_file(run, "base", 3))
    states = trace.states.copy()
    states[4, 2] += 0.01
    write_trace(tmp_path, "base", 3, replace(trace, states=states))
    with pytest.raises(InputError, match=r"3\.npz cannot be replayed: at step 4 left_elbow is"):
        list(render_side_by_side(tmp_path, "fixed:2", 3).frames())


def test_what_a_run_does_not_hold_is_said(run, sup, tmp_path):
    with pytest.raises(InputError, match=r"no episodes of scheduler 'fixed:3'; it holds: base, fixed:2"):
        render_side_by_side(run, "fixed:3")
    with pytest.raises(InputError, match=r"no episode of base with seed 4; it has \[3\]"):
        render_side_by_side(run, "fixed:2", 4)
    with pytest.raises(InputError, match="left side is base already"):
        render_side_by_side(run, "base")
    with pytest.raises(InputError, match=r"run\.json does not exist"):
        render_side_by_side(tmp_path, "fixed:2")


@given(st.floats(1, 6), st.floats(0, 99), st.text(max_size=200), st.booleans())
def test_whatever_is_said_the_frame_keeps_its_size(rate, seconds, title, success):
    picture = np.zeros((90, 241, 3), np.uint8)
    panel = Panel(picture, title, seconds, rate, "done in 4.0 s" if success else None, success)
    frame = draw_frame(panel, panel, title, "Real time")
    assert frame.shape == (90 + HEADER + FOOTER, 2 * 241 + GAP, 3)
    assert frame.shape[0] % 2 == frame.shape[1] % 2 == 0


def test_a_faster_rate_fills_more_of_its_bar():
    picture = np.zeros((200, 300, 3), np.uint8)
    panels = [Panel(picture, "policy", 1.0, rate, None, False) for rate in (1.0, 2.0, 3.0, 4.0, 9.0)]
    orange = [(draw_frame(panel, panel, "", "") == (255, 176, 32)).all(axis=-1).sum() for panel in panels]
    assert orange[0] == 0
    assert orange[1] < orange[2] < orange[3]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("fixed:2", "fixed:2"),
        ("dwell+mpc:runs/a/my.patch", "dwell+mpc:my.patch"),
        ("dwell+runs/a/my.patch", "dwell+my.patch"),
        ("runs/a/my.patch", "my.patch"),
    ],
)
def test_titles_leave_out_folders(spec, name):
    assert short_name(spec) == name
