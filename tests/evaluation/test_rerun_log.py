"""The Rerun file is read back with Rerun's own reader."""

import sys

import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.evaluation import rerun_log
from speedup_patch.evaluation.deviations import Judge, judge_decisions
from speedup_patch.evaluation.rollout import trace_episode
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.evaluation.traces import read_trace, trace_file, write_trace
from speedup_patch.limits import read_limits
from speedup_patch.robots import ALOHA
from stand_ins import LaggingEnv, LaggingWorldModel, ReplayPolicy, smooth_demonstrations

N = 12


def test_without_traces_there_is_nothing_to_show(sup, tmp_path):
    arguments = ["--policy", "bundled:aloha/insertion", "--scheduler", "base", "--out", tmp_path / "run"]
    code, _, error = sup("eval", "aloha/insertion", *arguments, "--no-traces", "--rerun", tmp_path / "run.rrd")
    assert code == 2
    assert "leave out --no-traces" in error
    assert not (tmp_path / "run").exists()


SPECS = ("base", "fixed:2", "fixed:3")
DEMONSTRATIONS = smooth_demonstrations()
JUDGE = Judge(LaggingWorldModel(), read_limits(ALOHA, DEMONSTRATIONS), "time_aligned", 0.05)


def test_a_missing_package_is_found_before_the_run(sup, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rerun", None)
    arguments = ["--policy", "bundled:aloha/insertion", "--scheduler", "base", "--out", tmp_path / "run"]
    code, _, error = sup("eval", "aloha/insertion", *arguments, "--rerun", tmp_path / "run.rrd")
    assert code == 2
    assert "pip install 'speedup-patch[rerun]'" in error
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with the traces of two seeds of three schedulers."""
    folder = tmp_path_factory.mktemp("rerun")
    for seed in (0, 1):
        env = LaggingEnv(DEMONSTRATIONS.episodes[seed])
        for spec in SPECS:
            policy = schedule_policy(spec, ReplayPolicy(env.episode, N), ALOHA)
            write_trace(folder, spec, seed, trace_episode(env, policy, seed)[1])
    return folder


@pytest.fixture(scope="module")
def written(run):
    """Every chunk of the file, by entity: a record batch of what changes, and one of what does not.

    The last scheduler is taken to name a patch.
    """
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    from rerun.chunk import RrdReader

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rerun_log, "find_judge", lambda spec, robot: JUDGE if spec == SPECS[-1] else None)
        rerun_log.write_rerun(run, ALOHA, SPECS, (0, 1), run / "run.rrd")
    reader = RrdReader(run / "run.rrd")
    assert len(reader.recordings()) == len(reader.blueprints()) == 1
    return {(chunk.entity_path, chunk.is_static): chunk.to_record_batch() for chunk in reader.stream()}


def entity(seed, spec, *parts):
    import rerun

    return rerun.new_entity_path([f"seed_{seed}", spec, *parts])


def values(batch, column):
    return np.array(batch.column(column).to_pylist(), dtype=np.float64)


@pytest.mark.parametrize("seed", [0, 1])
def test_paths_and_rates_are_those_of_the_traces(run, written, seed):
    for spec in SPECS:
        trace = read_trace(trace_file(run, spec, seed))
        poses = ALOHA.poses(trace.states.astype(np.float64))
        for index, arm in enumerate(ALOHA.arms):
            whole = written[entity(seed, spec, "path", arm.name), True]
            np.testing.assert_allclose(values(whole, "LineStrips3D:strips")[0, 0], poses[:, index, :3], atol=1e-6)
            hand = written[entity(seed, spec, "hand", arm.name), False]
            np.testing.assert_allclose(values(hand, "Points3D:positions")[:, 0], poses[:, index, :3], atol=1e-6)
        rate = written[entity(seed, spec, "rate"), False]
        np.testing.assert_allclose(values(rate, "Scalars:scalars")[:, 0], trace.step_rates)
        clock = [moment.total_seconds() for moment in rate.column("time").to_pylist()]
        np.testing.assert_allclose(clock, np.arange(len(trace)) / 50.0)


def test_a_patch_has_its_deviations_and_violations_and_others_have_none(run, written):
    expected = judge_decisions(JUDGE, read_trace(trace_file(run, SPECS[-1], 1)))
    assert 0 < expected.violations.sum() < len(expected.violations)
    found = written[entity(1, SPECS[-1], "deviation"), False]
    np.testing.assert_allclose(values(found, "Scalars:scalars")[:, 0], expected.deviations)
    violations = values(written[entity(1, SPECS[-1], "violation"), False], "Scalars:scalars")[:, 0]
    np.testing.assert_array_equal(violations, expected.violations)
    points = values(written[entity(1, SPECS[-1], "violations"), True], "Points3D:positions")
    assert points.size == 3 * len(ALOHA.arms) * expected.violations.sum()
    assert {path.split("/")[2] for path, _ in written if "deviation" in path} == {"fixed\\:3"}


def test_a_missing_trace_is_named_and_leaves_no_file(run):
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    with pytest.raises(InputError, match=r"7\.npz does not exist"):
        rerun_log.write_rerun(run, ALOHA, ("base",), (0, 7), run / "other.rrd")
    assert not (run / "other.rrd").exists()
