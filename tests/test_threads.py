"""Training computes on one thread, unless the user has said how many, and leaves the setting as it was."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from speedup_patch import training
from speedup_patch.candidates import Rates
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA
from speedup_patch.training import THREAD_VARIABLES, LoopConfig, one_thread
from speedup_patch.world_model.config import WorldModelConfig
from stand_ins import smooth_demonstrations

LOOP = LoopConfig(steps=2, batch_size=8, evaluate_every=1)


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with four cores, where nobody has set anything."""
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(training, "THREADS_WHEN_IMPORTED", 4)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_one_thread_for_as_long_as_it_takes() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 4


def test_the_setting_comes_back_after_an_error() -> None:
    def fail() -> None:
        with one_thread():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.get_num_threads() == 4


def test_a_number_that_was_set_in_python_stays() -> None:
    torch.set_num_threads(3)
    with one_thread():
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_a_number_that_was_set_in_the_environment_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "4")
    with one_thread():
        assert torch.get_num_threads() == 4


def test_a_patch_is_trained_on_one_thread_in_every_stage() -> None:
    seen: dict[str, set[int]] = {}

    def report(stage: str, step: int, total: int, figures: object) -> None:
        seen.setdefault(stage, set()).add(torch.get_num_threads())

    config = TrainingConfig(12, Rates((1.0, 2.0)), states=50, world_model=WorldModelConfig("mlp", hidden=8, loop=LOOP))
    config = replace(config, scheduler=replace(config.scheduler, hidden=8, loop=LOOP))
    train_patch(smooth_demonstrations(), ALOHA, config, device=torch.device("cpu"), report=report)
    assert seen == {"world model": {1}, "counterfactuals": {1}, "scheduler": {1}}
    assert torch.get_num_threads() == 4
