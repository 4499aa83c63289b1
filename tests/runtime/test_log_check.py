import dataclasses
import json
import sys

import numpy as np
import pytest

from speedup_patch.cli import main
from speedup_patch.errors import InputError
from speedup_patch.evaluation.deviations import judge_decisions, patch_judge, taken_decisions
from speedup_patch.evaluation.rollout import trace_episode
from speedup_patch.log_check import check_log
from speedup_patch.patch import SpeedupPatch
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import DecisionLog, read_decisions
from speedup_patch.runtime.engine import load_engine, patch_engine
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.warp import Warp
from stand_ins import LaggingEnv, ReplayPolicy, smooth_demonstrations

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
    assert found.cut_short == 0
    assert sum(found.executed_at.values()) == 7
    assert 0 < found.seconds_p50 <= found.seconds_p99


def test_a_tolerance_of_nothing_makes_every_shortened_chunk_a_violation(patch_folder, log):
    strict = dataclasses.replace(load_patch(patch_folder), epsilon=1e-12)
    found = check_log(strict, [at_rate_two(decision) for decision in read_decisions(log)])
    assert (found.shortened, found.violating) == (7, 1.0)


def at_rate_two(decision):
    return dataclasses.replace(decision, commands=decision.chunk[1::2], positions=np.arange(2.0, 13.0, 2.0))


def test_a_chunk_of_which_only_the_beginning_was_sent_is_not_shortened(patch_folder, log):
    strict = dataclasses.replace(load_patch(patch_folder), epsilon=1e-12)
    first, *others = read_decisions(log)
    beginning = dataclasses.replace(first, commands=first.chunk[:6], positions=np.arange(1.0, 7.0))
    found = check_log(strict, [beginning, *(at_rate_two(decision) for decision in others)])
    assert (found.shortened, found.cut_short) == (6, 1)
    assert found.speedup == (6 + 6 * 12) / (6 + 6 * 6)


class Turns:
    """A Scheduler: in turn all of a chunk at rate 2, its first half at rate 2, its first half and all as they are."""

    def __init__(self):
        self.calls = 0

    def schedule(self, observation, chunk, before=None):
        n, turn = len(chunk), self.calls % 4
        self.calls += 1
        step, end = (2.0 if turn < 2 else 1.0), (n if turn in (0, 3) else n // 2)
        return Warp(np.arange(step, end + 1, step), n)

    def reset(self):
        self.calls = 0


def test_a_log_of_a_run_gives_the_figures_of_its_traces(patch_folder, tmp_path):
    patch, log = load_patch(patch_folder), DecisionLog(tmp_path)
    engine = dataclasses.replace(patch_engine(patch), new_scheduler=Turns, guard=None, keep_up=None, refuses=None)
    unsolved = smooth_demonstrations(episodes=12).episodes[1]
    env = LaggingEnv(unsolved, max_steps=2 * (6 + 3 + 6 + 12) + 6 + 2)  # the last chunk is cut after 2 of 3 commands
    result, trace = trace_episode(env, SpeedupPatch(ReplayPolicy(EPISODE, 12), engine, log=log), seed=0)
    log.flush()
    decisions, taken = read_decisions(tmp_path), taken_decisions(patch.world_model, trace)
    for logged, seen in zip(decisions, taken, strict=True):
        np.testing.assert_allclose(logged.positions, seen.positions)
        np.testing.assert_allclose(logged.commands[: len(seen.commands)], seen.commands)
        np.testing.assert_allclose(logged.observation, seen.observation, atol=1e-6)
        np.testing.assert_allclose(logged.before, seen.before)
    found = check_log(patch, decisions)
    assert (found.decisions, found.shortened, found.cut_short) == (10, 6, 5)
    assert found.violating == judge_decisions(patch_judge(patch), trace).violations.sum() / 6
    assert found.speedup == sum(decision.positions[-1] for decision in taken) / sum(len(d.positions) for d in taken)
    sent, done = sum(d.executed for d in result.decisions), sum(d.done for d in result.decisions)
    # Whoever logs cannot know that the episode ended before the last command was sent.
    assert found.speedup == (done + 2.0) / (sent + 1)


def test_a_log_that_does_not_say_what_was_sent_before_is_judged_all_the_same(patch_folder, log):
    decisions = [dataclasses.replace(decision, before=np.zeros((0, 14))) for decision in read_decisions(log)]
    assert check_log(load_patch(patch_folder), decisions).decisions == 7


def test_a_log_of_another_robot_is_refused(patch_folder, log):
    wrong = [
        dataclasses.replace(
            decision, chunk=np.zeros((12, 7)), commands=np.zeros((len(decision.positions), 7)), before=np.zeros((0, 7))
        )
        for decision in read_decisions(log)
    ]
    with pytest.raises(InputError, match="belongs to another patch"):
        check_log(load_patch(patch_folder), wrong)


def test_the_command_prints_it(patch_folder, log, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sup", "check", str(patch_folder), "--log", str(log), "--json"])
    main()
    assert json.loads(capsys.readouterr().out)["fallbacks"] == {"unfamiliar state": 1}
