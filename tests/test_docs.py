"""The documentation says what is so: quick starts run as printed, and every option and link in it exists."""

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speedup_patch.baselines import OneRatePerChunk
from speedup_patch.evaluation.rollout import run_episode
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.engine import Engine
from stand_ins import LaggingEnv, ReplayPolicy, smooth_demonstrations

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
QUICK_STARTS = [ROOT / "docs" / "quickstart" / f"{name}.md" for name in ("faster", "trust", "research")]

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")
COMMAND = re.compile(r"^(?:    )?(sup (?:[^\n\\]|\\\n)*(?:\n {8}--[^\n]*)*)", re.MULTILINE)

SMALLER = {
    "collect": {"--episodes": "2"},
    "train": {"--steps": "20", "--rates": "1,2"},
    "eval": {"--episodes": "1", "--processes": "1"},
}
"""What a test changes in a command, so that it takes seconds instead of minutes."""


def make_smaller(command: str) -> list[str]:
    words = shlex.split(command, comments=True)
    assert words[0] == "sup"
    for option, value in SMALLER.get(words[1], {}).items():
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return [sys.executable, "-c", "from speedup_patch.cli import main; main()", *words[1:]]


def test_the_quick_starts_run_as_printed(tmp_path: Path) -> None:
    """In one folder, for the later pages go on with what the first one makes."""
    for page in QUICK_STARTS:
        found = BLOCK.findall(page.read_text(encoding="utf-8"))
        assert "python" in {language for language, _ in found}, page.name
        for language, text in found:
            lines = [make_smaller(line) for line in text.splitlines()] if language == "sh" else []
            for command in lines or [[sys.executable, "-c", text]]:
                run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=3600)
                assert run.returncode == 0, f"{page.name}: {text}\n{run.stderr}"
    assert {path.name for path in tmp_path.glob("*.patch")} == {"my.patch", "careful.patch"}


def test_the_scheduler_of_ones_own_decides_as_documented() -> None:
    """The class that is printed, on a robot that costs nothing: every decision is its own, none a fallback."""
    blocks = BLOCK.findall((ROOT / "docs" / "quickstart" / "research.md").read_text(encoding="utf-8"))
    (printed,) = (text for _, text in blocks if "class SlowWhenFar" in text)
    names: dict[str, Any] = {}
    exec(printed[: printed.index("env = ")], names)
    episode = smooth_demonstrations(steps=96).episodes[0]
    farther = 0.5 / np.median(distances(episode.actions))  # half of the chunks go farther than 0.5
    episode = replace(episode, actions=episode.actions[0] + farther * (episode.actions - episode.actions[0]))
    engine = Engine(ALOHA, lambda: OneRatePerChunk(names["SlowWhenFar"]()))
    policy = ScheduledPolicy(ReplayPolicy(episode, 12), engine)
    result = run_episode(LaggingEnv(episode), policy, seed=0)
    assert policy.fallbacks == {}
    expected = np.where(distances(episode.actions) > 0.5, 12, 4)
    assert set(expected) == {4, 12}
    assert [decision.executed for decision in result.decisions][: len(expected)] == expected.tolist()


def distances(actions: np.ndarray) -> np.ndarray:
    """How far the action that moves most goes in every chunk of 12."""
    return np.abs(np.diff(actions.reshape(-1, 12, 14), axis=1)).sum(axis=1).max(axis=1)


def test_every_option_that_is_named_exists(sup) -> None:
    named: dict[str, set[str]] = {}
    for page in PAGES:
        for command in COMMAND.findall(page.read_text(encoding="utf-8")):
            name = command.split()[1]
            named.setdefault(name, set()).update(re.findall(r"(?<![\w-])--[a-z][a-z-]*", command))
    assert {"train", "check", "eval", "serve", "inspect", "collect"} <= set(named)
    for name, options in named.items():
        code, explained, error = sup(name, "--help")
        assert code == 0, f"sup {name}: {error}"
        unknown = options - set(re.findall(r"--[a-z][a-z-]*", explained))
        assert not unknown, f"sup {name} has no {', '.join(unknown)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    made_by_the_site = {"examples.md"}
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert link in made_by_the_site or (page.parent / link).exists(), link
