"""The benchmark of strangers, end to end with networks that were hardly trained, and how its figures are pooled."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from speedup_patch.artefacts import read_json
from speedup_patch.bench import stranger_robots
from speedup_patch.bench.config import SUITES, BenchConfig
from speedup_patch.bench.imitation import ChainPosition, ImitationConfig, gather_samples, learn, write_policy
from speedup_patch.bench.stranger_robots import Recipe
from speedup_patch.bench.strangers import OURS, choose_robots, pool_rows, robots_interval, run_strangers
from speedup_patch.commands.bench import _numbers
from speedup_patch.data import Demonstrations
from speedup_patch.datasets import read_demonstrations
from speedup_patch.envs.seeds import DEMONSTRATIONS
from speedup_patch.envs.strangers import StrangerEnv
from speedup_patch.envs.strangers.collecting import collect, demonstrate
from speedup_patch.errors import InputError
from speedup_patch.pipeline import TrainingConfig
from speedup_patch.policies import load_policy
from speedup_patch.reporting import silent
from speedup_patch.robots import KinematicChain
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig

PUSHES, HANDS_OVER = 8, 3
"""Robots at few hertz: one that is sent joints, and one that is sent motions."""
SHORT = LoopConfig(steps=2, batch_size=8, learning_rate=1e-3, evaluate_every=2, patience=0, seed=0)
RECIPE = Recipe(
    demonstrations=(2, 3),
    trials=1,
    imitation=ImitationConfig(steps=3, batch_size=8, hidden=16),
    training=TrainingConfig(
        states=40,
        world_model=WorldModelConfig(kind="mlp", hidden=8, loop=SHORT),
        scheduler=SchedulerConfig(loop=SHORT),
    ),
)


@pytest.fixture(scope="module")
def demonstrations() -> Demonstrations:
    return collect(StrangerEnv(PUSHES), 3, DEMONSTRATIONS)


def test_a_robot_is_made_measured_and_measured_no_second_time(tmp_path) -> None:
    config = BenchConfig(
        family="strangers",
        suites=SUITES["strangers"],
        episodes=1,
        schedulers=("fixed:4", OURS),
        work=tmp_path / "work",
        out=tmp_path / "results",
    )
    config = choose_robots(config, [PUSHES])
    notes = run_strangers(config, "sup bench strangers", recipe=RECIPE)
    read = read_demonstrations(config.work / f"{PUSHES:02d}.npz")
    assert len(read) in RECIPE.demonstrations
    assert not list(config.work.glob("*.attempt.onnx"))
    artefacts = [config.work / f"{PUSHES:02d}.{kind}" for kind in ("npz", "onnx", "patch")]
    assert all(path.exists() for path in artefacts)
    made = [path.stat().st_mtime_ns for path in artefacts]
    rows = read_json(config.out / "robots.json")["suites"][f"{PUSHES:02d}"]["rows"]
    assert [row["scheduler"] for row in rows] == ["base", "fixed:4", OURS]
    assert rows[-1]["predicted_speedup"] >= 1
    assert 0 <= rows[-1]["predicted_violating"] <= 1
    assert "predicted_speedup" not in rows[0]
    base = rows[0]["success"]
    assert bool(notes) == (base < 0.95), "a policy that does not solve its task is noted"
    pooled = read_json(config.out / "pooled.json")["suites"]["0 to 15"]["rows"]
    assert [row["robots"] for row in pooled] == [1, 1, 1]
    assert pooled[0]["success"] == base
    table = (config.out / "pooled.md").read_text()
    assert all(scheduler in table for scheduler in ("base", "fixed:4", OURS))
    episodes = sorted(path.read_text() for path in config.work.rglob("episodes.jsonl"))
    run_strangers(config, "sup bench strangers", recipe=RECIPE)
    assert [path.stat().st_mtime_ns for path in artefacts] == made
    assert sorted(path.read_text() for path in config.work.rglob("episodes.jsonl")) == episodes


@pytest.mark.parametrize(("shares", "kept"), [([0.5, 1.0, 0.0], 2), ([0.5, 0.4, 0.6], 3), ([0.5, 0.4, 0.3], 1)])
def test_more_is_recorded_until_a_policy_is_good_enough_and_the_best_one_stays(
    tmp_path, monkeypatch, shares: list[float], kept: int
) -> None:
    tried = iter(shares)
    monkeypatch.setattr(stranger_robots, "try_policy", lambda *_: next(tried))
    env, files = StrangerEnv(PUSHES), (tmp_path / "08.npz", tmp_path / "08.onnx")
    recipe = replace(RECIPE, demonstrations=(1, 2, 3), imitation=replace(RECIPE.imitation, steps=1))
    stranger_robots._teach(env, recipe, *files, silent)
    assert len(read_demonstrations(files[0])) == kept
    assert sorted(tmp_path.iterdir()) == sorted(files)


def row(scheduler: str, success: float, difference: float, speedup: float | None, **more: float) -> dict:
    return {"scheduler": scheduler, "success": success, "difference": difference, "speedup": speedup, **more}


def test_means_over_robots_count_who_lost_and_who_lost_against_a_promise() -> None:
    def robot(ours: float, violating: float, speedup: float | None = 2.0) -> list[dict]:
        check = {"predicted_speedup": 3.0, "predicted_violating": violating}
        return [row("base", 1.0, 0.0, 1.0), row(OURS, ours, ours - 1.0, speedup, **check)]

    base, ours = pool_rows("some", [robot(0.95, 0.0), robot(0.9, 0.0), robot(0.5, 0.5), robot(0.0, 0.0, None)])
    assert (base["robots"], base["lost"], base["success"]) == (4, 0, 1.0)
    assert (ours["lost"], ours["promised"], ours["promised_lost"]) == (3, 3, 2)
    assert ours["success"] == pytest.approx((0.95 + 0.9 + 0.5) / 4)
    assert ours["success_low"] < ours["success"] < ours["success_high"]
    assert ours["speedup"] == 2.0, "a robot that solved nothing has no speedup to average"


def test_an_interval_over_robots_is_as_wide_as_they_differ() -> None:
    rng = np.random.default_rng(0)
    assert robots_interval(np.full(16, 2.5), rng) == (2.5, 2.5)
    values = rng.normal(size=400)
    low, high = robots_interval(values, rng)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.15)


@pytest.mark.parametrize(("text", "numbers"), [("3", [3]), ("0-2,9", [0, 1, 2, 9]), ("4,4-5", [4, 5])])
def test_robots_are_named_by_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert _numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1;2"])
def test_other_words_for_robots_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--robots"):
        _numbers(text)


def test_a_number_beyond_the_last_stranger_is_refused() -> None:
    with pytest.raises(InputError, match="31"):
        choose_robots(BenchConfig(family="strangers", suites=SUITES["strangers"]), [32])


@pytest.mark.parametrize("number", [PUSHES, HANDS_OVER])
def test_the_saved_policy_answers_like_the_network_with_chunks_of_its_robot(tmp_path, number: int) -> None:
    env = StrangerEnv(number)
    episode = demonstrate(env, DEMONSTRATIONS)
    assert episode is not None
    given = Demonstrations((episode,), env.robot.control_hz)
    network = learn(given, env.robot, env.stranger.chunk, RECIPE.imitation)
    write_policy(network, tmp_path / "policy.onnx")
    chunk = load_policy(f"onnx:{tmp_path / 'policy.onnx'}").infer(env.reset(1))
    assert chunk.shape == (env.stranger.chunk, env.robot.action_size)
    if env.stranger.fingers.ramp_seconds == 0:
        gripper = env.robot.grippers[0]
        assert set(chunk[:, gripper.action]) <= {gripper.open, gripper.closed}


@pytest.mark.parametrize("number", [2, 13])
def test_the_network_knows_where_the_hands_are(number: int) -> None:
    robot = StrangerEnv(number).robot
    states = np.random.default_rng(0).normal(scale=20.0, size=(5, robot.state_size))
    for arm, pose in zip(robot.arms, np.moveaxis(robot.poses(states), 1, 0), strict=True):
        assert isinstance(arm.pose, KinematicChain)
        found = ChainPosition(arm.pose)(torch.tensor(states, dtype=torch.float32)).numpy()
        np.testing.assert_allclose(found, pose[:, :3], atol=1e-4)


def test_a_policy_of_targets_begins_where_the_robot_is(demonstrations: Demonstrations) -> None:
    env = StrangerEnv(PUSHES)
    samples = gather_samples(demonstrations, env.robot, env.stranger.chunk)
    assert len(samples.begins) == demonstrations.frames
    first = demonstrations.episodes[0]
    np.testing.assert_allclose(samples.actions[samples.begins[5]], first.actions[5], rtol=1e-6)
    np.testing.assert_allclose(samples.actions[samples.begins[len(first) - 1] + 3], first.actions[-1], rtol=1e-6)
