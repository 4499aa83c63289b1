"""What every kind of world model must do, and that what is saved comes back or is refused by name."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from small_arm import LAW, SMALL_ARM, demonstrate
from speedup_patch.errors import InputError
from speedup_patch.interfaces import WorldModel
from speedup_patch.observations import feature_size, observe_episode
from speedup_patch.robots import ALOHA
from speedup_patch.world_model.config import KINDS, Kind, WorldModelConfig
from speedup_patch.world_model.model import NetworkWorldModel, load_world_model
from speedup_patch.world_model.servo import ServoWorldModel
from speedup_patch.world_model.training import build_dynamics
from speedup_patch.world_model.windows import Windows

EPISODE = demonstrate(episodes=1, steps=60).episodes[0]
OBSERVATIONS = observe_episode(SMALL_ARM, EPISODE)
NO_LIMIT = np.full(3, np.inf)


def untrained(kind: Kind, **options: int) -> NetworkWorldModel | ServoWorldModel:
    if kind == "servo":
        return ServoWorldModel(SMALL_ARM, LAW, -NO_LIMIT, NO_LIMIT)
    config = replace(WorldModelConfig(kind, hidden=16, layers=2), **options)
    dynamics = build_dynamics(kind, SMALL_ARM, config, seed=1)
    windows = Windows(SMALL_ARM, demonstrate(episodes=1, steps=60), 8, torch.device("cpu"), dynamics.shape.memory)
    dynamics.fit_scaling(windows.gather(torch.arange(len(windows))))
    return NetworkWorldModel(SMALL_ARM, kind, dynamics)


def chunks(rows: int, length: int) -> np.ndarray:
    return np.stack([EPISODE.actions[row : row + length] for row in range(rows)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_has_one_row_per_action_and_later_actions_do_not_reach_back(kind: Kind) -> None:
    model = untrained(kind)
    assert isinstance(model, WorldModel)
    whole = model.rollout(OBSERVATIONS[:5], chunks(5, 12))
    assert whole.shape == (5, 12, feature_size(SMALL_ARM))
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(model.rollout(OBSERVATIONS[:5], chunks(5, 7)), whole[:, :7], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_influence_each_other(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained(kind)
    together = model.rollout(OBSERVATIONS[:20], chunks(20, 6))
    for module in ("model", "servo"):
        monkeypatch.setattr(f"speedup_patch.world_model.{module}.ROWS_AT_ONCE", 3)
    np.testing.assert_allclose(model.rollout(OBSERVATIONS[:20], chunks(20, 6)), together, atol=1e-5)
    assert model.rollout(OBSERVATIONS[:0], chunks(20, 6)[:0]).shape == (0, 6, feature_size(SMALL_ARM))


@settings(max_examples=12)
@given(st.sampled_from(KINDS), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_what_is_saved_comes_back(kind: Kind, velocity: bool, residual: bool, relative: bool, shortcut: bool) -> None:
    model = untrained(kind, velocity=velocity, residual=residual, relative_actions=relative, shortcut=shortcut)
    with TemporaryDirectory() as folder:
        model.save(Path(folder))
        again = load_world_model(Path(folder), SMALL_ARM)
    assert again.kind == kind
    np.testing.assert_array_equal(
        again.rollout(OBSERVATIONS[:5], chunks(5, 6)), model.rollout(OBSERVATIONS[:5], chunks(5, 6))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_another_robot_or_half_a_file_is_refused(kind: Kind, tmp_path: Path) -> None:
    untrained(kind).save(tmp_path)
    with pytest.raises(InputError, match="for robot 'aloha'"):
        load_world_model(tmp_path, ALOHA)
    path = tmp_path / "world_model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        load_world_model(tmp_path, SMALL_ARM)
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        load_world_model(tmp_path, SMALL_ARM)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kind": "oracle"}, "unknown kind of world model, 'oracle'; known kinds: gru, mlp, servo"),
        ({"kind": "servo"}, "tensor"),
        ({"network": {"hidden": 16}}, "must describe its network by hidden, layers"),
        (
            {"network": {"hidden": 8, "layers": 2, "velocity": True, "residual": True, "relative_actions": True}},
            "shape",
        ),
    ],
)
def test_a_description_that_does_not_fit_is_refused(change: dict[str, object], named: str, tmp_path: Path) -> None:
    untrained("gru").save(tmp_path)
    path = tmp_path / "world_model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=named):
        load_world_model(tmp_path, SMALL_ARM)


def test_a_network_that_says_nothing_of_a_shortcut_or_a_memory_has_none(tmp_path: Path) -> None:
    model = untrained("gru", shortcut=False, memory=0)
    model.save(tmp_path)
    path = tmp_path / "world_model.json"
    description = json.loads(path.read_text())
    del description["network"]["shortcut"], description["network"]["memory"]
    path.write_text(json.dumps(description))
    again = load_world_model(tmp_path, SMALL_ARM)
    assert again.memory == 0
    np.testing.assert_array_equal(
        again.rollout(OBSERVATIONS[:5], chunks(5, 6)), model.rollout(OBSERVATIONS[:5], chunks(5, 6))
    )


def test_only_the_any_step_network_remembers_commands() -> None:
    assert [untrained(kind, memory=2).memory for kind in ("gru", "mlp", "servo")] == [2, 0, 0]
    model, before = untrained("gru", memory=2), chunks(5, 2)
    told, untold = (model.rollout(OBSERVATIONS[:5], chunks(5, 6), sent) for sent in (before, None))
    assert (told != untold).any(axis=(1, 2)).all()
    nothing = model.rollout(OBSERVATIONS[:5], chunks(5, 6), np.full_like(before, np.nan))
    np.testing.assert_array_equal(nothing, untold)


def test_without_velocity_the_networks_do_not_see_it() -> None:
    moving = OBSERVATIONS[:5].copy()
    moving[:, feature_size(SMALL_ARM) :] += 0.1
    for kind in ("gru", "mlp"):
        blind, seeing = untrained(kind, velocity=False), untrained(kind)
        # The one-step model infers velocity from its own predictions, so only its first step is blind.
        first = chunks(5, 1)
        np.testing.assert_array_equal(blind.rollout(moving, first), blind.rollout(OBSERVATIONS[:5], first))
        assert not np.array_equal(seeing.rollout(moving, first), seeing.rollout(OBSERVATIONS[:5], first))
