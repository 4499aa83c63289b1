"""What `sup check` says of figures like a patch's."""

import importlib.util
import json
from pathlib import Path

import pytest

from speedup_patch.known_outcomes import (
    ASSET,
    Outcome,
    outcome_lines,
    outcomes_like,
    read_outcomes,
)

ROOT = Path(__file__).parents[1]
SOME = (
    Outcome(0, 3.0, 0.00, 2.4, 0.0),
    Outcome(1, 4.0, 0.02, 2.0, -0.05),
    Outcome(2, 2.0, 0.10, None, -0.30),
)


@pytest.mark.parametrize(
    ("violating", "robots", "lost", "change", "share"),
    [(0.0, 1, 0, 0.0, 0.8), (0.05, 2, 0, -0.025, 0.65), (0.5, 3, 1, -0.35 / 3, 0.65)],
)
def test_robots_with_figures_no_worse_are_counted(violating, robots, lost, change, share):
    known = outcomes_like(violating, 100, SOME)
    assert (known.robots, known.of, known.lost) == (robots, 3, lost)
    assert known.success_change == pytest.approx(change)
    assert known.speedup_share == pytest.approx(share)


def test_where_no_robot_had_such_figures_all_are():
    known = outcomes_like(0.0, 100, SOME[1:])
    assert (known.robots, known.of, known.violating) == (2, 2, 0.10)
    assert "none had figures as good" in outcome_lines(known)[0]


def test_the_words_name_how_many_lost():
    (line,) = outcome_lines(outcomes_like(0.5, 100, SOME))
    assert "3 had figures no worse" in line
    assert "1 of 3 lost more than 5 points" in line
    assert "-11.7 points" in line
    assert "65% of the predicted one" in line


def test_what_the_package_says_is_what_the_committed_table_says():
    spec = importlib.util.spec_from_file_location("known_outcomes_script", ROOT / "benchmarks/known_outcomes.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    results = json.loads((ROOT / script.RESULTS).read_text())
    assert script.outcomes(results) == json.loads(ASSET.read_text())
    episodes, robots = read_outcomes()
    assert episodes > 0
    assert robots
