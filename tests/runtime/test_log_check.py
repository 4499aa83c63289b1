import dataclasses
import json
import sys

import numpy as np
import pytest

from speedup_patch.cli import main
from speedup_patch.errors import InputError
from speedup_patch.log_check import check_log
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import DecisionLog, read_decisions
from speedup_patch.runtime.engine import load_engine
from speedup_patch.runtime.patch_folder import load_patch
from stand_ins import smooth_demonstrations

EPISODE = smooth_demonstrations(episodes=12).episodes[0]


@pytest.fixture(scope="module")
def log(patch_folder, tmp_path_factory):
    """Six familiar decisions, then one from a state that nobody demonstrated."""
    folder = tmp_path_factory.mktemp("log")
    log = DecisionLog(folder)
    accelerator = ChunkAccelerator(load_engine(patch_folder), log=log)
    for t in range(0, 60, 10):
        accelerator.shorten(EPISODE.actions[t : t + 12], EPISODE.states[t], EPISODE.states[max(t - 1, 0)])
    far = EPISODE.states[0] + 2.0
    accelerator.shorten(EPISODE.actions[:12], far, far)
    log.flush()
    return folder


def test_a_log_tells_what_the_robot_did(patch_folder, log):
    decisions = read_decisions(log)
    found = check_log(load_patch(patch_folder), decisions)
    assert found.decisions == 7
    assert found.fallbacks == {"unfamiliar state": 1}
    assert found.speedup == pytest.approx(7 * 12 / sum(decision.executed for decision in decisions))
    assert sum(found.executed_at.values()) == 7
    assert 0 < found.seconds_p50 <= found.seconds_p99


def test_a_tolerance_of_nothing_makes_every_shortened_chunk_a_violation(patch_folder, log):
    strict = dataclasses.replace(load_patch(patch_folder), epsilon=1e-12)
    decisions = [dataclasses.replace(decision, executed=6) for decision in read_decisions(log)]
    assert check_log(strict, decisions).violating == 1.0


def test_a_log_that_does_not_say_what_was_sent_before_is_judged_all_the_same(patch_folder, log):
    decisions = [dataclasses.replace(decision, before=np.zeros((0, 14))) for decision in read_decisions(log)]
    assert check_log(load_patch(patch_folder), decisions).decisions == 7


def test_a_log_of_another_robot_is_refused(patch_folder, log):
    wrong = [
        dataclasses.replace(decision, chunk=np.zeros((12, 7)), before=np.zeros((0, 7)))
        for decision in read_decisions(log)
    ]
    with pytest.raises(InputError, match="belongs to another patch"):
        check_log(load_patch(patch_folder), wrong)


def test_the_command_prints_it(patch_folder, log, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sup", "check", str(patch_folder), "--log", str(log), "--json"])
    main()
    assert json.loads(capsys.readouterr().out)["fallbacks"] == {"unfamiliar state": 1}
