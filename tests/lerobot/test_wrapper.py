"""A patched policy in LeRobot's own evaluation rollout (run with ``make test-lerobot``)."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
from vision_operators import declare_missing_operators  # noqa: E402

declare_missing_operators()
from lerobot.policies.factory import make_pre_post_processors  # noqa: E402
from lerobot.policies.sac.configuration_sac import SACConfig  # noqa: E402
from lerobot.policies.sac.modeling_sac import SACPolicy  # noqa: E402
from lerobot.policies.tdmpc.configuration_tdmpc import TDMPCConfig  # noqa: E402
from lerobot.policies.tdmpc.modeling_tdmpc import TDMPCPolicy  # noqa: E402
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE, OBS_STR  # noqa: E402

from small_lerobot import (  # noqa: E402
    AROUND_START,
    Loaded,
    aloha_features,
    fixed_engine,
    run_patched,
    run_rollout,
    save_checkpoint,
    small_act,
    small_diffusion,
)
from speedup_patch.errors import InputError  # noqa: E402
from speedup_patch.lerobot.configuration_speedup_patch import SpeedupPatchConfig  # noqa: E402
from speedup_patch.lerobot.loading import load_base, load_patch_engine  # noqa: E402
from speedup_patch.lerobot.modeling_speedup_patch import SpeedupPatchPolicy, speed_up  # noqa: E402
from speedup_patch.lerobot.processor_speedup_patch import make_speedup_patch_pre_post_processors  # noqa: E402
from speedup_patch.observations import observe  # noqa: E402
from speedup_patch.robots import ALOHA  # noqa: E402
from speedup_patch.runtime.decision_log import read_decisions  # noqa: E402
from speedup_patch.warp import Warp, uniform_warp  # noqa: E402

pytestmark = pytest.mark.lerobot


class Watching:
    """A Scheduler that runs everything at rate 2 and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def schedule(self, observation: np.ndarray, chunk: np.ndarray, before: np.ndarray | None = None) -> Warp:
        self.seen.append(observation)
        return uniform_warp(len(chunk), 2.0)

    def reset(self) -> None:
        pass


@pytest.mark.parametrize(("rate", "max_rate"), [(1.0, None), (3.0, 1.0)])
@pytest.mark.parametrize("make", [lambda: small_act(10), small_act, small_diffusion])
def test_rate_one_is_the_stock_policy_bit_for_bit(
    make: Callable[[], Loaded], rate: float, max_rate: float | None
) -> None:
    policy, *pipelines = make()
    stock = run_rollout(deepcopy(policy), pipelines)
    patched = run_patched(speed_up(policy, *pipelines, fixed_engine(rate), max_rate=max_rate))
    assert stock[ACTION].shape == (3, 50, 14)
    assert torch.equal(patched[ACTION], stock[ACTION])
    assert torch.equal(patched[OBS_STR][OBS_STATE], stock[OBS_STR][OBS_STATE])
    assert patched[ACTION].dtype == stock[ACTION].dtype


@pytest.mark.parametrize("make", [small_act, small_diffusion])
def test_a_checkpoint_on_disk_is_the_stock_policy_bit_for_bit(make: Callable[[], Loaded], tmp_path: Path) -> None:
    policy, *pipelines = make()
    folder = save_checkpoint((policy, *pipelines), tmp_path / "base")
    config = SpeedupPatchConfig(base=str(folder), patch="fixed:1", robot="aloha", device="cpu")
    loaded = run_rollout(SpeedupPatchPolicy(config), make_pre_post_processors(config))
    assert torch.equal(loaded[ACTION], run_rollout(policy, pipelines)[ACTION])


def test_every_robot_of_a_batch_runs_as_if_it_were_alone() -> None:
    loaded = small_act()
    together = run_patched(speed_up(*loaded, fixed_engine(1.0, 2.0, 3.0)))
    for row, (seed, rate) in enumerate([(3, 1.0), (4, 2.0), (5, 3.0)]):
        alone = run_patched(speed_up(*loaded, fixed_engine(rate)), seeds=[seed])
        np.testing.assert_allclose(together[ACTION][row], alone[ACTION][0], atol=1e-5)


def test_a_shortened_chunk_executes_the_last_of_every_window() -> None:
    policy, *pipelines = small_act()
    original = run_rollout(policy, pipelines, steps=24)[ACTION]
    shortened = run_patched(speed_up(policy, *pipelines, fixed_engine(2.0)), steps=12)[ACTION]
    np.testing.assert_allclose(shortened, original[:, 1::2], atol=1e-6)


def test_the_patch_sees_the_true_velocity() -> None:
    watching = Watching()
    engine = replace(fixed_engine(2.0), new_scheduler=lambda: watching)
    result = run_patched(speed_up(*small_act(), engine), seeds=[3])
    states = result[OBS_STR][OBS_STATE][0].double().numpy()
    assert len(watching.seen) == 5
    for seen, step in zip(watching.seen, range(0, 50, 12), strict=True):
        np.testing.assert_allclose(seen, observe(ALOHA, states[step], states[max(step - 1, 0)]), atol=1e-9)


def test_diffusion_is_asked_with_the_last_two_observations_of_the_robots_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, *pipelines = small_diffusion()
    asked: list[torch.Tensor] = []
    generate = policy.diffusion.generate_actions
    monkeypatch.setattr(
        policy.diffusion,
        "generate_actions",
        lambda batch, noise=None: asked.append(batch[OBS_STATE]) or generate(batch, noise=noise),
    )
    result = run_patched(speed_up(policy, *pipelines, fixed_engine(1.0, 2.0)), seeds=[3, 4], steps=13)
    assert [len(batch) for batch in asked] == [2, 1, 2, 1]
    statistics = AROUND_START[OBS_STATE]
    normalised = (result[OBS_STR][OBS_STATE] - statistics["mean"]) / statistics["std"]
    torch.testing.assert_close(asked[1], normalised[1:, 3:5])
    torch.testing.assert_close(asked[2], normalised[:, 7:9])


def test_episodes_do_not_influence_each_other() -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0))
    first = run_patched(policy, seeds=[3, 4], steps=30)
    assert torch.equal(run_patched(policy, seeds=[3, 4], steps=30)[ACTION], first[ACTION])
    assert run_patched(policy, seeds=[5], steps=5)[ACTION].shape == (1, 5, 14)


def test_the_rate_can_be_lowered_live() -> None:
    policy = speed_up(*small_act(), fixed_engine(4.0))
    run_patched(policy, seeds=[3, 4], steps=24)
    assert policy.mean_rate == 4.0
    policy.max_rate = 1.0
    before = policy.executed_actions
    run_patched(policy, seeds=[3, 4], steps=24)
    assert policy.executed_actions - before == 2 * 24


def test_commands_that_a_new_episode_throws_away_do_not_count() -> None:
    policy = speed_up(*small_act(), fixed_engine(4.0))
    run_patched(policy, seeds=[3], steps=4)  # of the 6 that the chunk of 24 became
    policy.reset()
    assert (policy.executed_actions, policy.original_actions, policy.mean_rate) == (4, 16.0, 4.0)


def test_decisions_are_logged(tmp_path: Path) -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0), log=str(tmp_path))
    run_patched(policy, seeds=[3, 4], steps=24)
    policy.reset()
    logged = read_decisions(tmp_path)
    assert [(len(decision.chunk), decision.executed) for decision in logged] == [(24, 12)] * 4


def test_a_chunk_can_be_asked_for() -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0))
    observation = _observation(1)
    chunk = policy.predict_action_chunk(observation)
    assert chunk.shape == (1, 12, 14)
    torch.testing.assert_close(policy.select_action(observation), chunk[:, 0])
    with pytest.raises(InputError, match="differ in length"):
        policy.predict_action_chunk(_observation(2))


def test_a_saved_patched_policy_runs_from_its_folder(tmp_path: Path) -> None:
    base, folder = save_checkpoint(small_act(), tmp_path / "base"), tmp_path / "patched"
    config = SpeedupPatchConfig(base=str(base), patch="fixed:2", robot="aloha", device="cpu")
    saved = SpeedupPatchPolicy(config)
    saved.save_pretrained(folder)
    loaded = SpeedupPatchPolicy.from_pretrained(folder)
    # As lerobot-eval does for --policy.path.
    overrides = {"device_processor": {"device": "cpu"}, "rename_observations_processor": {"rename_map": {}}}
    pipelines = make_pre_post_processors(loaded.config, pretrained_path=str(folder), preprocessor_overrides=overrides)
    assert torch.equal(run_rollout(loaded, pipelines, steps=20)[ACTION], run_patched(saved, steps=20)[ACTION])
    assert not (folder / "model.safetensors").exists()
    with pytest.raises(InputError, match="another type: act"):
        SpeedupPatchPolicy.from_pretrained(base)


def test_the_bundled_policy_is_a_base() -> None:
    base = load_base("bundled:aloha/insertion", "cpu")
    chunks = base.chunks(_observation(3), [0, 2])
    assert chunks.shape == (2, 24, 14)
    torch.testing.assert_close(chunks[:1], base.chunks(_observation(1), [0]))


def test_a_checkpoint_can_execute_less_of_its_chunk(tmp_path: Path) -> None:
    folder = save_checkpoint(small_act(), tmp_path / "base")
    base = load_base(str(folder), "cpu", n_action_steps=10)
    assert base.chunk_length == 10
    assert base.chunks(_observation(1), [0]).shape == (1, 10, 14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_action_steps": 10}, "executes 10 actions.*trained for chunks of 24.*--chunk 10"),
        ({"n_action_steps": 1, "temporal_ensemble_coeff": 0.01}, "temporal_ensemble_coeff.*never executes"),
    ],
)
def test_an_act_that_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        speed_up(*small_act(**arguments), fixed_engine(2.0, chunk_length=24))


def test_another_robot_is_refused() -> None:
    robot = load_patch_engine("fixed:2", "panda_libero").robot
    with pytest.raises(InputError, match=r"14 dimensions, but the patch is for robot .* with 7"):
        speed_up(*small_act(), replace(fixed_engine(2.0), robot=robot))


def test_the_arguments_of_real_time_chunking_are_refused() -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0))
    with pytest.raises(InputError, match=r"not \['inference_delay', 'prev_chunk_left_over'\]"):
        policy.predict_action_chunk(_observation(1), inference_delay=3, prev_chunk_left_over=torch.zeros(4, 14))


def test_other_misuse_is_refused() -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0))
    policy.select_action(_observation(2))
    with pytest.raises(InputError, match=r"from 2 robots to 3.*reset\(\)"):
        policy.select_action(_observation(3))
    with pytest.raises(InputError, match=r"no 'observation\.state'"):
        policy.select_action({OBS_ENV_STATE: torch.zeros(2, 14)})
    with pytest.raises(InputError, match="not trained"):
        policy(_observation(1))
    policy.reset()
    with pytest.raises(InputError, match="nan"):
        policy.select_action(_observation(1) | {OBS_ENV_STATE: torch.full((1, 14), torch.nan)})


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("", "which policy"),
        ("no/such/folder", "is no folder"),
        ("bundled:aloha/folding", "there is one for: aloha/insertion"),
    ],
)
def test_a_base_that_is_not_there_is_named(base: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SpeedupPatchPolicy(SpeedupPatchConfig(base=base, patch="fixed:2", robot="aloha", device="cpu"))


def test_a_folder_or_a_name_without_a_checkpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for base, message in ((str(tmp_path), "it has no config.json"), ("nobody/nothing", "nor a LeRobot checkpoint")):
        with pytest.raises(InputError, match=message):
            load_base(base, "cpu")


def test_policies_that_execute_no_chunks_are_refused() -> None:
    planner = TDMPCPolicy(TDMPCConfig(**aloha_features(), device="cpu"))
    with pytest.raises(InputError, match="keeps past observations"):
        speed_up(planner, *small_act()[1:], fixed_engine(2.0))
    actor = SACPolicy(SACConfig(**aloha_features(), device="cpu"))
    with pytest.raises(InputError, match="does not execute chunks"):
        speed_up(actor, *small_act()[1:], fixed_engine(2.0))


def test_observations_can_be_renamed() -> None:
    policy = speed_up(*small_act(), fixed_engine(2.0), rename_map={"observation.joints": OBS_STATE})
    preprocessor, _ = make_speedup_patch_pre_post_processors(policy.config)
    observation = _observation(1)
    expected = policy.predict_action_chunk(observation)
    observation["observation.joints"] = observation.pop(OBS_STATE)
    assert torch.equal(policy.predict_action_chunk(preprocessor(observation)), expected)


def test_a_patch_that_is_not_there_is_named(tmp_path: Path) -> None:
    for patch, message in (("", "which patch"), (str(tmp_path), "not a patch folder")):
        with pytest.raises(InputError, match=message):
            SpeedupPatchPolicy(SpeedupPatchConfig(base="bundled:aloha/insertion", patch=patch, device="cpu"))


def _observation(robots: int) -> dict[str, torch.Tensor]:
    return {
        OBS_STATE: AROUND_START[OBS_STATE]["mean"].repeat(robots, 1),
        OBS_ENV_STATE: AROUND_START[OBS_ENV_STATE]["mean"].repeat(robots, 1),
    }
