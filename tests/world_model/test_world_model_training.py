"""Training a world model: it learns, it resumes exactly, and ``auto`` picks what the robot allows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from small_arm import SMALL_ARM, demonstrate
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.errors import InputError
from speedup_patch.observations import encoded_poses, observe_episode
from speedup_patch.robots import ALOHA
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig
from speedup_patch.world_model.model import NetworkWorldModel
from speedup_patch.world_model.training import resolve_kind, train_world_model
from stand_ins import DELTA_ROBOT

CPU = torch.device("cpu")
TRAINING, HELD_OUT = demonstrate(episodes=6, seed=0), demonstrate(episodes=2, seed=1)
LOOP = LoopConfig(steps=4, batch_size=16, learning_rate=2e-3, evaluate_every=2, seed=5)
TINY = WorldModelConfig("gru", hidden=16, horizon=8, loop=LOOP)


def weights(model: object) -> dict[str, torch.Tensor]:
    assert isinstance(model, NetworkWorldModel)
    return model.dynamics.state_dict()


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_training_makes_predictions_better(kind: str) -> None:
    config = replace(TINY, kind=kind, hidden=64, loop=replace(LOOP, steps=250, batch_size=64, evaluate_every=250))
    reports: list[tuple[str, int, set[str]]] = []
    _, before = train_world_model(
        TRAINING, HELD_OUT, SMALL_ARM, replace(config, loop=replace(LOOP, steps=1)), device=CPU
    )
    _, after = train_world_model(
        TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU, report=lambda *a: reports.append((*a[:2], set(a[3])))
    )
    assert set(after) == {f"{what}_at_{step}" for what in ("position_mm", "turn_degrees") for step in (1, 2, 4, 8)}
    assert after["position_mm_at_8"] < 0.5 * before["position_mm_at_8"]
    evaluations = [{"loss", "held_out_loss"}, {f"held_out_{name}" for name in after}]
    assert [report for report in reports if report[2]] == [("world model", 250, names) for names in evaluations]


def test_a_servo_beats_a_millimetre_on_held_out_data() -> None:
    model, figures = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, replace(TINY, kind="servo"), device=CPU)
    assert model.kind == "servo"
    assert figures["position_mm_at_8"] < 1.0


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_two_steps_and_two_resumed_are_four(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    config = replace(TINY, kind=kind)

    class KilledError(Exception):
        pass

    def kill(stage: str, step: int, total: int, figures: object) -> None:
        if figures:  # the first checkpoint is there
            raise KilledError

    whole, figures = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU)
    with pytest.raises(KilledError):
        train_world_model(TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU, checkpoint=path, report=kill)
    resumed, again = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU, checkpoint=path, resume=True)
    assert again == figures
    assert all(torch.equal(tensor, weights(resumed)[name]) for name, tensor in weights(whole).items())


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_training_stops_when_it_no_longer_helps(kind: str) -> None:
    """Held-out episodes that obey another law than the training data: to fit those better does not help for long."""
    rng = np.random.default_rng(0)
    held_out = Demonstrations(
        tuple(replace(episode, actions=rng.permutation(episode.actions)) for episode in HELD_OUT), HELD_OUT.control_hz
    )
    loop = replace(WorldModelConfig().resolved_loop(kind), steps=400, batch_size=16, evaluate_every=1)
    reports: list[tuple[int, float]] = []
    train_world_model(
        TRAINING,
        held_out,
        SMALL_ARM,
        replace(TINY, kind=kind, loop=loop),
        device=CPU,
        report=lambda stage, step, total, figures: reports.append((step, figures.get("held_out_loss", np.nan))),
    )
    losses = [loss for _, loss in reports if np.isfinite(loss)]
    assert 0 < loop.patience < len(losses) < loop.steps
    assert int(np.argmin(losses)) == len(losses) - 1 - loop.patience


def test_the_seed_decides_and_nothing_else() -> None:
    torch.manual_seed(1)
    first, _ = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, TINY, device=CPU)
    torch.manual_seed(2)
    untouched = torch.get_rng_state()
    second, _ = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, TINY, device=CPU)
    other, _ = train_world_model(TRAINING, HELD_OUT, SMALL_ARM, replace(TINY, loop=replace(LOOP, seed=6)), device=CPU)
    assert torch.equal(torch.get_rng_state(), untouched)
    assert all(torch.equal(tensor, weights(second)[name]) for name, tensor in weights(first).items())
    assert any(not torch.equal(tensor, weights(other)[name]) for name, tensor in weights(first).items())


def test_a_checkpoint_of_another_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    train_world_model(TRAINING, HELD_OUT, SMALL_ARM, TINY, device=CPU, checkpoint=path)
    with pytest.raises(InputError, match="made for another network"):
        train_world_model(
            TRAINING, HELD_OUT, SMALL_ARM, replace(TINY, hidden=8), device=CPU, checkpoint=path, resume=True
        )


def test_a_checkpoint_that_looked_less_far_ahead_is_refused(tmp_path: Path) -> None:
    path, config = tmp_path / "checkpoint.safetensors", replace(TINY, horizon=None)
    train_world_model(TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU, chunk_length=8, checkpoint=path)
    with pytest.raises(InputError, match="horizon 8 instead of 12"):
        train_world_model(
            TRAINING, HELD_OUT, SMALL_ARM, config, device=CPU, chunk_length=12, checkpoint=path, resume=True
        )


def test_auto_takes_the_servo_where_the_robot_allows_it() -> None:
    auto = WorldModelConfig("auto")
    assert resolve_kind(auto, ALOHA) == "servo"
    assert resolve_kind(auto, DELTA_ROBOT) == "gru"
    assert resolve_kind(WorldModelConfig("mlp"), ALOHA) == "mlp"


@pytest.mark.parametrize("change", [{"hidden": 0}, {"layers": 0}, {"horizon": 0}, {"memory": -1}])
def test_impossible_settings_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        replace(TINY, **change)


def test_networks_look_no_further_ahead_than_a_chunk() -> None:
    config = replace(TINY, horizon=None)
    for kind, chunk, seen in (("gru", 8, 8), ("gru", 100, 24), ("servo", 8, 24)):
        _, figures = train_world_model(
            TRAINING, HELD_OUT, SMALL_ARM, replace(config, kind=kind), device=CPU, chunk_length=chunk
        )
        assert max(int(name.rsplit("_", 1)[1]) for name in figures) == seen


def test_a_delta_robot_trains_a_gru() -> None:
    rng = np.random.default_rng(0)
    states = np.cumsum(0.01 * rng.standard_normal((40, 7)), axis=0)
    episode = Episode(states, rng.standard_normal((40, 7)), np.arange(40) / 20.0)
    data = Demonstrations((episode, episode), 20.0)
    model, figures = train_world_model(data, data, DELTA_ROBOT, replace(TINY, kind="auto"), device=CPU)
    assert model.kind == "gru"
    assert all(np.isfinite(list(figures.values())))


def test_a_shortcut_foretells_commands_beyond_the_demonstrated_ones() -> None:
    rng = np.random.default_rng(0)
    data = Demonstrations(tuple(_motions(0.3 * rng.uniform(-1, 1, (8, 3))) for _ in range(40)), 20.0)
    fast = [_motions(0.9 * rng.uniform(-1, 1, (8, 3))) for _ in range(20)]
    starts = np.stack([observe_episode(DELTA_ROBOT, episode)[0] for episode in fast])
    chunks, led_to = np.stack([e.actions[:-1] for e in fast]), np.stack([e.states[1:, :3] for e in fast])
    config = replace(TINY, hidden=32, loop=replace(LOOP, steps=100, batch_size=64, evaluate_every=100))
    errors = []
    for shortcut in (False, True):
        model, _ = train_world_model(data, data, DELTA_ROBOT, replace(config, shortcut=shortcut), device=CPU)
        foretold = encoded_poses(DELTA_ROBOT, model.rollout(starts, chunks))[..., 0, :3]
        errors.append(np.linalg.norm(foretold - led_to, axis=-1).mean())
    assert errors[1] < 0.5 * errors[0]


def test_a_memory_tells_what_the_arm_has_yet_to_do() -> None:
    rng = np.random.default_rng(0)
    training, held_out = (
        Demonstrations(tuple(_motions(0.3 * rng.uniform(-1, 1, (20, 3))) for _ in range(count)), 20.0)
        for count in (40, 10)
    )
    config = replace(TINY, hidden=32, loop=replace(LOOP, steps=300, batch_size=64, evaluate_every=300))
    errors = []
    for memory in (0, 1):
        model, figures = train_world_model(
            training, held_out, DELTA_ROBOT, replace(config, memory=memory), device=CPU, chunk_length=8
        )
        assert model.memory == memory
        errors.append(figures["position_mm_at_1"])
    assert errors[1] < 0.5 * errors[0]


def _motions(commands: np.ndarray) -> Episode:
    """A stand-in for an arm that follows motions: two thirds of each at once, the rest a step later."""
    actions = np.zeros((len(commands) + 1, 7))
    actions[:-1, :3] = commands
    states = np.zeros_like(actions)
    moved = 0.01 * commands
    states[1:, :3] = np.cumsum(2 / 3 * moved + 1 / 3 * np.concatenate([np.zeros((1, 3)), moved[:-1]]), axis=0)
    return Episode(states, actions, np.arange(len(actions)) / 20.0)
