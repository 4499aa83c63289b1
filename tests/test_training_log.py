"""The curves of a training: every figure once, small in the patch folder, whole again after a kill."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.candidates import Rates
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA
from speedup_patch.training_log import MOST_POINTS, TrainingLog, open_log, thinned
from stand_ins import smooth_demonstrations

QUICK = TrainingConfig(chunk_length=12, choices=Rates((1.0, 2.0)), states=100)
QUICK = replace(
    QUICK,
    world_model=replace(
        QUICK.world_model,
        kind="mlp",
        hidden=8,
        loop=replace(QUICK.world_model.resolved_loop("mlp"), steps=4, evaluate_every=2),
    ),
    scheduler=replace(
        QUICK.scheduler, hidden=8, layers=1, loop=replace(QUICK.scheduler.loop, steps=6, evaluate_every=2)
    ),
)
DEMONSTRATIONS = smooth_demonstrations()


def steps(curve: list[list[float]]) -> list[float]:
    return [step for step, _ in curve]


class StoppedError(Exception):
    """What ends a run in the middle."""


def train(workspace: Path | None = None, resume: bool = False, stop_at: tuple[str, int] | None = None):
    def report(stage: str, step: int, total: int, figures: object) -> None:
        if figures and (stage, step) == stop_at:
            raise StoppedError

    cpu = torch.device("cpu")
    return train_patch(DEMONSTRATIONS, ALOHA, QUICK, device=cpu, workspace=workspace, resume=resume, report=report)


def test_a_patch_folder_holds_the_curves_and_no_event_files_unless_asked(tmp_path: Path) -> None:
    patch = train()
    patch.save(tmp_path / "my.patch")
    document = json.loads((tmp_path / "my.patch" / "training.json").read_text())
    assert document == json.loads(json.dumps(patch.training))
    assert set(document) == {"world_model", "scheduler", "seconds"}
    for stage, expected in {"world_model": [2, 4], "scheduler": [2, 4, 6]}.items():
        assert steps(document[stage]["train"]) == steps(document[stage]["held_out"]) == expected
        assert document[stage]["figures"] == patch.description.provenance["held_out"][stage]
    parts = [document["scheduler"]["curves"][name] for name in ("v_loss", "q_loss")]
    summed = [sum(value for _, value in points) for points in zip(*parts, strict=True)]
    assert [value for _, value in document["scheduler"]["train"]] == pytest.approx(summed)
    assert steps(document["scheduler"]["curves"]["held_out_agreement"]) == [2, 4, 6]
    assert set(document["seconds"]) == {"world_model", "counterfactuals", "scheduler"}
    assert not (tmp_path / "my.patch" / "training").exists()


@pytest.mark.parametrize("stop_at", [("world model", 2), ("scheduler", 4)])
def test_a_run_that_was_stopped_ends_with_the_curves_of_one_that_was_not(tmp_path, stop_at) -> None:
    with pytest.raises(StoppedError):
        train(tmp_path / "w", stop_at=stop_at)
    resumed, whole = train(tmp_path / "w", resume=True).training, train().training
    for stage in ("world_model", "scheduler"):
        assert resumed[stage] == whole[stage]


def test_without_resuming_old_curves_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path, resume=False)
    log("line", 5, 10, {"loss": 1.0})
    assert open_log(tmp_path, resume=True).curves == {"line": {"loss": [(5, 1.0)]}}
    assert open_log(tmp_path, resume=False).curves == {}


def test_steps_taken_again_replace_the_old_ones() -> None:
    log = TrainingLog()
    for step, value in [(1, 9.0), (2, 8.0), (3, 7.0), (2, 5.0)]:
        log("line", step, 4, {"loss": value})
    assert log.curves["line"]["loss"] == [(1, 9.0), (2, 5.0)]


def test_what_is_no_number_leaves_a_gap() -> None:
    log = TrainingLog()
    log("line", 1, 2, {"loss": float("nan"), "held_out_loss": 2.0})
    document = log.document({"line": {"error": float("inf"), "share": 0.5}})
    assert document["line"] == {"train": [], "held_out": [[1, 2.0]], "curves": {}, "figures": {"share": 0.5}}


@given(st.integers(0, 2000))
def test_long_curves_are_thinned_and_keep_their_ends(count: int) -> None:
    curve = [(step, 0.5 * step) for step in range(count)]
    kept = thinned(curve)
    assert len(kept) == min(count, MOST_POINTS)
    assert [tuple(point) for point in kept] == sorted({*curve} & {tuple(point) for point in kept})
    assert [kept[0], kept[-1]] == [list(curve[0]), list(curve[-1])] if curve else kept == []
