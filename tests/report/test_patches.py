import json
import shutil

import pytest

from report.run_folders import three_schedulers, write_run
from speedup_patch.evaluation.run import content_digest
from speedup_patch.report.configuration import patch_card
from speedup_patch.report.patches import find_patches, judge_of, read_training, training_curves
from speedup_patch.report.reading import read_run


@pytest.fixture
def patch(patch_folder, tmp_path):
    return shutil.copytree(patch_folder, tmp_path / "my.patch")


def run_with(tmp_path, patch, digest):
    schedulers = {**three_schedulers(str(patch), seeds=2)}
    schedulers[f"mpc:{patch}"] = schedulers["fixed:2"]
    contents = {str(patch): digest, f"mpc:{patch}": digest} if digest else {}
    return read_run(write_run(tmp_path / "run", schedulers, contents=contents))


def test_a_patch_that_is_as_it_was_judges_the_run(tmp_path, patch):
    (found,) = find_patches(run_with(tmp_path, patch, content_digest(str(patch))))
    assert found.state == "verified"
    assert found.note == ""
    assert judge_of([found]) is found
    facts = dict(patch_card(found).facts)
    assert facts["data fingerprint"] == found.loaded.provenance["data"]["fingerprint"]


def test_a_patch_that_has_changed_is_not_read(tmp_path, patch):
    run = run_with(tmp_path, patch, content_digest(str(patch)))
    (patch / "scheduler.json").write_text((patch / "scheduler.json").read_text() + "\n")
    (found,) = find_patches(run)
    assert found.state == "changed"
    assert found.loaded is None
    assert "changed" in found.note
    assert judge_of([found]) is None


def test_a_patch_that_the_run_holds_no_digest_of_shows_its_settings_but_judges_nothing(tmp_path, patch):
    (found,) = find_patches(run_with(tmp_path, patch, None))
    assert found.state == "unverified"
    assert found.loaded is not None
    assert "digest" in found.note
    assert judge_of([found]) is None


def test_a_patch_that_is_gone_or_broken_is_said_to_be(tmp_path, patch):
    run = run_with(tmp_path, patch, None)
    (patch / "world_model.json").write_text("{}")
    (broken,) = find_patches(run)
    assert broken.state == "unreadable"
    assert "world_model.json" in broken.note
    shutil.rmtree(patch)
    (gone,) = find_patches(run)
    assert gone.state == "gone"
    assert gone.note
    assert patch_card(gone).provenance == ""


def test_a_relative_path_is_found_from_the_folders_above_the_run(tmp_path, patch, monkeypatch):
    monkeypatch.chdir("/")
    digest = content_digest(str(patch))
    folder = write_run(tmp_path / "runs" / "one", three_schedulers("my.patch", seeds=1), contents={"my.patch": digest})
    (found,) = find_patches(read_run(folder))
    assert found.state == "verified"


def test_training_is_read_with_tolerance(tmp_path):
    path = tmp_path / "training.json"
    assert read_training(path) is None
    path.write_text("[1, 2]")
    assert read_training(path) is None
    stage = {"train": [[1, 0.5], [2, 0.25], "odd", [3]], "held_out": [], "agreement": 0.9}
    path.write_text(json.dumps({"scheduler": stage, "world_model": 3, "seconds": 1.0}))
    training = read_training(path)
    assert training_curves(training, "scheduler") == {"train": [(1.0, 0.5), (2.0, 0.25)]}
    assert training_curves(training, "world_model") == training_curves(training, "other") == {}
