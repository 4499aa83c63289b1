"""LIBERO can be filmed: its trace is replayed, and its camera sees the robot move."""

import json
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

from speedup_patch.data import Decision, EpisodeResult
from speedup_patch.envs import make_env
from speedup_patch.evaluation.traces import Trace, write_trace
from speedup_patch.video.drawing import FOOTER, HEADER
from speedup_patch.video.side_by_side import WIDTH, render_side_by_side

pytestmark = pytest.mark.libero

STEPS = {"base": 6, "fixed:2": 3}


@pytest.fixture
def run(tmp_path):
    """A run of one LIBERO task with one short episode of base and one of fixed:2, in which the arm rises."""
    (tmp_path / "run.json").write_text(json.dumps({"env": "libero/spatial/0", "policy": "none"}))
    env, lines = make_env("libero/spatial/0"), []
    for rate, (spec, steps) in enumerate(STEPS.items(), start=1):
        states = [env.reset(3)["state"]]
        actions = np.tile([0.0, 0.0, 0.4 * rate, 0.0, 0.0, 0.0, -1.0], (steps, 1))
        states += [env.step(action)[0]["state"] for action in actions]
        done = rate * np.arange(1, steps + 1, dtype=np.float32)[None]
        write_trace(tmp_path, spec, 3, Trace(np.stack(states), actions, np.array([0]), actions[None], done))
        result = EpisodeResult(3, False, steps, (Decision(0, rate * steps, steps, float(rate * steps)),))
        lines.append(json.dumps({"scheduler": spec, **asdict(result)}) + "\n")
    env.close()
    (tmp_path / "episodes.jsonl").write_text("".join(lines))
    return tmp_path


def test_a_libero_episode_is_filmed_step_by_step(run):
    film = render_side_by_side(run, "fixed:2", 3)
    frames = list(film.frames())
    assert film.fps == 20.0
    assert len(frames) == 1 + 6 + 2 * 20
    left = [frame[HEADER + 60 : -FOOTER - 60, :WIDTH].astype(int) for frame in frames]
    assert all(np.abs(after - before).max() > 20 for before, after in pairwise(left[:7]))
    np.testing.assert_array_equal(left[6], left[-1])
    assert left[0].std() > 20  # a scene, not an empty picture
