from dataclasses import replace

import numpy as np
import pytest
import torch

from speedup_patch.candidates import Options, Rates, Retimings, bind
from speedup_patch.errors import InputError
from speedup_patch.limits import read_limits
from speedup_patch.relabel import relabel
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.choices import judge_choices
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.scheduler.iql import expectile_loss, value_loss
from speedup_patch.scheduler.model import load_scheduler
from speedup_patch.scheduler.training import IqlLearner, fit_inputs, train_scheduler
from speedup_patch.training import LoopConfig
from stand_ins import LaggingWorldModel, smooth_demonstrations

RATES = Rates((1.0, 2.0, 3.0))
RETIMINGS = Retimings()
LIMITS = read_limits(ALOHA, smooth_demonstrations(episodes=8, seed=0))
CPU = torch.device("cpu")


def transitions(seed, choices=RATES):
    return relabel(
        LaggingWorldModel(),
        smooth_demonstrations(episodes=8, seed=seed),
        bind(choices, ALOHA, LIMITS),
        limits=LIMITS,
        chunk_length=12,
        measure="in_step",
        epsilon=0.03,
        penalty=6.0,
        rng=np.random.default_rng(0),
    )


def config(steps):
    loop = LoopConfig(steps=steps, batch_size=128, learning_rate=2e-3, evaluate_every=100, patience=0, seed=0)
    return SchedulerConfig(hidden=32, gamma=0.5, penalty=6.0, target_rate=0.02, loop=loop)


@pytest.fixture(scope="module", params=[RATES, RETIMINGS], ids=["rates", "retimings"])
def choices(request):
    return request.param


@pytest.fixture(scope="module")
def trained(choices):
    data = transitions(0, choices)
    return train_scheduler(data, data, ALOHA, choices, config(600), device=CPU)


def test_expectile_of_a_constant_difference():
    difference = torch.tensor([2.0, -2.0])
    assert expectile_loss(difference, 0.95).item() == pytest.approx((0.95 * 4 + 0.05 * 4) / 2)


def test_value_loss_is_smallest_at_the_upper_expectile():
    q = torch.tensor([0.0, 1.0])
    grid = torch.linspace(0, 1, 101)
    losses = torch.stack([value_loss(v.expand(2), q, 0.95) for v in grid])
    assert grid[losses.argmin()].item() == pytest.approx(0.95)


def test_figures_are_shares_and_a_regret(trained):
    _, figures = trained
    assert figures["loss"] >= 0
    assert 0 <= figures["agreement"] <= 1
    assert 0 <= figures["violating"] <= 1


def test_training_again_gives_the_same_weights():
    data = transitions(0)
    first, second = (train_scheduler(data, data, ALOHA, RATES, config(20), device=CPU)[0] for _ in range(2))
    for name, tensor in first.critic.state_dict().items():
        assert torch.equal(tensor, second.critic.state_dict()[name]), name


def test_no_value_is_learned_that_is_not_possible():
    data = transitions(0)
    settings = replace(config(50), gamma=0.9)
    learner = IqlLearner(data, data, fit_inputs(ALOHA, data, True), settings, CPU)
    lowest, highest = data.rewards.min() / 0.1, data.rewards.max() / 0.1
    samples = torch.arange(learner.data.samples)
    state, rate = samples // learner.data.rate_count, samples % learner.data.rate_count
    for wrong in (1e3, -1e3):  # V and Q that have run away
        for network in (learner.value.network, learner.target.first.head, learner.target.second.head):
            torch.nn.init.constant_(network[-1].bias, wrong)
        targets = learner.q_targets(state, rate)
        assert lowest - 1e-4 <= targets.min() <= targets.max() <= highest + 1e-4
        assert learner.update(samples[:128])["v_loss"] > 1e4  # V is pulled back, not to a Q as wrong as itself
    for batch in samples[torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))].split(128)[:50]:
        learner.update(batch)
    values = learner.values(learner.data.next_observations.flatten(0, 1))
    assert lowest - 1e-4 <= values.min() <= values.max() <= highest + 1e-4
    assert 0 <= learner.evaluate()["violating"] <= 1


def test_saved_and_loaded_scheduler_chooses_the_same(trained, choices, tmp_path):
    scheduler, _ = trained
    scheduler.save(tmp_path)
    loaded = load_scheduler(tmp_path, ALOHA)
    assert loaded.choices == choices
    held_out = transitions(1, choices)
    options = Options(held_out.chunks, np.zeros(held_out.chunks.shape[:3]), held_out.lengths)
    np.testing.assert_array_equal(
        loaded.chooser.q_values(held_out.observations, options),
        scheduler.chooser.q_values(held_out.observations, options),
    )


def test_a_truncated_scheduler_is_refused(trained, tmp_path):
    trained[0].save(tmp_path)
    path = tmp_path / "scheduler.safetensors"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"scheduler\.safetensors"):
        load_scheduler(tmp_path, ALOHA)


def test_resumed_training_ends_with_the_same_weights(tmp_path):
    data, held_out = transitions(0), transitions(1)
    whole, _ = train_scheduler(data, held_out, ALOHA, RATES, config(200), device=CPU)
    checkpoint = tmp_path / "scheduler.safetensors"
    train_scheduler(data, held_out, ALOHA, RATES, config(100), device=CPU, checkpoint=checkpoint)
    resumed, _ = train_scheduler(
        data, held_out, ALOHA, RATES, config(200), device=CPU, checkpoint=checkpoint, resume=True
    )
    for name, tensor in whole.critic.state_dict().items():
        assert torch.equal(tensor, resumed.critic.state_dict()[name]), name


def test_choices_are_judged_against_greedy():
    rates = np.tile([1.0, 2.0, 4.0], (3, 1))
    violations = np.array([[False, False, True], [False, True, True], [True, True, True]])
    figures = judge_choices(rates, violations, np.array([1, 1, 0]))
    assert figures.agreement == pytest.approx(2 / 3)
    assert figures.violating == pytest.approx(1 / 2)


@pytest.mark.parametrize("change", [{"gamma": 1.0}, {"expectile": 0.3}, {"penalty": -5.0}])
def test_wrong_hyperparameters_are_refused(change):
    with pytest.raises(InputError):
        SchedulerConfig(**change)


def test_the_default_penalty_meets_the_bound():
    assert SchedulerConfig(gamma=0.9).resolved_penalty(4.0) > 0.9 * 4 / 0.1
