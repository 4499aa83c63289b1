"""TensorBoard files, read back by TensorBoard's own reader: the same figures as training.json."""

import json
import socket
from pathlib import Path

import pytest

from speedup_patch.datasets import write_demonstrations
from speedup_patch.event_files import RUNS, keep_events, write_events
from stand_ins import smooth_demonstrations

QUICK = ("--robot", "aloha", "--chunk", 12, "--rates", "1,2", "--world-model", "mlp", "--steps", 20)


@pytest.fixture
def dataset(tmp_path):
    write_demonstrations(smooth_demonstrations(), tmp_path / "wander.npz")
    return tmp_path / "wander.npz"


def read_events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(folder), size_guidance={reader.SCALARS: 0})
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]
    }


def test_training_leaves_event_files_that_say_what_training_json_says(sup, dataset, tmp_path):
    pytest.importorskip("tensorboardX")
    out = tmp_path / "my.patch"
    code, _, error = sup("train", dataset, *QUICK, "--out", out)
    assert code == 0, error
    assert not out.with_name("my.patch.training").exists()
    told = json.loads((out / "training.json").read_text())
    train, held_out = (read_events(out / "training" / run) for run in RUNS)
    assert set(train) == {"world_model/loss", "scheduler/v_loss", "scheduler/q_loss"}
    assert same(train["world_model/loss"], told["world_model"]["train"])
    assert same(train["scheduler/q_loss"], told["scheduler"]["curves"]["q_loss"])
    for stage in ("world_model", "scheduler"):
        assert same(held_out[f"{stage}/loss"], told[stage]["held_out"])
    for name, value in told["world_model"]["figures"].items():
        assert same(held_out[f"world_model/{name}"], [[20, value]])
    assert same(held_out["scheduler/agreement"], told["scheduler"]["curves"]["held_out_agreement"])


def same(events: list[tuple[int, float]], curve: list[list[float]]) -> bool:
    """Event files hold 32-bit floats."""
    assert events
    values = [value for _, value in curve]
    return [step for step, _ in events] == [step for step, _ in curve] and [value for _, value in events] == (
        pytest.approx(values, rel=1e-6)
    )


def test_figures_can_be_watched_while_training_runs_and_a_resumed_run_adds_to_them(tmp_path):
    pytest.importorskip("tensorboardX")
    for step in (1, 2):
        with write_events(tmp_path / "events") as report:
            report("line", step, 2, {"loss": 1.0 / step, "held_out_loss": 2.0 / step})
            report("line", step, 2, {})
    keep_events(tmp_path / "events", tmp_path / "patch")
    for folder in (tmp_path / "events", tmp_path / "patch" / "training"):
        assert read_events(folder / "train") == {"line/loss": [(1, 1.0), (2, 0.5)]}
        assert read_events(folder / "held_out") == {"line/loss": [(1, 2.0), (2, 1.0)]}
    kept = [file.name for file in (tmp_path / "patch").rglob("*") if file.is_file()]
    assert len(kept) == 4
    assert not any(socket.gethostname() in name for name in kept)


@pytest.mark.parametrize("way", ["switched off", "not installed"])
def test_training_without_event_files(sup, dataset, tmp_path, monkeypatch, way):
    monkeypatch.setattr("speedup_patch.event_files.can_write_events", lambda: way != "not installed")
    switch = ["--no-tensorboard"] if way == "switched off" else []
    code, _, error = sup("train", dataset, *QUICK, *switch, "--out", tmp_path / "my.patch")
    assert code == 0, error
    assert error.count("note: no TensorBoard files") == (way == "not installed")
    assert (tmp_path / "my.patch" / "training.json").exists()
    assert not (tmp_path / "my.patch" / "training").exists()
