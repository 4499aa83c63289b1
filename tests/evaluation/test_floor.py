"""The floor of a run: from base's successes, with the limits of a patch where there is one."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from small_arm import SMALL_ARM, demonstrate, follow
from speedup_patch.ceiling import floor_steps
from speedup_patch.evaluation import floor as floors
from speedup_patch.evaluation.floor import floor_line, measure_floor, run_floor
from speedup_patch.evaluation.phases import trace_limits
from speedup_patch.evaluation.traces import Trace, trace_file, write_trace
from speedup_patch.limits import read_limits
from speedup_patch.robots import ALOHA
from stand_ins import DELTA_ROBOT, smooth_demonstrations

DEMONSTRATED = demonstrate(episodes=3)


def trace_of(actions, states):
    chunk = actions[None].astype(np.float32)
    done = np.arange(1, len(actions) + 1, dtype=np.float32)[None]
    return Trace(states.astype(np.float32), actions, np.array([0]), chunk, done)


TRACES = [trace_of(episode.actions[:-1], follow(episode.actions)) for episode in DEMONSTRATED]


@pytest.fixture
def run(tmp_path):
    for seed, trace in enumerate(TRACES):
        write_trace(tmp_path, "base", seed, trace)
    return tmp_path


def test_without_a_patch_the_successes_show_the_limits(run):
    found = run_floor(run, SMALL_ARM, [0, 2], [])
    successes = [TRACES[0], TRACES[2]]
    limits = trace_limits(SMALL_ARM, successes)
    steps = [floor_steps(SMALL_ARM, limits, trace.actions, trace.states) for trace in successes]
    assert found is not None
    assert found.steps == pytest.approx(np.mean(steps))
    assert found.speedup == pytest.approx(sum(map(len, successes)) / sum(steps))
    assert found.speedup > 1


def test_a_patch_says_what_the_limits_are(run, monkeypatch):
    limits = read_limits(SMALL_ARM, demonstrate(episodes=12, seed=5))
    patch = run / "my.patch"
    patch.mkdir()
    (patch / "patch.json").write_text("{}")

    def described(path: Path, robot):
        assert (path, robot) == (patch, SMALL_ARM)
        return type("Description", (), {"limits": limits})

    monkeypatch.setattr(floors, "read_description", described)
    found = run_floor(run, SMALL_ARM, [0, 1, 2], [run / "traces", patch])
    assert found == measure_floor(SMALL_ARM, limits, TRACES)
    assert found != run_floor(run, SMALL_ARM, [0, 1, 2], [])


def test_there_is_no_floor_without_successes_or_their_traces(run):
    assert run_floor(run, SMALL_ARM, [], []) is None
    assert run_floor(run, SMALL_ARM, [0, 7], []) is None


def test_there_is_no_floor_where_nothing_moves_or_limits_cannot_be_read(tmp_path):
    write_trace(tmp_path, "base", 0, trace_of(np.zeros((60, 7)), np.zeros((61, 7))))
    write_trace(tmp_path, "base", 1, trace_of(np.ones((5, 7)), np.zeros((6, 7))))
    assert run_floor(tmp_path, DELTA_ROBOT, [0], []) is None
    assert run_floor(tmp_path, DELTA_ROBOT, [1], []) is None


def test_only_targets_make_it_an_estimate(run, tmp_path):
    actions = np.zeros((60, 7))
    actions[:, 0] = 0.5
    write_trace(tmp_path, "base", 9, trace_of(actions, np.zeros((61, 7))))
    exact, estimate = run_floor(tmp_path, DELTA_ROBOT, [9], []), run_floor(run, SMALL_ARM, [0], [])
    assert exact is not None
    assert asdict(exact) == {"steps": pytest.approx(30), "speedup": pytest.approx(2), "estimated": False}
    assert floor_line(exact) == "floor: base's successes take 30 steps (2.00x) with every move at its limit"
    assert estimate is not None
    assert "speeds that were seen" in floor_line(estimate)


TASK = "aloha/insertion"


@pytest.fixture
def finished_run(tmp_path):
    """A run folder in which nothing is missing: two successes of base and one failure that left no trace."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"env": TASK, "policy": f"bundled:{TASK}"}))
    traces = []
    lines = [{"scheduler": "base", "seed": 2, "success": False, "steps": 400, "decisions": []}]
    for seed, episode in enumerate(smooth_demonstrations(episodes=2)):
        traces.append(trace_of(episode.actions[:-1], episode.states))
        write_trace(folder, "base", seed, traces[-1])
        lines.append({"scheduler": "base", "seed": seed, "success": True, "steps": len(traces[-1]), "decisions": []})
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder, traces


def test_an_evaluation_says_what_is_possible(sup, finished_run):
    folder, traces = finished_run
    arguments = ("eval", TASK, "--policy", f"bundled:{TASK}", "--scheduler", "base", "--out", folder, "--episodes", 3)
    floor = measure_floor(ALOHA, trace_limits(ALOHA, traces), traces)
    assert floor is not None
    code, out, error = sup(*arguments)
    assert code == 0, error
    assert f"{floor.steps:.0f} steps ({floor.speedup:.2f}x)" in out
    code, out, error = sup(*arguments, "--json")
    assert code == 0, error
    assert json.loads(out)["floor"] == json.loads((folder / "results.json").read_text())["floor"]
    assert json.loads(out)["floor"] == {
        "steps": pytest.approx(floor.steps),
        "speedup": pytest.approx(floor.speedup),
        "estimated": True,
    }


def test_an_evaluation_without_traces_of_base_says_nothing_of_it(sup, finished_run):
    folder, _ = finished_run
    trace_file(folder, "base", 1).unlink()
    arguments = ("eval", TASK, "--policy", f"bundled:{TASK}", "--scheduler", "base", "--out", folder, "--episodes", 3)
    code, out, error = sup(*arguments)
    assert code == 0, error
    assert "floor" not in out
    assert json.loads((folder / "results.json").read_text())["floor"] is None
