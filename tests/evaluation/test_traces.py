"""A trace holds the whole episode: sending its actions again repeats it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.errors import InputError
from speedup_patch.evaluation.compare import summarise
from speedup_patch.evaluation.episodes import read_episodes
from speedup_patch.evaluation.rollout import run_episode, trace_episode
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.evaluation.traces import Trace, pad_rows, read_trace, scheduler_slug, trace_file, write_trace
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.engine import Engine
from speedup_patch.warp import Warp
from stand_ins import LaggingEnv, ReplayPolicy, smooth_demonstrations

N = 24


@pytest.fixture
def env():
    return LaggingEnv(smooth_demonstrations(steps=100).episodes[0])


def scheduled(env, spec):
    return schedule_policy(spec, ReplayPolicy(env.episode, N), ALOHA)


@pytest.mark.parametrize("spec", ["base", "fixed:2", "fixed:2.5", "fixed:3"])
def test_a_trace_repeats_its_episode_and_says_what_became_of_each_chunk(env, tmp_path, spec):
    result, trace = trace_episode(env, scheduled(env, spec), seed=3)
    write_trace(tmp_path, spec, 3, trace)
    trace = read_trace(trace_file(tmp_path, spec, 3))
    assert len(trace) == result.steps
    assert [decision.step for decision in result.decisions] == trace.decision_steps.tolist()
    observation = env.reset(3)
    for state, action in zip(trace.states, trace.actions, strict=False):
        np.testing.assert_allclose(observation["state"], state, atol=1e-6)
        observation, solved = env.step(action)
    assert solved == result.success
    for row, decision in enumerate(result.decisions):
        np.testing.assert_allclose(
            trace.chunks[row], env.episode.actions[min(row * N, 100 - N) :][:N], rtol=1e-6, atol=1e-6
        )
        done = trace.positions[row][~np.isnan(trace.positions[row])]
        assert decision.done == pytest.approx(done[decision.executed - 1])
        assert done[-1] == decision.original == N
        assert (np.diff(done, prepend=0) > 0).all()


def test_rates_at_every_step_add_up_to_the_original_actions(env):
    result, trace = trace_episode(env, scheduled(env, "fixed:3"), seed=0)
    assert result == run_episode(env, scheduled(env, "fixed:3"), seed=0)
    rates = trace.step_rates
    assert rates.shape == (len(trace),)
    for row in range(len(trace.decision_steps) - 1):
        assert rates[trace.step_decisions == row].sum() == pytest.approx(N)


class FirstHalf:
    """A Scheduler: the first half of the chunk at rate 2; then the policy is asked again."""

    def schedule(self, observation, chunk, before=None):
        return Warp(np.arange(2.0, len(chunk) // 2 + 1, 2.0), len(chunk))

    def reset(self):
        pass


@pytest.mark.parametrize("max_steps", [60, 63])  # 63: the episode ends within a chunk of 6 commands
def test_what_is_done_is_what_the_positions_say_of_the_commands_sent(env, max_steps):
    env.max_steps = max_steps
    policy = ScheduledPolicy(ReplayPolicy(env.episode, N), Engine(ALOHA, FirstHalf))
    result, trace = trace_episode(env, policy, seed=0)
    assert sum(decision.executed for decision in result.decisions) == len(trace) == max_steps
    assert sum(decision.done for decision in result.decisions) == trace.step_rates.sum() == 2 * max_steps
    assert result.rate_mean == 2.0  # the whole chunks were 4 times as long
    assert summarise({"half": [result]}, np.random.default_rng(0))["half"].rate_mean == 2.0


def test_what_the_environment_reports_is_kept(env):
    class Reporting(LaggingEnv):
        def _observation(self):
            return {**super()._observation(), "environment_state": self.state[:3]}

    assert trace_episode(env, scheduled(env, "base"), 0)[1].environment_state is None
    trace = trace_episode(Reporting(env.episode), scheduled(env, "base"), 0)[1]
    np.testing.assert_array_equal(trace.environment_state, trace.states[:, :3])


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_every_scheduler_has_a_folder_of_its_own(specs):
    slugs = {scheduler_slug(spec) for spec in specs}
    assert len(slugs) == len(specs)
    assert all(len(slug) <= 69 and set(slug) <= SAFE for slug in slugs)


SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_padding_keeps_every_row_and_adds_only_nan(lengths):
    rows = [np.full((length, 2), length, dtype=np.float32) for length in lengths]
    padded = pad_rows(rows)
    for row, whole in zip(rows, padded, strict=True):
        np.testing.assert_array_equal(whole[: len(row)], row)
        assert np.isnan(whole[len(row) :]).all()


def small_trace(**changes):
    fields = {
        "states": np.zeros((4, 2), np.float32),
        "actions": np.zeros((3, 2)),
        "decision_steps": np.array([0, 2]),
        "chunks": np.zeros((2, 2, 2), np.float32),
        "positions": np.ones((2, 2), np.float32).cumsum(axis=1),
    }
    return fields | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"states": np.zeros((3, 2), np.float32)},
        {"decision_steps": np.array([0, 3])},
        {"decision_steps": np.array([1, 2])},
        {"positions": np.ones((1, 2), np.float32)},
        {"environment_state": np.zeros((3, 2), np.float32)},
        {"states": np.zeros((4, 2, 1), np.float32)},
        {"decision_steps": np.array([0.0, 2.0])},
        {"other": np.zeros(1)},
    ],
)
def test_a_damaged_trace_is_refused_by_name(tmp_path, changes):
    path = tmp_path / "7.npz"
    np.savez_compressed(path, **small_trace())
    assert len(read_trace(path)) == 3
    np.savez_compressed(path, **small_trace(**changes))
    with pytest.raises(InputError, match=r"7\.npz"):
        read_trace(path)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.6, 0.99])
def test_a_trace_cut_short_is_refused(tmp_path, keep):
    write_trace(tmp_path, "base", 7, Trace(**small_trace()))
    path = trace_file(tmp_path, "base", 7)
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    with pytest.raises(InputError, match=r"7\.npz"):
        read_trace(path)
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        read_trace(path)


def test_pickles_are_never_loaded(tmp_path):
    np.savez_compressed(tmp_path / "7.npz", **small_trace(states=np.array([{}, {}, {}, {}], dtype=object)))
    with pytest.raises(InputError, match="not a whole trace"):
        read_trace(tmp_path / "7.npz")


def test_a_run_keeps_one_trace_for_every_episode_that_it_runs(sup, tmp_path):
    arguments = ["eval", "aloha/insertion", "--policy", "bundled:aloha/insertion", "--out", tmp_path / "run", "--json"]
    code, out, error = sup(*arguments, "--scheduler", "fixed:3", "--episodes", "1", "--processes", "1")
    assert (code, error) == (0, "")
    [result] = read_episodes(tmp_path / "run" / "episodes.jsonl")["fixed:3"]
    trace = read_trace(trace_file(tmp_path / "run", "fixed:3", 0))
    assert len(trace) == result.steps
    assert trace.environment_state is not None
    code, out, error = sup(*arguments, "--scheduler", "fixed:4", "--episodes", "1", "--processes", "1", "--no-traces")
    assert (code, error) == (0, "")
    assert json.loads(out)["schedulers"]["fixed:4"]["episodes"] == 1
    assert not trace_file(tmp_path / "run", "fixed:4", 0).exists()
