"""``lerobot-eval --policy.type=speedup_patch``, found by LeRobot as a plugin (run with ``make test-lerobot``)."""

import json
import subprocess
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
from vision_operators import declare_missing_operators  # noqa: E402

declare_missing_operators()
from small_lerobot import save_checkpoint, small_act  # noqa: E402
from speedup_patch.runtime.decision_log import read_decisions  # noqa: E402

pytestmark = pytest.mark.lerobot

Evaluate = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def evaluate(run_module: Callable[..., subprocess.Popen[str]], tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """Runs lerobot-eval with these options and gives what it wrote, with the length of every episode's film."""
    import av

    entry = next(point for point in distribution("lerobot").entry_points if point.name == "lerobot-eval")

    def run(*options: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("evaluation")
        common = ("--policy.type=speedup_patch", "--policy.device=cpu", f"--output_dir={folder}")
        with run_module(entry.module, *common, *options, folder=folder) as process:
            printed, _ = process.communicate(timeout=400)
        assert process.returncode == 0, printed[-4000:]
        result = json.loads((folder / "eval_info.json").read_text())["per_task"][0]["metrics"]
        films = [av.open(path) for path in result["video_paths"]]
        return result | {"steps": [sum(1 for _ in film.decode(video=0)) for film in films]}

    return run


def test_the_committed_policy_is_sped_up(evaluate: Evaluate, insertion_patch: Path, tmp_path: Path) -> None:
    common = (
        "--policy.base=bundled:aloha/insertion",
        f"--policy.patch={insertion_patch}",
        "--env.type=aloha_state",
        "--env.task=insertion",
        "--eval.n_episodes=4",
        "--eval.batch_size=2",
    )
    base = evaluate(*common, "--policy.max_rate=1")
    patched = evaluate(*common, f"--policy.log={tmp_path}")
    print(f"control steps, base {base['steps']}, patched {patched['steps']}")
    assert sum(base["successes"]) >= 3
    assert sum(patched["successes"]) >= 3
    solved = np.array(base["successes"]) & np.array(patched["successes"])
    assert np.mean(np.array(patched["steps"])[solved]) < 0.85 * np.mean(np.array(base["steps"])[solved])
    rates = [len(decision.chunk) / decision.executed for decision in read_decisions(tmp_path)]
    assert len(set(rates)) > 1  # it chooses, from one decision to the next
    assert all(decision.executed <= len(decision.chunk) == 24 for decision in read_decisions(tmp_path))


def test_a_checkpoint_that_sees_cameras_runs_in_the_stock_environment(evaluate: Evaluate, tmp_path: Path) -> None:
    base = save_checkpoint(small_act(camera=(3, 48, 64)), tmp_path / "base")
    result = evaluate(
        f"--policy.base={base}",
        "--policy.patch=fixed:2",
        "--policy.robot=aloha",
        f"--policy.log={tmp_path / 'log'}",
        "--env.type=aloha",
        "--env.task=AlohaInsertion-v0",
        "--env.episode_length=15",
        "--eval.n_episodes=1",
        "--eval.batch_size=1",
    )
    assert result["successes"] == [False]
    logged = read_decisions(tmp_path / "log")
    assert [(len(decision.chunk), decision.executed) for decision in logged] == [(24, 12), (24, 12)]
