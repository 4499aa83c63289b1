"""The training loop: resuming repeats an uninterrupted run exactly, and wrong checkpoints are refused by name."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from speedup_patch.errors import InputError
from speedup_patch.tensor_files import load_tensors, save_tensors
from speedup_patch.training import (
    Learner,
    LoopConfig,
    adam_tensors,
    batch_indices,
    choose_device,
    load_adam_tensors,
    train,
)

CPU = torch.device("cpu")
CONFIG = LoopConfig(steps=4, batch_size=8, learning_rate=0.05, evaluate_every=2, seed=3)
SAMPLES = 64


class Regression:
    """Fits a line through noisy points: the smallest learner there is."""

    def __init__(self, learning_rate: float = CONFIG.learning_rate, width: int = 4) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(SAMPLES, width, generator=generator)
        self.targets = self.inputs.sum(1) + 0.1 * torch.randn(SAMPLES, generator=generator)
        self.layer = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.optimizer = torch.optim.Adam(self.layer.parameters(), lr=learning_rate)

    def _loss(self, rows: torch.Tensor) -> torch.Tensor:
        return ((self.layer(self.inputs[rows])[:, 0] - self.targets[rows]) ** 2).mean()

    def update(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = self._loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.detach()}

    def evaluate(self) -> dict[str, float]:
        with torch.no_grad():
            return {"loss": float(self._loss(torch.arange(SAMPLES)))}

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(self.layer.state_dict()) | adam_tensors(self.optimizer, "adam")

    def load_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.layer.load_state_dict({"weight": tensors["weight"], "bias": tensors["bias"]})
        load_adam_tensors(self.optimizer, tensors, "adam")


class Scripted(Regression):
    """Held-out losses as told, so that stopping can be checked."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.losses = iter(losses)

    def evaluate(self) -> dict[str, float]:
        return {"loss": next(self.losses)}


def assert_same(left: Learner, right: Learner) -> None:
    ours, theirs = left.tensors(), right.tensors()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def test_two_steps_and_two_resumed_are_four(tmp_path: Path) -> None:
    whole, first, second = Regression(), Regression(), Regression()
    history = train(whole, SAMPLES, CONFIG, stage="line", device=CPU)
    path = tmp_path / "checkpoint.safetensors"
    train(first, SAMPLES, replace(CONFIG, steps=2), stage="line", device=CPU, checkpoint=path)
    resumed = train(second, SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path, resume=True)
    assert_same(whole, second)
    assert resumed == history
    assert [evaluation.step for evaluation in history] == [2, 4]


def test_a_run_that_is_killed_resumes_to_the_same_weights(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    config = replace(CONFIG, steps=60, evaluate_every=5)
    script = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from dataclasses import replace
        from pathlib import Path
        from test_training import CPU, CONFIG, SAMPLES, Regression
        from speedup_patch.training import train

        def slowly(stage, step, total, figures):
            print(step, flush=True)
            time.sleep(0.05 if step < 40 else 600)  # it cannot reach its end before it is killed

        config = replace(CONFIG, steps=60, evaluate_every=5)
        train(Regression(), SAMPLES, config, stage="line", device=CPU, checkpoint=Path({str(path)!r}), report=slowly)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            pass
        time.sleep(0.02)
        process.kill()
    assert 20 <= _step_of(path) < 60
    resumed, whole = Regression(), Regression()
    train(resumed, SAMPLES, config, stage="line", device=CPU, checkpoint=path, resume=True)
    train(whole, SAMPLES, config, stage="line", device=CPU)
    assert_same(whole, resumed)


def _step_of(path: Path) -> int:
    tensors, _ = load_tensors(path, CPU)
    return int(tensors["current.adam.0.step"])


def test_the_best_weights_are_kept() -> None:
    learner, stopped = Scripted([3.0, 1.0, 2.0, 2.5]), Scripted([3.0, 1.0])
    train(learner, SAMPLES, replace(CONFIG, evaluate_every=1), stage="line", device=CPU)
    train(stopped, SAMPLES, replace(CONFIG, evaluate_every=1, steps=2), stage="line", device=CPU)
    assert_same(learner, stopped)


def test_patience_stops_early_and_resuming_a_stopped_run_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    config = replace(CONFIG, steps=100, evaluate_every=1, patience=2)
    first = Scripted([3.0, 1.0, 2.0, 2.5, 0.0])
    history = train(first, SAMPLES, config, stage="line", device=CPU, checkpoint=path)
    assert [evaluation.step for evaluation in history] == [1, 2, 3, 4]
    again = Scripted([])
    assert train(again, SAMPLES, config, stage="line", device=CPU, checkpoint=path, resume=True) == history
    assert_same(first, again)


class KilledError(Exception):
    """What ends a run in the middle."""


@pytest.mark.parametrize("killed_at", [2, 4, 6])
def test_a_run_that_is_killed_stops_after_resuming_where_it_would_have_stopped(tmp_path: Path, killed_at: int) -> None:
    """The fourth evaluation is the best of the first six, whether the first ones were made before the kill or after."""
    path = tmp_path / "checkpoint.safetensors"
    config = replace(CONFIG, steps=100, evaluate_every=2, patience=2)
    losses = [5.0, 3.0, 4.0, 1.0, 2.0, 1.5, 0.0]

    def kill(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        if figures and step == killed_at:
            raise KilledError

    whole, killed, resumed = Scripted(losses), Scripted(losses), Scripted(losses[killed_at // 2 :])
    history = train(whole, SAMPLES, config, stage="line", device=CPU)
    assert [evaluation.step for evaluation in history] == [2, 4, 6, 8, 10, 12]
    with pytest.raises(KilledError):
        train(killed, SAMPLES, config, stage="line", device=CPU, checkpoint=path, report=kill)
    assert train(resumed, SAMPLES, config, stage="line", device=CPU, checkpoint=path, resume=True) == history
    assert_same(whole, resumed)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batch_size": 16}, "batch_size 8 instead of 16"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"seed": 4}, "seed 3 instead of 4"),
    ],
)
def test_a_checkpoint_made_otherwise_is_refused_by_name(tmp_path: Path, change: dict[str, float], named: str) -> None:
    path = tmp_path / "checkpoint.safetensors"
    train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path)
    other = replace(CONFIG, **change)
    with pytest.raises(InputError, match=named):
        train(Regression(), SAMPLES, other, stage="line", device=CPU, checkpoint=path, resume=True)


def test_a_checkpoint_of_another_network_or_half_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path)
    with pytest.raises(InputError, match=r"tensor .*\(1, 4\) instead of \(1, 5\)"):
        train(Regression(width=5), SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path, resume=True)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path, resume=True)
    save_tensors(path, {"a": torch.zeros(1)})
    with pytest.raises(InputError, match="not a checkpoint"):
        train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, checkpoint=path, resume=True)


def test_divergence_is_an_error_not_a_result() -> None:
    with pytest.raises(InputError, match="diverged"):
        train(Scripted([float("nan")]), SAMPLES, CONFIG, stage="line", device=CPU)


def test_the_start_and_every_evaluation_are_reported() -> None:
    seen: list[tuple[str, int, int, set[str]]] = []
    train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, report=lambda *a: seen.append((*a[:3], set(a[3]))))
    assert seen == [("line", 0, 4, set()), *(("line", step, 4, {"loss", "held_out_loss"}) for step in (2, 4))]


def test_steps_between_evaluations_are_reported_when_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speedup_patch.training.SECONDS_BETWEEN_REPORTS", 0.0)
    seen: list[tuple[int, bool]] = []
    train(Regression(), SAMPLES, CONFIG, stage="line", device=CPU, report=lambda *a: seen.append((a[1], bool(a[3]))))
    assert seen == [(0, False), (1, False), (2, False), (2, True), (3, False), (4, False), (4, True)]


def test_batches_differ_by_step_and_seed_and_repeat() -> None:
    draw = [tuple(batch_indices(1000, 16, seed, step)) for seed, step in [(0, 0), (0, 1), (1, 0), (0, 0)]]
    assert draw[0] == draw[3]
    assert len(set(draw)) == 3


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"patience": -1}])
def test_impossible_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        replace(CONFIG, **change)


def test_devices() -> None:
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type in {"cuda", "mps", "cpu"}
    with pytest.raises(InputError, match="'tpu' is not available here; choose one of auto"):
        choose_device("tpu")
    if torch.cuda.device_count() < 9:
        with pytest.raises(InputError, match="cuda:9"):
            choose_device("cuda:9")
