import dataclasses
import json

import numpy as np
import pytest
import torch

from speedup_patch.baselines import FixedRate, OneRatePerChunk
from speedup_patch.candidates import Rates, Retimings
from speedup_patch.check import check_patch
from speedup_patch.errors import InputError
from speedup_patch.evaluation.rollout import run_episode
from speedup_patch.patch import ActionQueue, ScheduledPolicy, SpeedupPatch
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.relabel import predict_counterfactuals
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.engine import Engine
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.starts import find_starts
from speedup_patch.training import LoopConfig
from speedup_patch.tuning import DeviationTuning, Tuning
from speedup_patch.world_model.config import WorldModelConfig
from stand_ins import DELTA_ROBOT, LaggingEnv, ReplayPolicy, smooth_demonstrations

N = 12
LOOP = LoopConfig(steps=40, batch_size=64, learning_rate=1e-3, evaluate_every=20, patience=0, seed=0)
CONFIG = TrainingConfig(
    chunk_length=N,
    choices=Rates((1.0, 2.0, 3.0)),
    world_model=WorldModelConfig(kind="gru", hidden=16, loop=LOOP),
    scheduler=SchedulerConfig(hidden=16, loop=LOOP),
)


@pytest.fixture(scope="module", params=[CONFIG.choices, Retimings()], ids=["rates", "retimings"])
def trained(request):
    config = dataclasses.replace(CONFIG, choices=request.param)
    return train_patch(smooth_demonstrations(), ALOHA, config, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def patch(trained):
    return trained.engine()


@pytest.fixture
def folder(trained, tmp_path):
    trained.save(tmp_path / "my.patch")
    return tmp_path / "my.patch"


def observation(episode, t=20):
    return {"state": episode.states[t], "previous_state": episode.states[t - 1]}


def fixed(rate, policy):
    return ScheduledPolicy(policy, Engine(ALOHA, lambda: OneRatePerChunk(FixedRate(rate))))


def test_a_loaded_patch_answers_like_the_one_that_was_saved(patch, folder):
    episode = smooth_demonstrations(seed=3).episodes[0]
    answers = [SpeedupPatch(ReplayPolicy(episode, N), each).infer(observation(episode)) for each in (patch, folder)]
    np.testing.assert_allclose(*answers, atol=1e-6)
    assert 1 <= len(answers[0]) <= N


def test_provenance_tells_how_it_came_to_be(folder):
    provenance = load_patch(folder).provenance
    assert provenance["data"]["fingerprint"] == smooth_demonstrations().fingerprint()
    assert provenance["config"]["chunk_length"] == N
    assert provenance["penalty_meets_bound"] is True
    assert 0 <= provenance["held_out"]["scheduler"]["violating"] <= 1


def test_a_patch_runs_by_the_numbers_that_it_was_saved_with(trained, tmp_path):
    tuning = Tuning(deviation=DeviationTuning(stroke_tolerances=60.0))
    limits = dataclasses.replace(trained.description.limits, tuning=tuning)
    changed = dataclasses.replace(trained, description=dataclasses.replace(trained.description, limits=limits))
    deviations = []
    for name, each in (("plain", trained), ("changed", changed)):
        each.save(tmp_path / name)
        patch = load_patch(tmp_path / name)
        starts = find_starts(ALOHA, smooth_demonstrations(seed=3), N, stride=20)
        found = predict_counterfactuals(
            patch.world_model, starts.observations, starts.chunks, patch.candidates, "in_step", patch.limits
        )
        deviations.append(found.deviations)
    assert (deviations[1] > 1.5 * deviations[0]).any()  # fingers out of step count ten times as much
    assert (deviations[1] >= deviations[0] - 1e-6).all()


def test_the_options_of_a_saved_patch_are_those_that_its_chooser_learned(trained, folder):
    loaded = load_patch(folder)
    assert loaded.choices == trained.scheduler.choices == loaded.candidates.choices
    assert len(set(loaded.candidates.labels)) == len(loaded.candidates.labels)


def test_a_patch_from_before_these_were_recorded_runs_as_it_would_by_default(patch, folder):
    def rewrite(name, change):
        document = json.loads((folder / name).read_text())
        change(document)
        (folder / name).write_text(json.dumps(document))

    def forget(document):
        if document["choices"]["kind"] == "retimings":
            for name in ("joint_settled", "least_joint", "new_command"):
                del document["choices"]["common"][name]

    rewrite("patch.json", lambda document: document["limits"].pop("tuning"))
    rewrite("scheduler.json", forget)
    episode = smooth_demonstrations(seed=3).episodes[0]
    answers = [SpeedupPatch(ReplayPolicy(episode, N), each).infer(observation(episode)) for each in (patch, folder)]
    np.testing.assert_allclose(*answers, atol=1e-6)


def test_the_held_out_episodes_are_those_that_the_patch_names(folder):
    patch, data = load_patch(folder), smooth_demonstrations()
    named = patch.provenance["data"]["held_out_episodes"]
    training, held_out = data.split(CONFIG.held_out, np.random.default_rng(CONFIG.seed))
    assert [data.episodes[index] for index in named] == list(held_out)
    assert check_patch(patch, data).episodes == len(named) == len(data) - len(training)
    others = {**patch.provenance["data"], "held_out_episodes": [0, 2, 5]}
    found = check_patch(dataclasses.replace(patch, provenance={"data": others}), data)
    assert (found.held_out, found.episodes) == (True, 3)
    del others["held_out_episodes"]
    with pytest.raises(InputError, match="does not say which episodes it held out"):
        check_patch(dataclasses.replace(patch, provenance={"data": others}), data)


def test_rate_one_reproduces_the_policy():
    episode = smooth_demonstrations().episodes[0]
    policy = fixed(1.0, ReplayPolicy(episode, N))
    assert np.array_equal(policy.infer(observation(episode)), episode.actions[:N])


def test_an_unfamiliar_state_runs_the_original_chunk(patch):
    episode = smooth_demonstrations().episodes[0]
    policy = SpeedupPatch(ReplayPolicy(episode, N), patch)
    far = {"state": episode.states[0] + 3.0, "previous_state": episode.states[0] + 3.0}
    assert np.array_equal(policy.infer(far), episode.actions[:N])
    assert policy.fallbacks == {"unfamiliar state": 1}


def test_velocity_is_predicted_when_the_caller_does_not_report_it(patch):
    episode = smooth_demonstrations().episodes[0]
    policy = SpeedupPatch(ReplayPolicy(episode, N), patch)
    for t in (0, 10, 20):
        answer = policy.infer({"state": episode.states[t]})
        assert np.isfinite(answer).all()


class Broken:
    """A stand-in policy that answers with whatever it is given."""

    def __init__(self, chunk):
        self.chunk = chunk

    def infer(self, observation):
        return self.chunk

    def reset(self):
        pass


NAN = np.full((N, 14), 0.1)
NAN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (np.zeros((N, 7)), "14"),
        (np.zeros(14), "shape"),
        (np.zeros((0, 14)), "shape"),
        (NAN, "left_elbow"),
        (np.zeros((N + 1, 14)), f"--chunk {N + 1}"),
    ],
)
def test_a_wrong_chunk_is_an_error_to_the_caller(patch, chunk, message):
    with pytest.raises(InputError, match=message):
        SpeedupPatch(Broken(chunk), patch).infer(observation(smooth_demonstrations().episodes[0]))


@pytest.mark.parametrize(
    ("state", "message"),
    [({}, "no 'state'"), ({"state": np.zeros(3)}, "14"), ({"state": np.full(14, np.nan)}, "left_waist")],
)
def test_a_wrong_state_is_an_error_to_the_caller(patch, state, message):
    with pytest.raises(InputError, match=message):
        SpeedupPatch(Broken(np.zeros((N, 14))), patch).infer(state)


def test_a_patch_for_another_robot_is_refused(folder):
    with pytest.raises(InputError, match="made for robot 'aloha', not for 'stand_in_delta'"):
        load_patch(folder, DELTA_ROBOT)
    slower = dataclasses.replace(ALOHA, control_hz=30.0)
    with pytest.raises(InputError, match="made for robot"):
        load_patch(folder, slower)


@pytest.mark.parametrize(
    "name",
    [
        "world_model.onnx",
        "scheduler.onnx",
        "scheduler.safetensors",
        "guard.safetensors",
        "patch.json",
        "scheduler.json",
    ],
)
def test_a_truncated_patch_is_refused_by_file(folder, name):
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(InputError, match=name):
        load_patch(folder)


@pytest.mark.parametrize("key", ["robot", "epsilon", "speed_limit", "format_version"])
def test_a_patch_that_lacks_a_part_is_refused(folder, key):
    document = json.loads((folder / "patch.json").read_text())
    del document[key]
    (folder / "patch.json").write_text(json.dumps(document))
    with pytest.raises(InputError):
        load_patch(folder)


def test_an_existing_folder_is_not_replaced(trained, folder):
    with pytest.raises(InputError, match="exists"):
        trained.save(folder)


def test_data_of_another_size_is_refused():
    with pytest.raises(InputError, match="14 state"):
        train_patch(smooth_demonstrations(), DELTA_ROBOT, CONFIG, device=torch.device("cpu"))


def test_faster_schedulers_solve_the_episode_in_fewer_steps():
    episode = smooth_demonstrations(steps=96).episodes[0]
    steps = []
    for rate in (1.0, 2.0, 3.0):
        result = run_episode(LaggingEnv(episode), fixed(rate, ReplayPolicy(episode, N)), seed=0)
        assert result.success
        assert result.rate_mean == pytest.approx(rate)
        steps.append(result.steps)
    assert steps == [96, 48, 32]


def test_an_environment_with_another_robot_is_refused():
    episode = smooth_demonstrations().episodes[0]
    with pytest.raises(InputError, match="is for robot"):
        run_episode(LaggingEnv(episode, robot=DELTA_ROBOT), fixed(1.0, ReplayPolicy(episode, N)), seed=0)


def test_an_object_with_infer_alone_is_a_policy(patch):
    class InferOnly:
        def infer(self, observation):
            return smooth_demonstrations().episodes[0].actions[:N]

    policy = SpeedupPatch(InferOnly(), patch)
    policy.reset()
    assert len(policy.infer(observation(smooth_demonstrations().episodes[0]))) <= N


def test_an_openpi_style_answer_keeps_its_other_keys(patch):
    episode = smooth_demonstrations().episodes[0]
    policy = SpeedupPatch(
        lambda seen: {"actions": episode.actions[20 : 20 + N], "policy_timing": {"infer_ms": 3}}, patch
    )
    answer = policy.infer(observation(episode))
    assert answer["policy_timing"] == {"infer_ms": 3}
    assert answer["actions"].shape[1] == 14


class Watching:
    """A stand-in policy that notes the previous states it is told of."""

    def __init__(self, chunk):
        self.chunk, self.seen = chunk, []

    def infer(self, observation):
        self.seen.append(observation["previous_state"].copy())
        return self.chunk

    def reset(self):
        pass


def test_a_queue_hands_out_one_action_at_a_time_and_tells_the_true_velocity():
    episode = smooth_demonstrations().episodes[0]
    policy = Watching(episode.actions[:3])
    queue = ActionQueue(fixed(1.0, policy))
    buffer = np.empty(14)
    for t in range(7):
        buffer[:] = episode.states[t]  # a driver that reuses its buffer
        assert np.array_equal(queue.next({"state": buffer}), episode.actions[t % 3])
    assert [np.array_equal(seen, episode.states[t]) for seen, t in zip(policy.seen, (0, 2, 5), strict=True)] == [
        True
    ] * 3
    queue.reset()
    assert len(queue) == 0


def test_a_queue_believes_the_caller_about_the_previous_state():
    episode = smooth_demonstrations().episodes[0]
    policy = Watching(episode.actions[:3])
    ActionQueue(fixed(1.0, policy)).next({"state": episode.states[5], "previous_state": episode.states[4]})
    assert np.array_equal(policy.seen[0], episode.states[4])
