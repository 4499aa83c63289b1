"""An evaluation in which decisions fail is an error, not a table."""

import pytest

from speedup_patch.evaluation import run
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.runtime.engine import Engine

TASK = "aloha/insertion"


class Failing:
    """A stand-in scheduler that fails as it is told to."""

    error: Exception

    def schedule(self, observation, chunk):
        raise self.error

    def reset(self):
        pass


@pytest.fixture
def failing(monkeypatch):
    """Every scheduler of an evaluation is this one, and its episodes run in this process."""

    def here(config, tasks, processes, traced):
        worker = run._Worker(config.env, config.policy, traced)
        for task in tasks:
            yield task.spec, worker.run(task)

    monkeypatch.setattr(run, "_run_tasks", here)
    monkeypatch.setattr(
        run, "schedule_policy", lambda spec, policy, robot: ScheduledPolicy(policy, Engine(robot, Failing))
    )
    return Failing


ARGUMENTS = ("eval", TASK, "--policy", f"bundled:{TASK}", "--scheduler", "fixed:2", "--episodes", "1", "--out")


def test_a_decision_that_fails_ends_the_evaluation_by_name(sup, failing, tmp_path, monkeypatch):
    monkeypatch.setattr(failing, "error", ZeroDivisionError("nothing to divide by"), raising=False)
    code, out, error = sup(*ARGUMENTS, tmp_path / "run")
    assert code == 1
    assert "scheduler fixed:2, seed 0: the decision before step 0 failed, ZeroDivisionError: nothing to div" in error
    assert "success" not in out
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_programmers_mistake_ends_the_evaluation(sup, failing, tmp_path, monkeypatch):
    monkeypatch.setattr(failing, "error", TypeError("choose() takes 3 positional arguments"), raising=False)
    with pytest.raises(TypeError, match="takes 3 positional"):  # Python ends with the traceback and code 1
        sup(*ARGUMENTS, tmp_path / "run")
    assert not (tmp_path / "run" / "results.json").exists()
