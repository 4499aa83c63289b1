"""What onnxruntime computes on the robot is what torch computed in training."""

import numpy as np
import pytest
import torch

from speedup_patch.candidates import Choices, Rates, Retimings, bind, shorten_all
from speedup_patch.limits import read_limits
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import feature_size, observe
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.export import export_scheduler, export_world_model
from speedup_patch.runtime.models import load_chooser, load_world_model
from speedup_patch.scheduler.inputs import CriticInputs, CriticShape
from speedup_patch.scheduler.model import TrainedScheduler
from speedup_patch.scheduler.network import TwinCritic
from speedup_patch.starts import find_starts
from speedup_patch.world_model.model import DYNAMICS, NetworkWorldModel
from speedup_patch.world_model.network import NetworkShape
from stand_ins import DELTA_ROBOT, START, LaggingWorldModel, smooth_demonstrations

N = 24
SIZE = 2 * feature_size(ALOHA)
TOLERANCE = 1e-4


def random_scheduler(encoder: str, choices: Choices, seed: int = 0) -> TrainedScheduler:
    torch.manual_seed(seed)
    critic = TwinCritic(CriticShape(SIZE, 14, N, hidden=32, layers=2, encoder=encoder)).eval()
    rng = np.random.default_rng(seed)
    observation = Normalizer(rng.normal(size=SIZE), rng.uniform(0.1, 2, SIZE))
    action = Normalizer(rng.normal(size=14), rng.uniform(0.1, 2, 14))
    return TrainedScheduler(critic, CriticInputs(ALOHA, observation, action, relative_actions=True), choices)


def random_moments(count: int, seed: int = 1):
    rng = np.random.default_rng(seed)
    states = START + rng.normal(0, 0.3, (count, 14))
    before = states + rng.normal(0, 0.02, (count, 14))
    return observe(ALOHA, states, before), START + rng.normal(0, 0.5, (count, N, 14))


@pytest.mark.parametrize("encoder", ["mlp", "gru"])
@pytest.mark.parametrize("choices", [Rates(), Rates((2.0, 3.0, 4.0)), Retimings()])
def test_q_values_and_choices_are_those_of_torch_on_thousands_of_states(tmp_path, encoder, choices):
    scheduler = random_scheduler(encoder, choices)
    scheduler.save(tmp_path)
    export_scheduler(tmp_path, ALOHA)
    loaded, known = load_chooser(tmp_path, ALOHA)
    assert known == choices
    demonstrations = smooth_demonstrations(episodes=20, steps=150)
    candidates = bind(choices, ALOHA, read_limits(ALOHA, demonstrations))
    if isinstance(choices, Rates):
        observations, chunks = random_moments(2_000)
    else:  # random chunks are beyond all limits, so that no retiming changes them
        starts = find_starts(ALOHA, demonstrations, N)
        observations, chunks = starts.observations, starts.chunks
    paths = paths_at_rate_one(LaggingWorldModel(), observations, chunks) if candidates.needs_path else None
    options = shorten_all(ALOHA, candidates, paths, chunks)
    ours, theirs = (chooser.q_values(observations, options) for chooser in (loaded, scheduler.chooser))
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)
    # A real choice, not a tie that rounding decides; but several retimings of one chunk may be the same.
    real = np.diff(np.sort(theirs, axis=1)[:, -2:], axis=1)[:, 0] > 2 * TOLERANCE
    assert real.mean() > (0.9 if isinstance(choices, Rates) else 0.2)
    same = loaded.choose(observations, options) == scheduler.chooser.choose(observations, options)
    assert same[real].all()


@pytest.mark.parametrize(
    ("kind", "shortcut", "memory"), [("gru", True, 2), ("gru", True, 0), ("gru", False, 3), ("mlp", False, 0)]
)
@pytest.mark.parametrize("velocity", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_world_models_predict_what_torch_predicts(tmp_path, kind, shortcut, memory, velocity, residual):
    torch.manual_seed(0)
    shape = NetworkShape(16, 2, velocity, residual, relative_actions=True, shortcut=shortcut, memory=memory)
    model = NetworkWorldModel(ALOHA, kind, DYNAMICS[kind](ALOHA, shape))
    model.save(tmp_path)
    export_world_model(tmp_path, ALOHA)
    loaded = load_world_model(tmp_path, ALOHA)
    observations, chunks = random_moments(50)
    before = np.random.default_rng(1).normal(0, 1, (50, memory, ALOHA.action_size))
    before[:10, : memory // 2] = np.nan  # nothing was sent yet
    assert loaded.memory == model.memory == memory
    for sent in (before, None):
        ours, theirs = (each.rollout(observations, chunks, sent) for each in (loaded, model))
        assert np.isfinite(ours).all()
        np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shortcut", [True, False])
def test_a_delta_robots_world_model_too(tmp_path, shortcut):
    torch.manual_seed(0)
    shape = NetworkShape(16, 1, velocity=True, residual=True, relative_actions=False, shortcut=shortcut)
    model = NetworkWorldModel(DELTA_ROBOT, "gru", DYNAMICS["gru"](DELTA_ROBOT, shape))
    model.save(tmp_path)
    export_world_model(tmp_path, DELTA_ROBOT)
    rng = np.random.default_rng(0)
    states = rng.normal(0, 0.3, (20, 7))
    observations, actions = observe(DELTA_ROBOT, states, states * 0.9), rng.uniform(-1, 1, (20, 8, 7))
    np.testing.assert_allclose(
        load_world_model(tmp_path, DELTA_ROBOT).rollout(observations, actions),
        model.rollout(observations, actions),
        atol=1e-5,
    )
