"""Predicted deviations of decisions that were taken, compared with those of the ways that were not."""

from dataclasses import replace

import numpy as np
import pytest

from speedup_patch.candidates import Rates, bind
from speedup_patch.evaluation import deviations
from speedup_patch.evaluation.deviations import Judge, find_judge, judge_decisions, predict_deviations
from speedup_patch.evaluation.rollout import trace_episode
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.limits import read_limits
from speedup_patch.observations import observe
from speedup_patch.relabel import predict_counterfactuals
from speedup_patch.robots import ALOHA
from stand_ins import LaggingEnv, LaggingWorldModel, ReplayPolicy, smooth_demonstrations

N = 24
DEMONSTRATIONS = smooth_demonstrations(steps=96)
LIMITS = read_limits(ALOHA, DEMONSTRATIONS)


def judge(measure, epsilon=0.03):
    return Judge(LaggingWorldModel(), LIMITS, measure, epsilon)


def trace_at(spec, steps=200):
    """An episode whose commands are within the limits, so that none is cut on its way to the robot."""
    whole = DEMONSTRATIONS.episodes[0]
    episode = replace(whole, actions=np.clip(whole.actions, ALOHA.action_low, ALOHA.action_high))
    policy = schedule_policy(spec, ReplayPolicy(episode, N), ALOHA)
    return trace_episode(LaggingEnv(episode, max_steps=steps), policy, 0)[1]


@pytest.mark.parametrize("measure", ["in_step", "cross_track", "time_aligned"])
def test_a_chunk_that_ran_as_it_was_does_not_deviate(measure):
    np.testing.assert_allclose(predict_deviations(judge(measure), [trace_at("base")])[0], 0, atol=1e-6)


@pytest.mark.parametrize("measure", ["in_step", "cross_track", "time_aligned"])
@pytest.mark.parametrize("rate", [2.0, 3.0])
def test_a_whole_chunk_deviates_as_much_as_its_counterfactual(measure, rate):
    trace = trace_at(f"fixed:{rate}")
    found = predict_deviations(judge(measure), [trace])[0]
    before = np.maximum(trace.decision_steps - 1, 0)
    states = trace.states.astype(np.float64)
    observations = observe(ALOHA, states[trace.decision_steps], states[before])
    counterfactuals = predict_counterfactuals(
        LaggingWorldModel(),
        observations,
        trace.chunks.astype(np.float64),
        bind(Rates((rate,)), ALOHA, LIMITS),
        measure,
        LIMITS,
    )
    np.testing.assert_allclose(found, counterfactuals.deviations[:, 0], atol=1e-5)
    assert (found > 1e-4).all()


def test_a_violation_is_a_deviation_of_more_than_the_tolerance():
    trace = trace_at("fixed:3")
    middle = float(np.median(predict_deviations(judge("time_aligned"), [trace])[0]))
    judged = judge_decisions(judge("time_aligned", middle), trace)
    np.testing.assert_array_equal(judged.violations, judged.deviations > middle)
    assert 0 < judged.violations.sum() < len(trace.decision_steps)


def test_the_judge_is_the_patch_that_a_scheduler_names(tmp_path, monkeypatch):
    folder = tmp_path / "my.patch"
    folder.mkdir()
    (folder / "patch.json").write_text("{}")
    asked = []

    def load(path, robot):
        asked.append((path, robot))
        return judge("cross_track", epsilon=0.02)

    monkeypatch.setattr(deviations, "load_patch", load)
    monkeypatch.setattr(deviations, "patch_judge", lambda loaded: loaded)
    for spec in (f"{folder}", f"mpc:{folder}", f"dwell+{folder}", f"dwell+mpc:{folder}"):
        found = find_judge(spec, ALOHA)
        assert found is not None
        assert (found.measure, found.epsilon) == ("cross_track", 0.02)
    assert asked == [(folder, ALOHA)] * 4
    assert [find_judge(spec, ALOHA) for spec in ("base", "fixed:2", str(tmp_path))] == [None] * 3
