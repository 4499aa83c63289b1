import numpy as np
import pytest

from report.run_folders import CHUNK, aloha_trace, episode, three_schedulers, write_run
from speedup_patch.acceleration import accelerate
from speedup_patch.evaluation.deviations import patch_judge, predict_deviations
from speedup_patch.evaluation.run import content_digest
from speedup_patch.evaluation.traces import Trace, pad_rows, trace_file
from speedup_patch.observations import observe
from speedup_patch.relabel import predict_counterfactuals
from speedup_patch.report.labels import styles
from speedup_patch.report.patches import find_patches, judge_of
from speedup_patch.report.payload import run_payload, script_json, seeds_by_interest
from speedup_patch.report.reading import read_run
from speedup_patch.report.timelines import decision_record, read_traces, trace_record
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.warp import uniform_warp


def uniform_trace(rate: float, decisions: int = 3) -> Trace:
    """Chunks that all run at one rate, from states that drift about."""
    rng = np.random.default_rng(1)
    chunks = 0.3 + np.cumsum(rng.normal(0, 0.01, (decisions, CHUNK, ALOHA.action_size)), axis=1).astype(np.float32)
    warp = uniform_warp(CHUNK, rate)
    actions = np.concatenate([accelerate(ALOHA, chunk, warp).actions for chunk in chunks])
    states = 0.3 + np.cumsum(rng.normal(0, 0.005, (len(actions) + 1, ALOHA.state_size)), axis=0)
    steps = np.arange(decisions) * len(warp)
    return Trace(states.astype(np.float32), actions, steps, chunks, pad_rows([warp.positions] * decisions))


@pytest.mark.parametrize("option", [0, 1, 2])
def test_deviations_are_what_the_patch_itself_would_have_predicted(patch_folder, option):
    patch = load_patch(patch_folder)
    trace = uniform_trace(patch.choices.values[option])
    before = trace.states[np.maximum(trace.decision_steps - 1, 0)].astype(np.float64)
    observations = observe(ALOHA, trace.states[trace.decision_steps].astype(np.float64), before)
    expected = predict_counterfactuals(
        patch.world_model, observations, trace.chunks.astype(np.float64), patch.candidates, patch.measure, patch.limits
    ).deviations[:, option]
    (found,) = predict_deviations(patch_judge(patch), [trace])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (found > 0).all() == (option > 0)


def test_a_chunk_that_the_end_of_the_episode_cut_short_is_judged_as_a_whole(patch_folder):
    patch, whole = load_patch(patch_folder), uniform_trace(2.0)
    cut = Trace(whole.states[:-2], whole.actions[:-2], whole.decision_steps, whole.chunks, whole.positions)
    np.testing.assert_allclose(*predict_deviations(patch_judge(patch), [whole, cut]), atol=1e-5)


def test_traces_of_one_episode_do_not_depend_on_the_others(patch_folder):
    patch, traces = load_patch(patch_folder), [uniform_trace(rate) for rate in (1.0, 2.0, 4.0)]
    for alone, together in zip(traces, predict_deviations(patch_judge(patch), traces), strict=True):
        np.testing.assert_allclose(predict_deviations(patch_judge(patch), [alone])[0], together, atol=1e-5)


def test_an_episode_can_be_read_back_from_its_decisions():
    result = episode(4, 3, success=False, reason="unfamiliar chunk")
    record = decision_record(result)
    assert np.cumsum([0, *record["executed"][:-1]]).tolist() == [decision.step for decision in result.decisions]
    assert (record["steps"], record["success"]) == (result.steps, False)
    assert record["fallbacks"] == {"1": "unfamiliar chunk"}


def test_a_trace_adds_rate_phases_and_grippers_for_every_step(tmp_path):
    run = read_run(write_run(tmp_path / "run", three_schedulers(seeds=3), traces=True))
    found = read_traces(run, None)
    result = run.episodes["fixed:2"][1]
    record = trace_record(found, "fixed:2", 1)
    assert sum(count for _, count in record["rates"]) == sum(count for _, count in record["phases"]) == result.steps
    assert {rate for rate, _ in record["rates"]} == {2.0}
    assert [gripper["name"] for gripper in record["grippers"]] == ["left", "right"]
    for gripper in record["grippers"]:
        assert len(gripper["command"]) == len(gripper["opening"]) == result.steps
        assert gripper["command"][0] == 100
        assert gripper["command"][-1] == 0
    assert "deviations" not in record


def test_damaged_and_foreign_traces_are_named_and_left_out(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers(seeds=2), traces=True)
    trace_file(folder, "fixed:2", 0).write_bytes(b"nothing")
    found = read_traces(read_run(folder), None)
    assert ("fixed:2", 0) not in found.traces
    assert len(found.traces) == 5
    assert any(str(trace_file(folder, "fixed:2", 0)) in note for note in found.unreadable)
    renamed = read_traces(
        read_run(write_run(tmp_path / "b", three_schedulers(seeds=1), env="libero/goal", traces=True)), None
    )
    assert renamed.traces == {}
    assert all("another robot" in note for note in renamed.unreadable)


def test_with_the_patch_that_ran_every_decision_has_a_deviation(tmp_path, patch_folder):
    schedulers = three_schedulers(str(patch_folder), seeds=2)
    contents = {str(patch_folder): content_digest(str(patch_folder))}
    run = read_run(write_run(tmp_path / "run", schedulers, contents=contents, traces=True))
    judge = judge_of(find_patches(run))
    payload, notes = run_payload(run, read_traces(run, judge), judge, styles([run.schedulers]), 10**6)
    assert notes == []
    assert payload["tolerance"] == judge.loaded.epsilon
    for spec, episodes in payload["episodes"].items():
        for seed, record in episodes.items():
            assert len(record["deviations"]) == len(run.episodes[spec][int(seed)].decisions)
    assert set(payload["episodes"]["base"]["0"]["deviations"]) == {0.0}


def test_seeds_on_which_schedulers_disagree_come_first(tmp_path):
    run = read_run(write_run(tmp_path / "run", three_schedulers()))
    assert seeds_by_interest(run) == [3, 0, 1, 2, 4, 5]


@pytest.mark.parametrize("budget", [0, 3000, 6000, 10**6])
def test_traces_stay_within_their_budget_and_what_is_left_out_is_said(tmp_path, budget):
    run = read_run(write_run(tmp_path / "run", three_schedulers(), traces=True))
    found, drawn = read_traces(run, None), styles([run.schedulers])
    plain = len(script_json(run_payload(run, found, None, drawn, 0)[0]))
    payload, notes = run_payload(run, found, None, drawn, budget)
    whole = {seed for seed in run.seeds if "rates" in payload["episodes"]["base"][str(seed)]}
    assert len(script_json(payload)) - plain <= budget + 100
    assert bool(notes) == (whole != set(run.seeds))
    assert all(
        ("rates" in payload["episodes"][spec][str(seed)]) == (seed in whole) for spec in drawn for seed in run.seeds
    )


def test_aloha_traces_of_these_tests_agree_with_their_episodes():
    result = episode(2, 2, reason="late")
    assert len(aloha_trace(result)) == result.steps
